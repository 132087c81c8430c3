"""Register a local folder as a model, and use it in a run."""

import json
import os

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.model import Model
from azureml.exceptions import WebserviceException

ws = Workspace.from_config()

try:
    model = Model(ws, name="mean-model")
except WebserviceException:
    os.makedirs("model", exist_ok=True)
    with open("model/mean.json", "w") as file:
        json.dump({"mean": 10.5}, file)
    model = Model.register(workspace=ws, model_path="model", model_name="mean-model", tags={"kind": "mean"})
print(model.name, model.version, model.tags)

environment = Environment("user-managed")
environment.python.user_managed_dependencies = True
config = ScriptRunConfig(source_directory=".", script="score.py", environment=environment)
run = Experiment(ws, "score-with-model").submit(config)
run.wait_for_completion(show_output=True)
print("score:", run.get_metrics()["score"])
