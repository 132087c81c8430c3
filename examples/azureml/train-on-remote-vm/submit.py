"""Attach a machine that SSH reaches, unless it is attached already, and train there.

The machine is named by VM_ADDRESS, VM_USER and VM_PASSWORD (or VM_KEY, the file of a private key).
"""

import os

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import ComputeTarget, RemoteCompute
from azureml.core.compute_target import ComputeTargetException

ws = Workspace.from_config()
compute_target_name = "cpudsvm"

try:
    attached = RemoteCompute(workspace=ws, name=compute_target_name)
    print("found existing:", attached.name)
except ComputeTargetException:
    attach_config = RemoteCompute.attach_configuration(
        address=os.environ["VM_ADDRESS"],
        ssh_port=int(os.environ.get("VM_PORT", "22")),
        username=os.environ["VM_USER"],
        password=os.environ.get("VM_PASSWORD", ""),
        private_key_file=os.environ.get("VM_KEY", ""),
    )
    attached = ComputeTarget.attach(workspace=ws, name=compute_target_name, attach_configuration=attach_config)
    attached.wait_for_completion(show_output=True)

environment = Environment("on-the-vm")
environment.python.user_managed_dependencies = True
environment.python.interpreter_path = "python3"

config = ScriptRunConfig(source_directory=".", script="train.py", compute_target=attached, environment=environment)
run = Experiment(workspace=ws, name="train-on-remote-vm").submit(config=config)
run.wait_for_completion(show_output=True)
run.download_file(name="outputs/host.txt", output_file_path="host.txt")
print(ws.compute_targets[compute_target_name].provisioning_state)
