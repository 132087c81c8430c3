"""The secrets that the run around this script was granted. They are in no file that has a name: the script inherits an
open one, whose number is in WINDLASS_SECRETS_FD. In a container, WINDLASS_SECRETS_FILE names one that is in memory.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from windlass.client.exceptions import UserErrorException

if TYPE_CHECKING:
    from collections.abc import Iterator

FD = "WINDLASS_SECRETS_FD"
FILE = "WINDLASS_SECRETS_FILE"
_PIECE = 1 << 20


def is_in_run() -> bool:
    """Whether this process acts for a run, by the token of that."""
    return bool(os.environ.get("WINDLASS_RUN_TOKEN"))


def read() -> dict[str, str]:
    """Name and value of each; none if the run was granted none."""
    if not os.environ.get(FD) and not os.environ.get(FILE):
        return {}
    run = os.environ.get("WINDLASS_RUN_ID")
    for content in _contents():
        try:
            said = json.loads(content)
            if said["run"] == run:
                return {str(name): str(value) for name, value in said["secrets"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # something else has that number here
    raise UserErrorException(
        "The secrets of this run cannot be read in this process: the file that its script inherited is closed here.",
        "Read them in the script itself, before it starts others.",
    )


def get(name: str) -> str:
    found = read()
    if name not in found:
        raise UserErrorException(
            f"Run {os.environ.get('WINDLASS_RUN_ID')} was not granted a secret {name}.",
            f"Name it when the run is submitted: run_config.secrets = [{name!r}], or --secret {name}.",
        )
    return found[name]


def _contents() -> Iterator[bytes]:
    """What the file may be, wherever this process finds it: who starts others mostly closes what they do not know."""
    for look in (_inherited, _of_script, _named):
        try:
            yield look()
        except (OSError, ValueError, KeyError):
            continue


def _inherited() -> bytes:
    return _whole(int(os.environ[FD]))


def _of_script() -> bytes:
    """Of the process that the run was started with."""
    with open(os.path.join(os.environ["WINDLASS_RUN_FOLDER"], "claim", "process.json"), encoding="ascii") as file:
        pid = int(json.load(file)["pid"])
    return _open(f"/proc/{pid}/fd/{int(os.environ[FD])}")


def _named() -> bytes:
    return _open(os.environ[FILE])


def _open(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _whole(fd)
    finally:
        os.close(fd)


def _whole(fd: int) -> bytes:
    """Read at offsets: the place in the file is shared with every process that has it."""
    pieces: list[bytes] = []
    while True:
        piece = os.pread(fd, _PIECE, sum(map(len, pieces)))
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
