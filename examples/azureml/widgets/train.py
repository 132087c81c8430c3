"""Log as it goes, so that there is something to watch."""

import math
import time

from azureml.core import Run

run = Run.get_context()
for step in range(30):
    run.log("loss", math.exp(-step / 10))
    run.log_row("rates", learning=0.1 / (step + 1), momentum=0.9)
    print(f"step {step}: loss {math.exp(-step / 10):.3f}")
    time.sleep(0.05)
