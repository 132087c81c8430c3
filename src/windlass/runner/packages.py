"""What an environment asks for, line by line: which packages, by whom they are installed, and which are left out."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

_NAME = re.compile(r"\s*(?:[^\s:\[\]=<>]+::)?([A-Za-z0-9_][A-Za-z0-9._-]*)")
_SDK = re.compile(r"azureml($|[-_.])")
_VERSION = re.compile(r"\d+(\.\d+)*")
# A file that came with the run: `wheel:<sha256>/<size>/<file name>`, perhaps with [extras] and a marker.
_SENT = re.compile(r"wheel:([0-9a-f]{64})/\d+/([A-Za-z0-9][\w.+!-]*)((?:\[[\w.,\s-]*\])?(?:\s*;.*)?)\Z")
# They come with a virtual environment, or are the installer itself; alone they make no conda environment.
_OF_EVERY_ENVIRONMENT = ("python", "pip", "setuptools", "wheel")
# The distributions of the original SDK. A package that depends on one gets along without it: the runner puts ours on
# the script's path. The names are told to the resolver, so that what they in turn depend on does not come either.
_SDK_NAMES = (
    "azureml",
    *(f"azureml-{rest}" for rest in (
        "accel-models", "automl-core", "automl-dnn-nlp", "automl-dnn-vision", "automl-runtime", "cli-common",
        "contrib-automl-pipeline-steps", "contrib-dataset", "contrib-fairness", "contrib-interpret", "contrib-notebook",
        "contrib-pipeline-steps", "contrib-services", "core", "datadrift", "dataprep", "dataprep-native",
        "dataprep-rslex", "dataset-runtime", "defaults", "designer-core", "explain-model", "fsspec",
        "inference-server-http", "interpret", "metrics", "mlflow", "model-management-sdk", "monitoring", "opendatasets",
        "pipeline", "pipeline-core", "pipeline-steps", "requirements", "responsibleai", "sdk", "services",
        "telemetry", "tensorboard", "train", "train-automl", "train-automl-client", "train-automl-runtime",
        "train-core", "train-restclients-hyperdrive", "training-tabular", "widgets",
    )),
)  # fmt: skip
# numpy took away what the code of that time uses (np.float) in 1.24.
_LAST_OLD_PYTHON = (3, 7)
_OLD_NUMPY = "numpy<1.24"
_NEWEST_PYTHON_OF_OLD_NUMPY = (3, 11)


def name_of(wish: str) -> str:
    found = _NAME.match(wish)
    return found.group(1).lower() if found else ""


def is_sdk(wish: str) -> bool:
    return bool(_SDK.match(name_of(wish)))


def without_sdk(wishes: Iterable[str]) -> Tuple[List[str], List[str]]:
    """What is to be installed, and what windlass provides itself."""
    listed = list(wishes)
    return [wish for wish in listed if not is_sdk(wish)], [wish for wish in listed if is_sdk(wish)]


def conda_wishes(spec: Dict[str, Any]) -> List[str]:
    """What conda is to install, Python first; nothing if a virtual environment has all of it."""
    wishes, _ = without_sdk(spec.get("conda") or ())
    if all(name_of(wish) in _OF_EVERY_ENVIRONMENT for wish in wishes):
        return []
    version = spec.get("python_version")
    python = [wish for wish in wishes if name_of(wish) == "python"] or [f"python={version}" if version else "python"]
    return [*python, *(wish for wish in wishes if name_of(wish) != "python")]


def wanted_python(spec: Dict[str, Any]) -> Optional[str]:
    """The version of Python that was asked for, as far as it is one."""
    if spec.get("python_version"):
        return str(spec["python_version"])
    for wish in spec.get("conda") or ():
        found = _VERSION.search(wish) if name_of(wish) == "python" else None
        if found:
            return found.group()
    return None


def sent(wish: str) -> Optional[Tuple[str, str, str]]:
    """Of a file that came with the run: digest, name, and what else the line says."""
    found = _SENT.match(wish.strip())
    return (found.group(1), found.group(2), found.group(3)) if found else None


def overrides() -> List[str]:
    """For the resolver: the original SDK is needed nowhere."""
    return [f"{name}; sys_platform == 'none'" for name in _SDK_NAMES]


def constraints(wishes: Iterable[str], wanted: Optional[str], used: str) -> List[str]:
    """For the resolver: what keeps code running that is for a Python of long ago. Who names a version gets it."""
    is_old = wanted is not None and _is_upto(wanted, _LAST_OLD_PYTHON) and _is_upto(used, _NEWEST_PYTHON_OF_OLD_NUMPY)
    is_chosen = any(name_of(wish) == "numpy" and wish.strip().lower() != "numpy" for wish in wishes)
    return [_OLD_NUMPY] if is_old and not is_chosen else []


def _is_upto(version: str, last: Tuple[int, int]) -> bool:
    numbers = [int(word) for word in re.findall(r"\d+", version)[:2]]
    return len(numbers) == 2 and tuple(numbers) <= last
