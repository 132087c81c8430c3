"""Resolves pyenv's shims without running them: each is a shell script that takes a tenth of a second."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional

from ..supervisor.launch import find_command

_VARIABLES = ("PYENV_VERSION", "PYENV_DIR")
_MAX_BYTES = 1024  # read of a .python-version
_SYSTEM = "system"


def program_of(path: str, folder: str, variables: Mapping[str, str]) -> str:
    """The program that a shim would execute in that folder, by pyenv's rules. The path itself if it is no shim, or if
    only pyenv can resolve it: by a plugin, or by variables of the run that name a version.
    """
    shims, name = os.path.split(path)
    root = os.path.dirname(shims)
    known: Dict[str, str] = {**os.environ, **variables}
    if os.path.basename(shims) != "shims" or not os.path.isdir(f"{root}/versions"):
        return path
    if any(known.get(variable) for variable in _VARIABLES):
        return path
    for version in _versions(root, folder):
        found = _outside_shims(shims, name) if version == _SYSTEM else f"{root}/versions/{version}/bin/{name}"
        if found is not None and os.path.isfile(found) and os.access(found, os.X_OK):
            return found
        if not os.path.isdir(f"{root}/versions/{version}"):
            return path  # an abbreviation such as 3.11, or a version that is not installed
    return path


def _versions(root: str, folder: str) -> List[str]:
    """The versions in the nearest .python-version, or in the account's global file."""
    at = os.path.abspath(folder)
    while True:
        found = _read(f"{at}/.python-version")
        if found is not None:
            return found or [_SYSTEM]
        if at == os.path.dirname(at):
            return _read(f"{root}/version") or [_SYSTEM]
        at = os.path.dirname(at)


def _read(path: str) -> Optional[List[str]]:
    """The first word of each line; None if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return None
    words = [line.split()[0] for line in lines if line.split() and not line.startswith("#")]
    return [word for word in words if "/" not in word and word != ".."]


def _outside_shims(shims: str, name: str) -> Optional[str]:
    """The program of that name on the PATH outside of the folder of shims."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return find_command(name, os.pathsep.join(each for each in folders if os.path.normpath(each) != shims))
