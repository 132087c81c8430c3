"""Distributions of Azure's SDK: they are not installed, since the runner puts Windlass on the script's path instead."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from windlass.client.environments import requirements

if TYPE_CHECKING:
    from collections.abc import Iterable

# The same names as in runner/environments/requirements.py.
NAMES = (
    "azureml", "mltable",
    *(f"azureml-{rest}" for rest in (
        "accel-models", "automl-core", "automl-dnn-nlp", "automl-dnn-vision", "automl-runtime", "cli-common",
        "contrib-automl-pipeline-steps", "contrib-dataset", "contrib-fairness", "contrib-interpret", "contrib-notebook",
        "contrib-pipeline-steps", "contrib-services", "core", "datadrift", "dataprep", "dataprep-native",
        "dataprep-rslex", "dataset-runtime", "defaults", "designer-core", "explain-model", "fsspec",
        "inference-server-http", "interpret", "metrics", "mlflow", "model-management-sdk", "monitoring", "opendatasets",
        "pipeline", "pipeline-core", "pipeline-steps", "requirements", "responsibleai", "samples", "sdk",
        "services", "telemetry", "tensorboard", "train", "train-automl", "train-automl-client", "train-automl-runtime",
        "train-core", "train-restclients-hyperdrive", "training-tabular", "webservice-schema", "widgets",
    )),
)  # fmt: skip
FAMILIES = tuple(f"azureml-{family}-" for family in ("automl", "contrib", "dataprep", "pipeline", "train"))
# Dependencies of these distributions that scripts import and no list of packages names.
_COMPANIONS = {
    "mlflow": re.compile(r"azureml-mlflow\b"),
    "pandas": re.compile(r"azureml-(?:dataprep|dataset-runtime)\s*\[[^\]]*\bpandas\b"),
}


def is_sdk(line: str) -> bool:
    """Whether a line names one of these distributions. Files and addresses are never taken for one."""
    if "://" in line or line.startswith("wheel:") or requirements.is_file(line):
        return False
    name = re.sub(r"[-_.]+", "-", requirements.name_of(line.rpartition("::")[2]))
    return name in NAMES or name.startswith(FAMILIES)


def warn_of_companions(lines: Iterable[str]) -> None:
    """Print a warning for packages that will be missing because the SDK's distributions are not installed."""
    listed = list(lines)
    for companion, bringer in _COMPANIONS.items():
        brought = [line for line in listed if bringer.match(line.lower().replace("_", "-"))]
        if brought and not any(requirements.name_of(line) == companion for line in listed):
            _warn(
                f"{brought[0]} is not installed, and {companion} does not come with it. "
                f"Name {companion} too if the script imports it."
            )


@lru_cache(maxsize=None)  # print each warning once per process
def _warn(line: str) -> None:
    print(f"Warning: {line}", file=sys.stderr)
