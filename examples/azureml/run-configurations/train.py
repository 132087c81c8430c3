"""Print the arguments and the variables that the run configuration gave."""

import os
import sys

from azureml.core import Run

run = Run.get_context()
run.log_list("arguments", sys.argv[1:])
run.log("mode", os.environ.get("MODE", "none"))
