"""What can be learnt about a run, from its details to its logs."""

import os

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from azureml.exceptions import ActivityFailedException

ws = Workspace.from_config()
experiment = Experiment(ws, "run-details")
environment = Environment("user-managed")
environment.python.user_managed_dependencies = True

run = experiment.submit(ScriptRunConfig(".", "train.py", ["--alpha", 0.5], environment=environment))
print(run)
print(run.get_portal_url().startswith("http"))
run.wait_for_completion()

details = run.get_details()
print(details["runId"] == run.id, details["status"], details["target"])
print(details["runDefinition"]["script"], details["runDefinition"]["arguments"])
print(details["startTimeUtc"] <= details["endTimeUtc"], sorted(details["logFiles"]))
print(run.get_detailed_status())

with_logs = run.get_details_with_logs()
print("in the log:", any("hello from the log" in text for text in with_logs["logFiles"].values()))
print([os.path.basename(path) for path in run.get_all_logs(destination="logs-of-the-run")])

failing = experiment.submit(ScriptRunConfig(".", "train.py", ["--fail"], environment=environment))
try:
    failing.wait_for_completion()
except ActivityFailedException as error:
    print("failed:", "as asked" in error.message)
print(failing.get_details()["error"]["error"]["code"])

found = Run.get(ws, run.id)
print(found.id == run.id, found.number, [other.id == failing.id for other in experiment.get_runs()])
