"""Reader of the secrets that a script's run was granted. The script inherits the descriptor of an unnamed file, in
WINDLASS_SECRETS_FD. In a container, WINDLASS_SECRETS_FILE is the path of a file in memory.
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
    """Whether this process belongs to a run, which it knows by the run's token."""
    return bool(os.environ.get("WINDLASS_RUN_TOKEN"))


def read() -> dict[str, str]:
    """{name: value}; empty if the run was granted none."""
    if not os.environ.get(FD) and not os.environ.get(FILE):
        return {}
    run = os.environ.get("WINDLASS_RUN_ID")
    for content in _contents():
        try:
            document = json.loads(content)
            if document["run"] == run:
                return {str(name): str(value) for name, value in document["secrets"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # in this process the descriptor is another file's
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
    """The candidates for the file's content. Programs that start processes mostly close inherited descriptors, so the
    script's own descriptor is tried too.
    """
    for read_candidate in (_read_descriptor, _read_descriptor_of_script, _read_file):
        try:
            yield read_candidate()
        except (OSError, ValueError, KeyError):
            continue


def _read_descriptor() -> bytes:
    return _read_all(int(os.environ[FD]))


def _read_descriptor_of_script() -> bytes:
    """The descriptor of the run's first process."""
    with open(os.path.join(os.environ["WINDLASS_RUN_FOLDER"], "claim", "process.json"), encoding="ascii") as file:
        pid = int(json.load(file)["pid"])
    return _read_path(f"/proc/{pid}/fd/{int(os.environ[FD])}")


def _read_file() -> bytes:
    return _read_path(os.environ[FILE])


def _read_path(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _read_all(fd)
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    """Read with pread(): the file's position is shared by all processes that have the descriptor."""
    pieces: list[bytes] = []
    while True:
        piece = os.pread(fd, _PIECE, sum(map(len, pieces)))
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
