"""The smallest training script: it prints, logs a metric and leaves a file."""

import pathlib
import time

from windlass import Run

run = Run.get_context()  # also works without Windlass: then it prints what it would have logged

loss = 1.0
for step in range(5):
    loss *= 0.7
    print(f"step {step}: loss {loss:.3f}")
    run.log("loss", loss)
    time.sleep(0.2)

outputs = pathlib.Path("outputs")  # whatever is in here when the script ends belongs to the run's record
outputs.mkdir(exist_ok=True)
(outputs / "loss.txt").write_text(f"{loss:.6f}\n")
