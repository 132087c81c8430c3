"""Cache of file digests, so that unchanged files are not read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client.submit.source_walk import SourceEntry

# A file that was modified less than this before it was read may be modified again with the same timestamp.
_GRAIN_NS = 100_000_000
_COARSE_GRAIN_NS = 2_500_000_000


class DigestCache:
    """The digests of one source folder, in a file of the home. If it is lost, the files are read again."""

    def __init__(self, home: str, folder: str) -> None:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._folders = home, os.path.join(home, "cache"), os.path.join(home, "cache", "digests")
        self._path = os.path.join(self._folders[-1], f"{name}.json")
        self._known = self._load()
        self._fresh: dict[str, list[str]] = {}
        self._is_stale = False
        self.changed: set[str] = set()  # paths whose content has changed since the last snapshot

    def get(self, file: SourceEntry) -> str | None:
        known = self._known.get(file.path)
        if known is None or known[0] != file.stamp:
            return None
        self._fresh[file.path] = known
        return known[1]

    def put(self, file: SourceEntry, digest: str) -> None:
        self._is_stale = True
        known = self._known.get(file.path)
        if known is None or known[1] != digest:
            self.changed.add(file.path)
        grain = _GRAIN_NS if file.mtime_ns % 1_000_000_000 else _COARSE_GRAIN_NS
        is_settled = time.time_ns() - file.mtime_ns > grain
        self._fresh[file.path] = [file.stamp if is_settled else "", digest]

    def save(self) -> None:
        """Write the entries of this snapshot; those of files that do not exist any more are dropped."""
        if not self._is_stale and len(self._fresh) == len(self._known):
            return
        aside = f"{self._path}.{os.getpid()}"
        try:
            for folder in self._folders:  # one by one: makedirs gives its mode to the last only
                os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(aside, "w", encoding="utf-8") as file:
                file.write(
                    json.dumps(self._fresh, separators=(",", ":"))
                )  # `dumps`, since `dump` takes four times as long
            os.replace(aside, self._path)
        except OSError:  # without a cache the next submit reads all files
            with contextlib.suppress(OSError):
                os.unlink(aside)

    def _load(self) -> dict[str, list[str]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}
