"""Submit a project of Azure ML Workbench by its run configuration, for several regularization rates."""

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import RunConfiguration

ws = Workspace.from_config()
experiment = Experiment(ws, "workbench")

configuration = RunConfiguration.load(path=".", name="local")
print(configuration.script, configuration.arguments)

for rate in (0.25, 0.125):
    run = experiment.submit(ScriptRunConfig(".", arguments=[str(rate)], run_config=configuration))
    run.wait_for_completion(show_output=True)
    print(run.get_metrics())
