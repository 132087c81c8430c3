"""Source trees by digest: a list of files, whose bytes are blobs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.entities import Snapshot, SnapshotFile


class Snapshots:
    def put(self, files: Sequence[SnapshotFile]) -> str:
        raise NotImplementedError

    def get(self, digest: str) -> Snapshot:
        raise NotImplementedError

    def known(self, digest: str) -> bool:
        raise NotImplementedError
