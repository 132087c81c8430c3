"""Train by a generic estimator."""

from azureml.core import Experiment, Workspace
from azureml.train.estimator import Estimator

ws = Workspace.from_config()
experiment = Experiment(ws, "estimator")

script_params = {"--regularization": 0.5, "--epochs": 3, "--verbose": ""}
estimator = Estimator(
    source_directory=".",
    script_params=script_params,
    compute_target="local",
    entry_script="train.py",
    user_managed=True,
    max_run_duration_seconds=600,
)
print(estimator.run_config.arguments)

run = experiment.submit(estimator, tags={"by": "estimator"})
run.wait_for_completion(show_output=True)

again = experiment.submit(estimator, script_params={"--epochs": 1})
again.wait_for_completion()
print(run.get_metrics(), again.get_metrics())
