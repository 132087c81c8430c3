"""The stored files of a run: names for blobs. A name is written once."""

from __future__ import annotations

from windlass.core.entities import Artifact


class Artifacts:
    def list(self, run_id: str) -> list[Artifact]:
        raise NotImplementedError

    def get(self, run_id: str, path: str) -> Artifact:
        raise NotImplementedError

    def add(self, run_id: str, artifact: Artifact) -> None:
        raise NotImplementedError
