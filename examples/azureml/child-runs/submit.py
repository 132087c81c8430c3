"""Submit a run that has children, and look at the family."""

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

ws = Workspace.from_config()
environment = Environment("user-managed")
environment.python.user_managed_dependencies = True

config = ScriptRunConfig(source_directory=".", script="parent.py", environment=environment)
run = Experiment(ws, "child-runs").submit(config)
run.wait_for_completion(show_output=True)

for child in run.get_children():
    child.wait_for_completion()
    print(child.parent.id == run.id, child.get_status(), child.get_metrics(), child.get_tags())

everything = run.get_metrics(recursive=True)
print(len(everything), "runs with metrics")
