"""Curated environments: built-in ones under Azure's names, for code that requests them.

Azure has hundreds, one for each version of a framework and its platform, and retires them after a while. Here the name
is parsed: the family gives the packages, the numbers the minimal version. Operating system, CUDA and Python in the name
are not promised: they depend on the target, and the build log shows them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from windlass.client.exceptions import ResourceNotFound

if TYPE_CHECKING:
    from windlass.client.environments.environment import Environment

_PREFIX = "AzureML-"
_SCIENCE = ("numpy", "scipy", "pandas", "scikit-learn", "joblib", "matplotlib")
# Family: the package whose version is in the name, and the other packages.
_FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "minimal": ("", ()),
    "tutorial": ("", (*_SCIENCE, "pyarrow", "seaborn")),
    "sklearn": ("scikit-learn", ("numpy", "scipy", "pandas", "joblib", "matplotlib")),
    "scikit-learn": ("scikit-learn", ("numpy", "scipy", "pandas", "joblib", "matplotlib")),
    "pytorch": ("torch", ("torchvision", "numpy", "pandas", "matplotlib", "tensorboard")),
    "tensorflow": ("tensorflow", ("numpy", "pandas", "matplotlib", "tensorboard")),
    "lightgbm": ("lightgbm", _SCIENCE),
    "xgboost": ("xgboost", _SCIENCE),
    "responsibleai": ("", (*_SCIENCE, "shap")),
    "automl": ("", (*_SCIENCE, "lightgbm", "xgboost")),
}
_NAME = re.compile(
    rf"azureml-(?:acpt-)?(?P<family>{'|'.join(_FAMILIES)})(?:-(?P<version>\d+(?:\.\d+)*))?(?P<rest>-.*)?\Z",
    re.IGNORECASE,
)
_PYTHON = re.compile(r"-py(3)\.?(\d+)", re.IGNORECASE)
# The listed names; others of the same families are found too.
NAMES = (
    "AzureML-Minimal",
    "AzureML-Tutorial",
    "AzureML-sklearn-1.5",
    "AzureML-sklearn-1.0-ubuntu20.04-py38-cpu",
    "AzureML-sklearn-0.24-ubuntu18.04-py37-cpu",
    "AzureML-PyTorch-1.6-CPU",
    "AzureML-PyTorch-1.6-GPU",
    "AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu",
    "AzureML-TensorFlow-2.3-CPU",
    "AzureML-TensorFlow-2.3-GPU",
    "AzureML-tensorflow-2.11-cuda11",
    "AzureML-lightgbm-3.2-ubuntu18.04-py37-cpu",
    "AzureML-AutoML",
)


def is_curated(name: str) -> bool:
    return name.lower().startswith(_PREFIX.lower())


def find(name: str) -> Environment:
    """The environment of that name; the error for an unknown one suggests similar names."""
    from windlass.client.environments.conda_dependencies import CondaDependencies
    from windlass.client.environments.environment import Environment

    read = _NAME.match(name)
    if read is None:
        raise ResourceNotFound(f"There is no curated environment {name}.", _suggestion(name))
    pip = [*packages_of(read.group("family").lower(), read.group("version")), "azureml-defaults"]
    python = _PYTHON.search(read.group("rest") or "")
    made = Environment(name)
    made.version = made._found_as = "1"
    made.python.conda_dependencies = CondaDependencies.create(
        pip_packages=pip, python_version=f"{python.group(1)}.{python.group(2)}" if python else None
    )
    return made


def packages_of(family: str, version: str | None, comparison: str = ">=") -> list[str]:
    """The pip packages of a family, its framework in that version or, unless `comparison` is "==", a newer one."""
    package, others = _FAMILIES[family]
    return [*([f"{package}{comparison}{version}" if version else package] if package else []), *others]


def list_all() -> dict[str, Environment]:
    return {name: find(name) for name in NAMES}


def _suggestion(name: str) -> str:
    import difflib

    known = {_bare(other): other for other in NAMES}
    near = difflib.get_close_matches(_bare(name), known, n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(known[other] for other in near)}?" if near else f"There is {', '.join(NAMES)}."


def _bare(name: str) -> str:
    """The name without the common prefix."""
    return name[len(_PREFIX) :].lower()
