"""Fit a line by gradient descent; how well that goes depends on the learning rate."""

import argparse
import json
import os

from azureml.core.run import Run

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, dest="learning_rate", default=0.1)
parser.add_argument("--steps", type=int, default=50)
args = parser.parse_args()

run = Run.get_context()
run.log("learning_rate", args.learning_rate)

xs = [0.0, 0.25, 0.5, 0.75, 1.0]
ys = [2 * x + 1 for x in xs]
slope = intercept = 0.0
for _ in range(args.steps):
    errors = [slope * x + intercept - y for x, y in zip(xs, ys)]
    slope -= args.learning_rate * sum(e * x for e, x in zip(errors, xs)) / len(xs)
    intercept -= args.learning_rate * sum(errors) / len(xs)
    run.log("mse", sum(e * e for e in errors) / len(xs))

os.makedirs("outputs", exist_ok=True)
with open("outputs/line.json", "w") as file:
    json.dump({"slope": slope, "intercept": intercept}, file)
