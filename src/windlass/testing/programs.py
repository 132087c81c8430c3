"""Programs that the laws run: Python scripts, and the same behaviour as variables of the dummy driver."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from windlass.core.digests import snapshot_digest
from windlass.core.entities import SnapshotFile

SCRIPT = "main.py"


@dataclass(frozen=True)
class Program:
    """Test program. `code` becomes main.py; `acts` are variables that make the dummy driver behave the same."""

    code: str
    acts: Mapping[str, str] = field(default_factory=dict)


def exits(code: int) -> Program:
    return Program(f"raise SystemExit({code})", {"DUMMY_EXIT": str(code)})


# Its output is one line: its arguments in JSON.
ARGUMENTS = Program("import json, sys; print(json.dumps(sys.argv[1:]))")

SLEEPS = Program(
    "import time; print('[]\\nup', flush=True); time.sleep(600)", {"DUMMY_SLEEP": "600", "DUMMY_LOG": "up\n"}
)

STUBBORN = Program(
    r"""
import signal, subprocess, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
# One write a line: print() makes two of it when output is not buffered, and those of two processes may mix.
stubborn_child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'up\\n'); time.sleep(600)"
print([], flush=True)
# One in the family, one that ran away into a session of its own.
subprocess.Popen([sys.executable, "-c", stubborn_child])
subprocess.Popen([sys.executable, "-c", stubborn_child], start_new_session=True)
time.sleep(600)
""",
    {"DUMMY_SLEEP": "600", "DUMMY_IGNORE_TERM": "1", "DUMMY_LOG": "up\nup\n"},
)


class MemoryBundle:
    """Snapshot in memory. The first open() of a path in `flaws` fails, like a transient error of the store."""

    def __init__(self, files: Mapping[str, bytes], flaws: Sequence[str] = ()) -> None:
        self._contents = {hashlib.sha256(data).hexdigest(): data for data in files.values()}
        self._files = [
            SnapshotFile(path, hashlib.sha256(data).hexdigest(), len(data)) for path, data in sorted(files.items())
        ]
        self._flaws = {file.digest for file in self._files if file.path in flaws}

    @property
    def digest(self) -> str:
        return snapshot_digest(self._files)

    def files(self) -> Sequence[SnapshotFile]:
        return self._files

    def open(self, digest: str) -> BinaryIO:
        if digest in self._flaws:
            self._flaws.remove(digest)
            raise OSError("the snapshot cannot be read just now")
        return io.BytesIO(self._contents[digest])


def printed_arguments(log: bytes) -> list[str]:
    """The arguments that the script saw. It ran once: there is one such line, the first."""
    arguments: list[str] = json.loads(log.splitlines()[0])
    return arguments
