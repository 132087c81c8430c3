"""Train once for each alpha, side by side, and pick the best. Run it with: python submit.py"""

import pathlib

from windlass import Experiment, ScriptRunConfig, Workspace

here = pathlib.Path(__file__).resolve().parent
experiment = Experiment(Workspace.from_config(), "alphas")

runs = [
    experiment.submit(ScriptRunConfig(source_directory=str(here), script="train.py", arguments=["--alpha", alpha]))
    for alpha in (0.0, 0.01, 0.1, 1.0)
]
for run in runs:
    run.wait_for_completion()

best = min(runs, key=lambda run: run.get_metrics()["mse"][-1])
for run in runs:
    metrics = run.get_metrics()
    mark = "  <- best" if run is best else ""
    print(f"{run.id}  alpha {metrics['alpha']:<5}  mse {metrics['mse'][-1]:.4f}{mark}")
best.download_file("outputs/model.json", output_file_path=str(here / "best.json"))
print("best.json:", (here / "best.json").read_text())
