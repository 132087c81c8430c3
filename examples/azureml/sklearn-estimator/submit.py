"""Train by the estimator of scikit-learn, in an environment that is managed by its user."""

from azureml.core import Environment, Experiment, Workspace
from azureml.train.sklearn import SKLearn

ws = Workspace.from_config()

# Without an environment, the estimator installs scikit-learn and its companions.
print([package for package in SKLearn(source_directory=".").conda_dependencies.pip_packages])

environment = Environment("sklearn-by-hand")
environment.python.user_managed_dependencies = True
estimator = SKLearn(
    source_directory=".",
    compute_target="local",
    entry_script="train.py",
    script_params={"--kernel": "rbf", "--penalty": 1.5},
    environment_definition=environment,
)
run = Experiment(ws, "sklearn-estimator").submit(estimator)
run.wait_for_completion(show_output=True)
print("accuracy:", run.get_metrics()["accuracy"])
