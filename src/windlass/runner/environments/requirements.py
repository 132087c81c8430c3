"""Requirement lines of an environment: package names, which installer takes which line, and which are left out."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .interpreters import is_plain

_NAME = re.compile(r"\s*(?:[^\s:\[\]=<>]+::)?([A-Za-z0-9_][A-Za-z0-9._-]*)")
# A version in a conda spec: `=3.8`, `==3.8.1`, `3.8.*`, `=3.8.1=build`.
_ONE_VERSION = re.compile(r"(={0,2})\s*(\d[\w.]*?)(\.?\*)?(?:[=\s]\s*\w+)?\Z")
# A file that came with the run: `wheel:<sha256>/<size>/<file name>`, perhaps with [extras] and a marker.
_SENT = re.compile(r"wheel:([0-9a-f]{64})/\d+/([A-Za-z0-9][\w.+!-]*)(\[[\w.,\s-]*\])?(\s*;.*)?\Z")
_PROJECT = re.compile(r"(.+?)-\d")  # in a file name
# Tools of every environment; they alone need no conda environment.
_TOOLS = ("pip", "setuptools", "wheel")
# The distributions of the original SDK. A package that depends on one works without it: the runner puts ours on the
# script's path. The resolver gets them as overrides, so that their dependencies are not installed either.
_SDK_NAMES = (
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
# Families that keep getting new members.
_SDK_FAMILIES = tuple(f"azureml-{family}-" for family in ("automl", "contrib", "dataprep", "pipeline", "train"))


def name_of(requirement: str) -> str:
    """The package name in a line of pip or conda, in lower case; empty if there is none."""
    found = _NAME.match(requirement)
    return found.group(1).lower() if found else ""


def is_sdk(requirement: str) -> bool:
    """Whether it is a distribution of the original SDK. Others may have names that begin alike."""
    name = re.sub(r"[-_.]+", "-", name_of(requirement))
    return name in _SDK_NAMES or name.startswith(_SDK_FAMILIES)


def without_sdk(requirements: Iterable[str]) -> Tuple[List[str], List[str]]:
    """Two lists: the lines to install, and those of the original SDK, which windlass provides."""
    listed = list(requirements)
    return [requirement for requirement in listed if not is_sdk(requirement)], [
        requirement for requirement in listed if is_sdk(requirement)
    ]


def conda_requirements(spec: Dict[str, Any]) -> List[str]:
    """The specs for conda, Python first; empty if a virtual environment is enough."""
    requirements, _ = without_sdk(spec.get("conda") or ())
    if all(name_of(requirement) in ("python", *_TOOLS) for requirement in requirements):
        return []
    python = [requirement for requirement in requirements if name_of(requirement) == "python"] or [
        _python_requirement(wanted_python(spec))
    ]
    return [*python, *(requirement for requirement in requirements if name_of(requirement) != "python")]


def _python_requirement(wanted: Optional[str]) -> str:
    return f"python={wanted}" if wanted and is_plain(wanted) else f"python{wanted or ''}"


def pip_requirements(spec: Dict[str, Any]) -> List[str]:
    """The lines for pip: its own list, and the tools."""
    return [*tool_requirements(spec), *without_sdk(spec.get("pip") or ())[0]]


def image_requirements(spec: Dict[str, Any]) -> List[str]:
    """The lines for pip in an image. It has the tools already: they are installed only if a version is named."""
    bare = {requirement for requirement in tool_requirements(spec) if requirement in _TOOLS}
    return [requirement for requirement in pip_requirements(spec) if requirement not in bare]


def tool_requirements(spec: Dict[str, Any]) -> List[str]:
    """The tools in conda's list as pip lines, if no conda environment is built."""
    if conda_requirements(spec):
        return []
    # pip's own list takes precedence.
    named = {name_of(line) for line in spec.get("pip") or () if sent_file(line) is None}
    listed = [requirement for requirement in spec.get("conda") or () if name_of(requirement) in _TOOLS]
    return list(dict.fromkeys(_as_pip(requirement) for requirement in listed if name_of(requirement) not in named))


def _as_pip(requirement: str) -> str:
    """A conda spec as a pip line."""
    rest = _rest(requirement)
    one = _ONE_VERSION.match(rest)
    if one is None:
        return f"{name_of(requirement)}{rest}"
    is_exact = one.group(1) != "=" and not one.group(3)
    return f"{name_of(requirement)}=={one.group(2)}{'' if is_exact else '.*'}"


def wanted_python(spec: Dict[str, Any]) -> Optional[str]:
    """The requested Python: a version ("3.10"), or comparisons (">=3.8,<3.10"); None for any."""
    listed = (_rest(requirement) for requirement in spec.get("conda") or () if name_of(requirement) == "python")
    wanted = str(spec.get("python_version") or next(listed, "")).strip()
    one = _ONE_VERSION.match(wanted)
    return one.group(2) if one else wanted or None


def _rest(requirement: str) -> str:
    """The part of a line after the name."""
    found = _NAME.match(requirement)
    return requirement[found.end() :].strip() if found else ""


class SentFile(NamedTuple):
    """A wheel that came with the run, and the extras and marker of its line."""

    digest: str
    name: str
    extras: str
    marker: str

    def line_at(self, path: str) -> str:
        """The line for the installer, which mistakes some characters of a path for parts of a URL."""
        from urllib.parse import quote

        project = _PROJECT.match(self.name)
        if project is None or quote(path) == path:
            return f"{path}{self.extras}{self.marker}"
        return f"{project.group(1)}{self.extras} @ file://{quote(path)} {self.marker}".rstrip()


def sent_file(requirement: str) -> Optional[SentFile]:
    found = _SENT.match(requirement.strip())
    return SentFile(*found.groups("")) if found else None


def overrides() -> List[str]:
    """Overrides for the resolver: the original SDK is needed nowhere."""
    return [f"{name}; sys_platform == 'none'" for name in _SDK_NAMES]
