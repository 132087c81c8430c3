"""Ridge regression with one feature, for several strengths of the regularisation."""

import os
import pickle

import mylib
from azureml.core import Run

os.makedirs("./outputs", exist_ok=True)
run = Run.get_context()

xs = [-2.0, -1.0, 0.0, 1.0, 2.0]
ys = [-3.9, -2.1, 0.1, 1.9, 4.0]

for alpha in mylib.get_alphas():
    coefficient = sum(x * y for x, y in zip(xs, ys)) / (sum(x * x for x in xs) + alpha)
    mse = sum((coefficient * x - y) ** 2 for x, y in zip(xs, ys)) / len(xs)
    run.log("alpha", alpha)
    run.log("mse", mse)
    model_file_name = f"ridge_{alpha:.2f}.pkl"
    with open(os.path.join("./outputs", model_file_name), "wb") as file:
        pickle.dump({"coefficient": coefficient}, file)
    print(f"alpha is {alpha:.2f}, and mse is {mse:0.2f}")
