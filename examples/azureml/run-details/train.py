"""Succeed, or fail as asked."""

import sys

from azureml.core import Run

run = Run.get_context()
run.log("answer", 42)
print("hello from the log")
if "--fail" in sys.argv:
    raise ValueError("as asked")
