"""Progress of a build: parsed from its log, counted in its folder, and written to `claim/stage.json` for the host."""

from __future__ import annotations

import glob
import re
import time
from typing import Callable, Dict

from ..workdir.run_folder import RunFolder

_REPORT_SECONDS = 1.0
_MAX_LINE = 1000
_MAX_READ = 1 << 16
_ANY = re.compile(rb"\s*(?:Resolved|Install|Download|Prepared|Step|[0-9a-f]+[: ])")
# One file or folder for each installed package, below the folder of an environment.
_PIP = "lib/python3*/site-packages/*.dist-info"
_CONDA = "conda-meta/*.json"
# Lines of uv, pip, micromamba and our own rattler program (rattler.py).
_RESOLVED = re.compile(rb"Resolved (\d+) packages?\b")
_SOLVED = re.compile(rb"(?:\s*Install: (\d+) packages\b|(\d+) packages, .* found in )")
_COLLECTED = re.compile(rb"Installing collected packages: (.+)")
_DOWNLOADING = re.compile(rb"\s*Downloading (\S+) \(([^()]+)\)")
_DOWNLOADED = re.compile(rb"\s*Downloaded (\S+)")
_PREPARED = re.compile(rb"Prepared \d+ packages?\b")
# Lines of Docker: a layer of an image that is pulled, and a step of a Dockerfile.
_LAYER = re.compile(rb"([0-9a-f]{12}): (Pulling fs layer|Already exists|Pull complete)\s*\Z")
_STEP = re.compile(rb"Step (\d+)/(\d+) :")


class BuildProgress:
    """Parser of a build log. `prefix` is the folder of the environment, if one is built."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._rest = b""
        self.restart()

    def restart(self) -> None:
        """Start over: another process builds it from the beginning."""
        self._total = 0
        self._before = 0  # packages already installed when the total became known
        self._installed_pattern = _PIP
        self._downloads: Dict[bytes, bytes] = {}
        self._layers: Dict[bytes, bool] = {}  # is it pulled
        self._step = ""

    def feed(self, data: bytes) -> None:
        """Parse more of the log; of a large piece only the end, since a build may print faster than we parse."""
        *lines, rest = (self._rest + data)[-_MAX_READ:].split(b"\n")
        self._rest = rest[:_MAX_LINE]
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

    def _expect(self, total: int, pattern: str) -> None:
        self._total, self._installed_pattern = total, pattern
        self._before = self._installed()
        self._downloads.clear()

    def summary(self) -> str:
        """The progress as text for people; empty if it is unknown."""
        if self._layers and not self._total:
            return f"{sum(self._layers.values())} of {len(self._layers)} layers"
        parts = [self._packages() if self._total else self._step, self._download()]
        return "; ".join(filter(None, parts))

    def _packages(self) -> str:
        installed = self._installed()
        if not installed and not self._has_folder():
            return f"installing {self._total} packages"  # in a container, where the files cannot be counted
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
        return len(glob.glob(f"{glob.escape(self._prefix)}/{self._installed_pattern}"))


class Stage:
    """Writer of `claim/stage.json`: what a run does before its script starts."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._message = ""
        self._reported = ""
        self._report_at = 0.0

    def begin(self, message: str) -> None:
        """Begin the next part of the preparation; it becomes an event of the run too."""
        self._message = message
        self._folder.append_event("preparing", message=message)
        self._write("Preparing", message)

    def report(self, progress: Callable[[], str]) -> None:
        """Write the progress of the current part. `progress` is called at most once a second."""
        if not self._message or time.monotonic() < self._report_at:
            return
        summary = progress()
        self._write("Preparing", f"{self._message}: {summary}" if summary else self._message)

    def end(self, message: str = "") -> None:
        """End the current part. With a message, that is shown until the script starts."""
        if self._message and message:
            self._write("Starting", message)
        elif self._message:
            self._folder.clear_stage()
        self._message = ""

    def place(self, message: str) -> None:
        """Show that the source files are copied, before any preparation."""
        self._message = message
        self._write("Starting", message)

    def _write(self, stage: str, message: str) -> None:
        self._report_at = time.monotonic() + _REPORT_SECONDS
        if (text := f"{stage}: {message}") != self._reported:
            self._reported = text
            self._folder.set_stage(stage, message)
