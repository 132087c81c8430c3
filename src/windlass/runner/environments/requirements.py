"""What an environment asks for, line by line: which packages, by whom they are installed, and which are left out."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .interpreters import is_plain

_NAME = re.compile(r"\s*(?:[^\s:\[\]=<>]+::)?([A-Za-z0-9_][A-Za-z0-9._-]*)")
# What a line of conda's says of one version: `=3.8`, `==3.8.1`, `3.8.*`, `=3.8.1=build`.
_ONE_VERSION = re.compile(r"(={0,2})\s*(\d[\w.]*?)(\.?\*)?(?:[=\s]\s*\w+)?\Z")
# A file that came with the run: `wheel:<sha256>/<size>/<file name>`, perhaps with [extras] and a marker.
_SENT = re.compile(r"wheel:([0-9a-f]{64})/\d+/([A-Za-z0-9][\w.+!-]*)(\[[\w.,\s-]*\])?(\s*;.*)?\Z")
_PROJECT = re.compile(r"(.+?)-\d")  # of a file's name
# What an environment is made with; alone they make no conda environment.
_TOOLS = ("pip", "setuptools", "wheel")
# The distributions of the original SDK. A package that depends on one gets along without it: the runner puts ours on
# the script's path. The names are told to the resolver, so that what they in turn depend on does not come either.
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
# Of these there were ever more.
_SDK_FAMILIES = tuple(f"azureml-{family}-" for family in ("automl", "contrib", "dataprep", "pipeline", "train"))


def name_of(wish: str) -> str:
    found = _NAME.match(wish)
    return found.group(1).lower() if found else ""


def is_sdk(wish: str) -> bool:
    """Whether it is of the original SDK. What only begins like it is somebody's own."""
    name = re.sub(r"[-_.]+", "-", name_of(wish))
    return name in _SDK_NAMES or name.startswith(_SDK_FAMILIES)


def without_sdk(wishes: Iterable[str]) -> Tuple[List[str], List[str]]:
    """What is to be installed, and what windlass provides itself."""
    listed = list(wishes)
    return [wish for wish in listed if not is_sdk(wish)], [wish for wish in listed if is_sdk(wish)]


def conda_wishes(spec: Dict[str, Any]) -> List[str]:
    """What conda is to install, Python first; nothing if a virtual environment has all of it."""
    wishes, _ = without_sdk(spec.get("conda") or ())
    if all(name_of(wish) in ("python", *_TOOLS) for wish in wishes):
        return []
    python = [wish for wish in wishes if name_of(wish) == "python"] or [_python_wish(wanted_python(spec))]
    return [*python, *(wish for wish in wishes if name_of(wish) != "python")]


def _python_wish(wanted: Optional[str]) -> str:
    return f"python={wanted}" if wanted and is_plain(wanted) else f"python{wanted or ''}"


def pip_wishes(spec: Dict[str, Any]) -> List[str]:
    """What pip is to install: its own list, and the tools."""
    return [*tool_wishes(spec), *without_sdk(spec.get("pip") or ())[0]]


def image_wishes(spec: Dict[str, Any]) -> List[str]:
    """The same for an image. It has tools of its own: others are installed where a version is named."""
    bare = {wish for wish in tool_wishes(spec) if wish in _TOOLS}
    return [wish for wish in pip_wishes(spec) if wish not in bare]


def tool_wishes(spec: Dict[str, Any]) -> List[str]:
    """The tools that conda's list names, in the words of pip, where no conda environment is made."""
    if conda_wishes(spec):
        return []
    named = {name_of(wish) for wish in spec.get("pip") or () if sent(wish) is None}  # which has the last word
    listed = [wish for wish in spec.get("conda") or () if name_of(wish) in _TOOLS]
    return list(dict.fromkeys(_for_pip(wish) for wish in listed if name_of(wish) not in named))


def _for_pip(wish: str) -> str:
    """A line of conda's in the words of pip."""
    rest = _rest(wish)
    one = _ONE_VERSION.match(rest)
    if one is None:
        return f"{name_of(wish)}{rest}"
    is_exact = one.group(1) != "=" and not one.group(3)
    return f"{name_of(wish)}=={one.group(2)}{'' if is_exact else '.*'}"


def wanted_python(spec: Dict[str, Any]) -> Optional[str]:
    """What was asked of Python: a version ("3.10"), or comparisons (">=3.8,<3.10")."""
    listed = (_rest(wish) for wish in spec.get("conda") or () if name_of(wish) == "python")
    wanted = str(spec.get("python_version") or next(listed, "")).strip()
    one = _ONE_VERSION.match(wanted)
    return one.group(2) if one else wanted or None


def _rest(wish: str) -> str:
    """What stands behind the name."""
    found = _NAME.match(wish)
    return wish[found.end() :].strip() if found else ""


class Sent(NamedTuple):
    """A file that came with the run, and what else its line says."""

    digest: str
    name: str
    extras: str
    marker: str

    def at(self, path: str) -> str:
        """The line for the installer, which takes some signs of a path for parts of an address."""
        from urllib.parse import quote

        project = _PROJECT.match(self.name)
        if project is None or quote(path) == path:
            return f"{path}{self.extras}{self.marker}"
        return f"{project.group(1)}{self.extras} @ file://{quote(path)} {self.marker}".rstrip()


def sent(wish: str) -> Optional[Sent]:
    found = _SENT.match(wish.strip())
    return Sent(*found.groups("")) if found else None


def overrides() -> List[str]:
    """For the resolver: the original SDK is needed nowhere."""
    return [f"{name}; sys_platform == 'none'" for name in _SDK_NAMES]
