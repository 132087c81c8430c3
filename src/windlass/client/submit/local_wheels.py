"""Wheels of this computer as pip requirements: uploaded with the run, and named by digest in its environment.

In an environment that is sent, such a line is `wheel:<sha256>/<size>/<file name>`. So another content is another
environment. The bytes are uploaded with the files of the snapshot, and listed in its manifest.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from windlass.client.environments import requirements
from windlass.client.exceptions import UserErrorException

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.submit.snapshot import File

# Their folder in the manifest of a snapshot; the runner does not put them beside the script.
FOLDER = ".windlass/wheels"
_REFERENCE = re.compile(r"wheel:([0-9a-f]{64})/(\d{1,15})/([A-Za-z0-9][\w.+!-]*)(\[[\w.,\s-]*\])?(\s*;.*)?\Z")
_WHEEL_NAME = re.compile(r"[^-]+-[^-]+(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl\Z")
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_FOR_WINDOWS = re.compile(r"-win(?:32|_\w+)\.whl(?:#\S*)?\s*\Z", re.IGNORECASE)


class Wheels:
    """The wheels of one environment. `bases` are folders that relative paths may start from."""

    def __init__(self, bases: Sequence[str] = ()) -> None:
        self._bases = list(bases)
        self._files: dict[str, File] = {}

    def files(self) -> list[File]:
        """Their entries for the manifest of a snapshot."""
        return list(self._files.values())

    def resolve(self, line: str, base: str | None = None) -> str:
        """The line as it is sent: a path of this computer becomes a reference, and its file is collected."""
        if line.startswith("wheel:"):
            self._keep(parse(line), "")
            return line
        if _FOR_WINDOWS.search(line) and os.name != "nt":
            raise UserErrorException(
                f"{line} is a wheel for Windows, and runs are on Linux.",
                "Name the package itself, or its wheel for Linux.",
            )
        if not requirements.is_file(line):
            return line
        path = self._find(requirements.target_of(line), base)
        from windlass.client.http import embedded_server
        from windlass.client.submit import snapshot

        file = snapshot.digest_file(path, embedded_server.home())
        rest = re.search(r"(\[[\w.,\s-]*\])?(\s*;.*)?\Z", line.partition("@")[2] or line)
        reference = Reference(file.digest, file.size, os.path.basename(path), rest.group() if rest else "")
        self._keep(reference, path)
        return str(reference)

    def _keep(self, reference: Reference, location: str) -> None:
        from windlass.client.submit.snapshot import File

        path = f"{FOLDER}/{reference.digest[:16]}/{reference.name}"
        if location or path not in self._files:
            self._files[path] = File(path, reference.digest, reference.size, False, location)

    def _find(self, target: str, base: str | None) -> str:
        if target.lower().startswith("file:"):
            target = unquote(target[5:])
            target = target[2:] if target.startswith("//") else target
            target = target[len("localhost") :] if target.startswith("localhost/") else target
        if _WINDOWS.match(target) and os.name != "nt":
            raise UserErrorException(
                f"{target} is a path of Windows, and this computer is none.",
                "Put the wheel beside the script and name it like ./wheels/name-1.0-py3-none-any.whl.",
            )
        path = self._first_file(os.path.expanduser(target), base)
        if path.endswith(".whl") and not _WHEEL_NAME.match(os.path.basename(path)):
            raise UserErrorException(
                f"{target} does not have the name of a wheel, which tells what it is for.",
                "Give it the name that it was built with, like name-1.0-py3-none-any.whl.",
            )
        if not path.endswith((".whl", ".tar.gz", ".zip")):
            raise UserErrorException(f"{target} is not a wheel.", "pip wheel --no-deps FOLDER makes one of a folder.")
        return path

    def _first_file(self, target: str, base: str | None) -> str:
        places = [os.path.join(folder, target) for folder in [*([base] if base else []), os.getcwd(), *self._bases]]
        found = [place for place in places if os.path.isfile(place)]
        if not found:
            is_folder = any(os.path.isdir(place) for place in places)
            what = "is a folder, and a package is sent as a wheel" if is_folder else "is not there"
            raise UserErrorException(
                f"{places[0]} {what}.", "pip wheel --no-deps FOLDER makes a wheel of a folder." if is_folder else ""
            )
        return os.path.abspath(found[0])


class Reference(NamedTuple):
    digest: str
    size: int
    name: str
    rest: str = ""  # extras and marker

    def __str__(self) -> str:
        return f"wheel:{self.digest}/{self.size}/{self.name}{self.rest}"


def parse(line: str) -> Reference:
    found = _REFERENCE.match(line.strip())
    if found is None:
        raise UserErrorException(
            f"{line[:100]} does not name a wheel of the workspace.",
            "Environment.add_private_pip_wheel() returns such names.",
        )
    digest, size, name, extras, marker = found.groups("")
    return Reference(digest, int(size), name, extras + marker)
