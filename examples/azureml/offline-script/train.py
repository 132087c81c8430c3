"""A script that runs on its own, and in a run."""

import azureml.core
from azureml.core import Run
from azureml.core.run import _OfflineRun

print("SDK version:", azureml.core.VERSION)

run = Run.get_context()
if isinstance(run, _OfflineRun) or run.id.startswith("OfflineRun"):
    print("no run around this script: data comes from this folder")
    workspace = None
else:
    workspace = run.experiment.workspace
    print("part of run", run.id, "in workspace", workspace.name)

run.tag("mode", "offline" if workspace is None else "online")
run.log("accuracy", 0.75)
run.log_list("losses", [3, 2, 1])
