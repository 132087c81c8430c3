"""What the parent submits."""

import argparse

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float)
args = parser.parse_args()

run = Run.get_context()
run.log("alpha", args.alpha)
run.log("parent", run.parent.id)
