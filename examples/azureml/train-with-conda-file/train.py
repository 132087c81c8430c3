"""Use a package of the environment."""

import humanize
from azureml.core import Run

run = Run.get_context()
run.log("version of humanize", humanize.__version__)
print("trained on", humanize.intcomma(1234567), "samples")
