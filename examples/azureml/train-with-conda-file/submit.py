"""Train with the packages of a conda file."""

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.environment import Environment

ws = Workspace.from_config()

environment = Environment.from_conda_specification(name="small", file_path="environment.yml")
config = ScriptRunConfig(source_directory=".", script="train.py", compute_target="local", environment=environment)

run = Experiment(ws, "train-with-conda-file").submit(config)
run.wait_for_completion(show_output=True)

used = run.get_environment()
print("environment:", used.name, list(used.python.conda_dependencies.pip_packages))
