"""Snapshots: source trees by digest, as lists of files whose bytes are blobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import bindparam, select, update

from windlass.core.digests import snapshot_digest
from windlass.core.entities import Snapshot, SnapshotFile
from windlass.core.errors import InvalidRequest, NotFound, SnapshotIncomplete
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import snapshots
from windlass.store.files.blobs import Blobs

_USE_INTERVAL = timedelta(hours=1)  # the time of last use is not written more often
_KNOWN_SECONDS = 5.0  # a found snapshot is not looked up again: retention leaves it alone for longer

_ADD = insert_or(snapshots).on_conflict_do_nothing()
_FILES = select(snapshots.c.files).where(snapshots.c.digest == bindparam("named"))
_USED = select(snapshots.c.used_at).where(snapshots.c.digest == bindparam("named"))
_USE = (
    update(snapshots)
    .where(snapshots.c.digest == bindparam("named"))
    .values(used_at=bindparam("at"))
    .returning(snapshots.c.digest)
)


class Snapshots:
    """A snapshot with a row is complete, since its blobs are kept as long as the row: one query answers for all of its
    files.
    """

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs
        self._recent: Snapshot | None = None  # a cache: a submit reads it several times, and it may be long
        self._last_known: tuple[str, float] = "", 0.0

    def put(self, files: Sequence[SnapshotFile]) -> str:
        """Store a tree whose blobs all exist; SnapshotIncomplete names the digests that do not."""
        digest = snapshot_digest(files)
        if not self.known(digest):
            self._check(files)
            listed = [[file.path, file.digest, file.size, file.executable] for file in files]
            row = {"digest": digest, "files": listed, "size": sum(file.size for file in files), "used_at": now()}
            self._database.write(lambda c: c.execute(_ADD, row))
        return digest

    def get(self, digest: str) -> Snapshot:
        recent = self._recent  # read once: another thread may replace it
        if recent is not None and recent.digest == digest:
            return recent
        files = self._database.read(lambda c: c.execute(_FILES, {"named": digest}).scalar_one_or_none())
        if files is None:
            raise NotFound(f"There is no snapshot {digest}.")
        found = self._recent = Snapshot(digest, tuple(SnapshotFile(*file) for file in files))
        return found

    def known(self, digest: str) -> bool:
        """Whether the snapshot exists. This counts as a use: retention leaves it alone for a while."""
        known, until = self._last_known
        if known == digest and time.monotonic() < until:
            return True
        is_here = self._use(digest)
        if is_here:
            self._last_known = digest, time.monotonic() + _KNOWN_SECONDS
        return is_here

    def _use(self, digest: str) -> bool:
        used = self._database.read(lambda c: c.execute(_USED, {"named": digest}).scalar_one_or_none())
        if used is None or now() - used < _USE_INTERVAL:
            return used is not None
        still = self._database.write(lambda c: c.execute(_USE, {"named": digest, "at": now()}).one_or_none())
        return still is not None

    def _check(self, files: Sequence[SnapshotFile]) -> None:
        sizes = self._blobs.sizes(file.digest for file in files)
        missing = [digest for digest, size in sizes.items() if size is None]
        if missing:
            raise SnapshotIncomplete(
                f"{len(missing)} of {len(files)} files of the snapshot are not here yet.",
                hint="Send them, then try again.",
                details={"missing": missing},
            )
        if len({file.path for file in files}) < len(files):
            raise InvalidRequest("A file is twice in the snapshot.")
        for file in files:
            if sizes[file.digest] != file.size:
                raise InvalidRequest(f"{file.path} has {sizes[file.digest]} bytes, not {file.size}.")
