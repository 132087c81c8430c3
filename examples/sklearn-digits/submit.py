"""Submit train.py with an environment of its own: uv builds it once, every later run reuses it."""

import pathlib

from windlass import Environment, Experiment, ScriptRunConfig, Workspace

here = pathlib.Path(__file__).resolve().parent
environment = Environment.from_pip_requirements("sklearn", str(here / "requirements.txt"))

run = Experiment(Workspace.from_config(), "digits").submit(
    ScriptRunConfig(
        source_directory=str(here), script="train.py", arguments=["--alpha", 0.001], environment=environment
    )
)
run.wait_for_completion(show_output=True)

metrics = run.get_metrics()
print(f"accuracy {metrics['accuracy'][-1]:.4f} after {len(metrics['accuracy'])} epochs")
print("files:", *run.get_file_names(), sep="\n  ")
