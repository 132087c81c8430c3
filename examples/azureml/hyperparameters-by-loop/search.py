"""Try several learning rates, one run each, and register the model of the best one."""

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.runconfig import RunConfiguration

ws = Workspace.from_config()
experiment = Experiment(ws, "hyperparameters-by-loop")

run_config = RunConfiguration()
run_config.target = "local"
run_config.environment.python.user_managed_dependencies = True

runs = []
for learning_rate in [0.01, 0.1, 0.5, 1.0]:
    config = ScriptRunConfig(
        source_directory=".", script="train.py", arguments=["--learning-rate", learning_rate], run_config=run_config
    )
    run = experiment.submit(config, tags={"learning_rate": str(learning_rate)})
    runs.append(run)

for run in runs:
    run.wait_for_completion()

best = min(runs, key=lambda run: run.get_metrics()["mse"][-1])
print("best learning rate:", best.get_tags()["learning_rate"])
best.tag("best", "true")
model = best.register_model(model_name="best-line", model_path="outputs/line.json")
print(model.name, model.version)
