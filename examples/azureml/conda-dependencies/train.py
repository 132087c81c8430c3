"""Show that the package that was asked for is there, in the environment that was asked for."""

import os

import humanize
from azureml.core.run import Run

run = Run.get_context()
run.log("count", len(humanize.naturalsize(10**6)))
print(os.environ["GREETING"], humanize.naturalsize(10**6))
