"""Save a run configuration, load it, and submit by its name."""

import os

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import RunConfiguration

ws = Workspace.from_config()
experiment = Experiment(ws, "run-configurations")

configuration = RunConfiguration()
configuration.script = "train.py"
configuration.arguments = ["--quick", "yes"]
configuration.environment.python.user_managed_dependencies = True
configuration.environment.environment_variables["MODE"] = "saved"
configuration.save(path=".", name="quick")
print(sorted(os.listdir(".azureml")))

loaded = RunConfiguration.load(path=".", name="quick")
assert loaded.arguments == ["--quick", "yes"]

by_object = experiment.submit(ScriptRunConfig(source_directory=".", run_config=loaded))
by_name = experiment.submit(ScriptRunConfig(source_directory=".", arguments=["--other"], run_config="quick"))
for run in (by_object, by_name):
    run.wait_for_completion()
    print(run.get_metrics())

loaded.delete(path=".", name="quick")
print(os.path.exists(".azureml/quick.runconfig"))
