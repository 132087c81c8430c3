"""Run configurations of the first generation (PascalCase keys), as Azure ML Workbench wrote them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from windlass.client import yaml
from windlass.client.conda_dependencies import CondaDependencies
from windlass.client.exceptions import RunConfigurationException

if TYPE_CHECKING:
    from windlass.client.runconfig import RunConfiguration

# Stands for the script that is named when the run is submitted.
PLACEHOLDER = "$file"


def fill(configuration: RunConfiguration, body: dict[str, Any], base: str) -> None:
    words = body.get("ArgumentVector") or []
    if not isinstance(words, list):
        raise RunConfigurationException("ArgumentVector must be a list: the script and its arguments.")
    words = [str(word) for word in words]
    configuration.script = words[0] if words and words[0] != PLACEHOLDER else None
    configuration.arguments = words[1:]
    if body.get("Target"):
        configuration.target = str(body["Target"])
    configuration.framework = str(body.get("Framework") or "PySpark")
    configuration.environment_variables = {str(k): str(v) for k, v in (body.get("EnvironmentVariables") or {}).items()}
    configuration.history.output_collection = bool(body.get("TrackedRun", True))
    _packages(configuration, body, base)


def _packages(configuration: RunConfiguration, body: dict[str, Any], base: str) -> None:
    conda_file = body.get("CondaDependenciesFile")
    if conda_file:
        configuration.environment.python.conda_dependencies_file = str(conda_file)
        configuration.environment.python.conda_dependencies = CondaDependencies(os.path.join(base, str(conda_file)))
    spark_file = body.get("SparkDependenciesFile")
    if spark_file and configuration.framework == "PySpark":
        spark = yaml.load(os.path.join(base, str(spark_file)))
        configuration.spark.fill(spark)
        configuration.environment.spark.fill(spark)
