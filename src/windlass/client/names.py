"""Name checks for the SDK: those of core/names.py, which raise UserErrorException here."""

from __future__ import annotations

from windlass.client.exceptions import refusing
from windlass.core import names

connection_name = refusing(names.connection_name)
digest = refusing(names.digest)
environment_name = refusing(names.environment_name)
environment_version = refusing(names.environment_version)
experiment_name = refusing(names.experiment_name)
image_reference = refusing(names.image_reference)
metric_name = refusing(names.metric_name)
model_name = refusing(names.model_name)
own_environment_name = refusing(names.own_environment_name)
relative_path = refusing(names.relative_path)
run_id = refusing(names.run_id)
secret_name = refusing(names.secret_name)
split_reference = refusing(names.split_reference)
target_name = refusing(names.target_name)
variable_name = refusing(names.variable_name)
wheel_name = refusing(names.wheel_name)
workspace_name = refusing(names.workspace_name)
