"""A real disk that fills up: new runs are refused while there is still room to write down how the others end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import fill, small_disk
from tests.server.serving import HOME, Server, serving
from tests.store.makers import make_workspace, submit
from windlass.core.states import Intent
from windlass.store import open_store

_MB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, 64) as disk:
        yield disk


@pytest.mark.slow
def test_runs_are_refused_before_the_disk_is_full(disk: Path) -> None:
    with serving(f"sqlite:///{disk}/db.sqlite", disk, disk_reserve_bytes=16 * _MB) as server:
        first = server.interactive()
        refused = _fill(server, disk)
        assert refused > 100
        ended = server.call("POST", f"{HOME}/runs/{first['id']}/end", {"state": "Completed"})
        assert ended.json["state"] == "Completed"
        (disk / "filler").unlink()
        server.interactive()


def test_the_database_can_be_written_on_a_full_disk(disk: Path) -> None:
    """Space that was taken in advance is given back to it. Without that, the first write that needs a block fails."""
    store = open_store(f"sqlite:///{disk}/db.sqlite", disk / "files")
    try:
        make_workspace(store)
        store.keep_ballast(reserve=16 * _MB)
        submit(store, "r")
        filler = fill(disk)
        for number in range(40):
            store.runs.append_event("r", "note", f"{number}" * 10_000, {})
        assert store.runs.request_cancel("default", "r").intent is Intent.CANCEL
        filler.unlink()
        store.keep_ballast(reserve=16 * _MB)
        assert (disk / "db.sqlite.ballast").stat().st_size == 2 * _MB
    finally:
        store.close()


def _fill(server: Server, disk: Path) -> int:
    """Let something else fill the disk, and count the submits that are refused on the way; the last ones all are."""
    refused = 0
    with open(disk / "filler", "wb") as filler:
        while os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 4 * _MB:
            filler.write(b"x" * (_MB // 10))
            filler.flush()
            answer = server.call("POST", f"{HOME}/runs", {"experiment": "demo", "type": "interactive"})
            assert answer.status == (507 if refused else answer.status), answer.raw
            refused += answer.status == 507
    return refused
