"""Fetch the files of a run."""

import os

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

ws = Workspace.from_config()
environment = Environment("user-managed")
environment.python.user_managed_dependencies = True

run = Experiment(ws, "files-of-a-run").submit(ScriptRunConfig(".", "train.py", environment=environment))
run.wait_for_completion()

names = run.get_file_names()
print([name for name in names if name.startswith(("outputs", "extra", "plots"))])

os.makedirs("fetched", exist_ok=True)
run.download_file(name="outputs/result.txt", output_file_path="fetched/result.txt")
run.download_files(prefix="plots", output_directory="fetched", append_prefix=True)
run.download_file("extra/notes.txt", output_file_path="fetched/")
for folder, _, files in sorted(os.walk("fetched")):
    print(folder, sorted(files))
