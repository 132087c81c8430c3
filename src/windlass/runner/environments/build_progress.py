"""How far a build is: read from its log and from the folder that it fills, and written where the host sees it."""

from __future__ import annotations

import glob
import re
import time
from typing import Callable, Dict

from ..workdir.run_folder import RunFolder

_REPORT_SECONDS = 1.0
_LONGEST_LINE = 1000
_MOST_READ = 1 << 16
_ANY = re.compile(rb"\s*(?:Resolved|Install|Download|Prepared|Step|[0-9a-f]+[: ])")
# What each installed package leaves below the folder of an environment.
_PIP = "lib/python3*/site-packages/*.dist-info"
_CONDA = "conda-meta/*.json"
# uv, pip, micromamba and our own part that runs rattler (rattler.py).
_RESOLVED = re.compile(rb"Resolved (\d+) packages?\b")
_SOLVED = re.compile(rb"(?:\s*Install: (\d+) packages\b|(\d+) packages, .* found in )")
_COLLECTED = re.compile(rb"Installing collected packages: (.+)")
_DOWNLOADING = re.compile(rb"\s*Downloading (\S+) \(([^()]+)\)")
_DOWNLOADED = re.compile(rb"\s*Downloaded (\S+)")
_PREPARED = re.compile(rb"Prepared \d+ packages?\b")
# Docker: a layer of an image that is pulled, and a step of a Dockerfile.
_LAYER = re.compile(rb"([0-9a-f]{12}): (Pulling fs layer|Already exists|Pull complete)\s*\Z")
_STEP = re.compile(rb"Step (\d+)/(\d+) :")


class BuildProgress:
    """Fed with the log of a build. `prefix` is the folder of the environment, if one is built."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._rest = b""
        self.restart()

    def restart(self) -> None:
        """Another process builds it from the beginning."""
        self._total = 0
        self._before = 0  # packages that were installed when the total was known
        self._traces = _PIP
        self._downloads: Dict[bytes, bytes] = {}
        self._layers: Dict[bytes, bool] = {}  # whether each is there
        self._step = ""

    def feed(self, data: bytes) -> None:
        """Of much at once only the end is read: a build may print faster than lines can be looked at."""
        *lines, rest = (self._rest + data)[-_MOST_READ:].split(b"\n")
        self._rest = rest[:_LONGEST_LINE]
        for line in lines:
            if _ANY.match(line):
                self._read(line)

    def _read(self, line: bytes) -> None:
        if (found := _RESOLVED.match(line)) is not None:
            self._expect(int(found.group(1)), _PIP)
        elif _COLLECTED.match(line):
            self._expect(len(line.split(b",")), _PIP)
        elif (found := _SOLVED.match(line)) is not None:
            self._expect(int(found.group(1) or found.group(2)), _CONDA)
        elif (found := _DOWNLOADING.match(line)) is not None:
            if found.group(1).endswith((b".whl", b".tar.gz")):
                self._downloads.clear()  # pip downloads one by one, and does not say when it is done
            self._downloads[found.group(1)] = found.group(2)
        elif (found := _DOWNLOADED.match(line)) is not None:
            self._downloads.pop(found.group(1), None)
        elif _PREPARED.match(line):
            self._downloads.clear()
        elif (found := _LAYER.match(line)) is not None:
            self._layers[found.group(1)] = found.group(2) != b"Pulling fs layer"
        elif (found := _STEP.match(line)) is not None:
            self._step = f"step {int(found.group(1))} of {int(found.group(2))}"

    def _expect(self, total: int, traces: str) -> None:
        self._total, self._traces = total, traces
        self._before = self._installed()
        self._downloads.clear()

    def words(self) -> str:
        """As people read it; empty if nothing is known."""
        if self._layers and not self._total:
            return f"{sum(self._layers.values())} of {len(self._layers)} layers"
        words = [self._packages() if self._total else self._step, self._download()]
        return "; ".join(filter(None, words))

    def _packages(self) -> str:
        installed = self._installed()
        if not installed and not self._has_folder():
            return f"installing {self._total} packages"  # in a container, where they cannot be counted
        return f"{max(0, min(installed - self._before, self._total))} of {self._total} packages installed"

    def _download(self) -> str:
        if not self._downloads:
            return ""
        name, size = next(iter(self._downloads.items()))
        more = f" and {len(self._downloads) - 1} more" if len(self._downloads) > 1 else ""
        return f"downloading {name.decode('utf-8', 'replace')} ({size.decode('utf-8', 'replace')}){more}"

    def _has_folder(self) -> bool:
        return bool(glob.glob(f"{glob.escape(self._prefix)}/*"))

    def _installed(self) -> int:
        return len(glob.glob(f"{glob.escape(self._prefix)}/{self._traces}"))


class Stage:
    """What a run is doing before its script has begun, for whoever follows it: `claim/stage.json`."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._message = ""
        self._told = ""
        self._report_at = 0.0

    def begin(self, message: str) -> None:
        """The next part of its preparation, also kept among the events of the run."""
        self._message = message
        self._folder.tell("preparing", message=message)
        self._tell("Preparing", message)

    def report(self, progress: Callable[[], str]) -> None:
        """How far that is; asked for at most once a second."""
        if not self._message or time.monotonic() < self._report_at:
            return
        words = progress()
        self._tell("Preparing", f"{self._message}: {words}" if words else self._message)

    def end(self, message: str = "") -> None:
        """What was begun is done. With a message, it takes a moment until the script begins."""
        if self._message and message:
            self._tell("Starting", message)
        elif self._message:
            self._folder.clear_stage()
        self._message = ""

    def place(self, message: str) -> None:
        """Its files are copied, before anything is prepared."""
        self._message = message
        self._tell("Starting", message)

    def _tell(self, stage: str, message: str) -> None:
        self._report_at = time.monotonic() + _REPORT_SECONDS
        if (told := f"{stage}: {message}") != self._told:
            self._told = told
            self._folder.set_stage(stage, message)
