"""Describe the packages of a run in code."""

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.runconfig import RunConfiguration

ws = Workspace.from_config()

packages = CondaDependencies.create(pip_packages=["azureml-defaults"])
packages.add_pip_package("humanize==4.9.0")

run_config = RunConfiguration(framework="python", conda_dependencies=packages)
run_config.target = "local"
run_config.environment.python.user_managed_dependencies = False
run_config.environment.environment_variables = {"GREETING": "hello,"}
print(run_config.environment.python.conda_dependencies.serialize_to_string())

src = ScriptRunConfig(source_directory=".", script="train.py", run_config=run_config)
run = Experiment(ws, "conda-dependencies").submit(src)
run.wait_for_completion(show_output=True)
