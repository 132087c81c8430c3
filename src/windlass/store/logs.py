"""Live logs: bytes as they come, one file per log and attempt, until they are sealed into blobs."""

from __future__ import annotations


class Logs:
    def append(self, run_id: str, attempt: int, path: str, offset: int, data: bytes) -> int:
        """Add `data`, which starts at `offset`; returns the new size. What is there already is skipped."""
        raise NotImplementedError

    def size(self, run_id: str, attempt: int, path: str) -> int:
        raise NotImplementedError

    def list(self, run_id: str, attempt: int) -> dict[str, int]:
        raise NotImplementedError

    def read(self, run_id: str, attempt: int, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        raise NotImplementedError

    def seal(self, run_id: str, attempt: int, path: str) -> tuple[str, int]:
        """Make the log durable and a blob. It stays readable here until `drop`; nothing can be appended any more."""
        raise NotImplementedError

    def drop(self, run_id: str, attempt: int) -> None:
        raise NotImplementedError
