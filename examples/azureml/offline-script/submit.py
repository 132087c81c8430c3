"""The same script in a run."""

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import RunConfiguration

run_config = RunConfiguration()
run_config.environment.python.user_managed_dependencies = True

run = Experiment(Workspace.from_config(), "offline-script").submit(
    ScriptRunConfig(source_directory=".", script="train.py", run_config=run_config)
)
run.wait_for_completion(show_output=True)
