"""Train a model that is nothing but a mean."""

import json
import os

from azureml.core import Run

run = Run.get_context()
values = [3.0, 4.0, 8.0]
mean = sum(values) / len(values)
run.log("mean", mean)

os.makedirs("outputs/model", exist_ok=True)
with open("outputs/model/mean.json", "w") as file:
    json.dump({"mean": mean}, file)
