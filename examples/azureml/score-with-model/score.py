"""Score with a registered model, fetched by its name."""

import json
import os

from azureml.core import Run
from azureml.core.model import Model

run = Run.get_context()
path = Model.get_model_path("mean-model", _workspace=run.experiment.workspace)
print("the model is in", os.path.basename(path))

with open(os.path.join(path, "mean.json") if os.path.isdir(path) else path) as file:
    mean = json.load(file)["mean"]
run.log("score", mean * 2)
