"""A script with options and a flag."""

import argparse

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--regularization", type=float, default=0.01)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args()

run = Run.get_context()
for epoch in range(args.epochs):
    run.log("loss", args.regularization * (epoch + 1))
    if args.verbose:
        print("epoch", epoch)
