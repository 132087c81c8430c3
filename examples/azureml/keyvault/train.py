"""Use a secret of the workspace."""

from azureml.core import Run

run = Run.get_context()
password = run.get_secret(name="demo-password")
several = run.get_secrets(["demo-password", "there-is-none"])
run.log("length of the password", len(password))
run.log("missing", several["there-is-none"] is None)
print("the password is", password)
