"""Submit a script that logs metrics, and read them back."""

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

ws = Workspace.from_config()
experiment = Experiment(workspace=ws, name="logging-metrics")

environment = Environment("user-managed")
environment.python.user_managed_dependencies = True

config = ScriptRunConfig(source_directory=".", script="train.py", arguments=["--epochs", 4], environment=environment)
run = experiment.submit(config)
run.wait_for_completion(show_output=True)

metrics = run.get_metrics()
for name in sorted(metrics):
    print(name, "=", metrics[name])
print("losses only:", list(run.get_metrics(name="loss")))
