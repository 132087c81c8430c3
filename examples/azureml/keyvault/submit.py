"""Set a secret, use it in a run, and remove it."""

import uuid

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

ws = Workspace.from_config()
keyvault = ws.get_default_keyvault()
value = "secret-" + uuid.uuid4().hex
keyvault.set_secret(name="demo-password", value=value)
print([secret["name"] for secret in keyvault.list_secrets()])
assert keyvault.get_secret(name="demo-password") == value

environment = Environment("user-managed")
environment.python.user_managed_dependencies = True
run = Experiment(ws, "keyvault").submit(ScriptRunConfig(".", "train.py", environment=environment))
run.wait_for_completion(show_output=True)

logs = "".join(run.get_details_with_logs()["logFiles"].values())
print("the value is in the logs:", value in logs)
keyvault.delete_secret(name="demo-password")
