"""Ridge regression by gradient descent on made-up points; --alpha is how strongly large weights are punished."""

import argparse
import json
import pathlib
import random

from windlass import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=50)
args = parser.parse_args()

run = Run.get_context()
random.seed(0)
points = [(x, 3 * x + 2 + random.gauss(0, 0.5)) for x in (random.uniform(-1, 1) for _ in range(100))]

slope, offset = 0.0, 0.0
for _ in range(args.epochs):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= 0.3 * (sum(error * x for error, x in errors) / len(points) + args.alpha * slope)
    offset -= 0.3 * sum(error for error, _ in errors) / len(points)
    run.log("mse", sum(error * error for error, _ in errors) / len(points))

print(f"alpha {args.alpha}: y = {slope:.3f} x + {offset:.3f}")
run.log("alpha", args.alpha)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs/model.json").write_text(json.dumps({"slope": slope, "offset": offset}))
