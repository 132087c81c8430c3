"""Nearest neighbour on a few points, with the Python that is there."""

import argparse

from azureml.core.run import Run

parser = argparse.ArgumentParser()
parser.add_argument("--kernel", default="linear")
parser.add_argument("--penalty", type=float, default=1.0)
args = parser.parse_args()

run = Run.get_context()
run.log("kernel type", args.kernel)
run.log("penalty", args.penalty)

points = {(0.0, 0.0): "a", (0.1, 0.2): "a", (1.0, 1.0): "b", (0.9, 1.1): "b"}


def nearest(point):
    return points[min(points, key=lambda other: sum((p - q) ** 2 for p, q in zip(point, other)))]


tests = {(0.2, 0.1): "a", (0.8, 0.9): "b", (0.4, 0.3): "a", (0.6, 0.8): "b"}
run.log("accuracy", sum(nearest(point) == label for point, label in tests.items()) / len(tests))
