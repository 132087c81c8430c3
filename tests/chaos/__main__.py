"""`make test-chaos`: random kills and stops for a while, on SQLite and on two servers with one PostgreSQL.

WINDLASS_CHAOS_SEED repeats the schedule of an earlier run, WINDLASS_CHAOS_MINUTES (20) is how long each database has,
WINDLASS_CHAOS_DATABASES (sqlite,postgresql) which ones. Its folder stays if something is wrong. Only root has a machine
that is reached by SSH, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.chaos import Outcome, unleash
from tests.hosts.network import Network
from tests.postgres import PostgresServer


def main() -> int:
    seed = int(os.environ.get("WINDLASS_CHAOS_SEED") or secrets.randbelow(10**9))
    minutes = float(os.environ.get("WINDLASS_CHAOS_MINUTES") or 20)
    databases = (os.environ.get("WINDLASS_CHAOS_DATABASES") or "sqlite,postgresql").split(",")
    print(f"WINDLASS_CHAOS_SEED={seed} WINDLASS_CHAOS_MINUTES={minutes:g} repeats this.", flush=True)
    results = [_one(database, seed, minutes) for database in databases]
    return 0 if all(results) else 1


def _one(database: str, seed: int, minutes: float) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"windlass-chaos-{database}-"))
    print(f"{database}: {minutes:g} minutes, in {folder}", flush=True)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network.made()) if os.geteuid() == 0 else None
        if database == "sqlite":
            outcome = unleash(folder, seed, minutes, network=network)
        else:
            postgres = PostgresServer.make()
            stack.callback(postgres.remove)
            postgres.start()
            outcome = unleash(folder, seed, minutes, servers=2, database=postgres.url(), network=network)
    _report(database, outcome, folder, time.monotonic() - began)
    return not outcome.violations


def _report(database: str, outcome: Outcome, folder: Path, seconds: float) -> None:
    print(f"{database}: {seconds / 60:.1f} minutes, {outcome.text}", flush=True)
    if not outcome.violations:
        shutil.rmtree(folder, ignore_errors=True)
        return
    print(outcome.journal)
    for violation in outcome.violations:
        print(f"\nVIOLATION on {database}: {violation}")
    print(f"\n{len(outcome.violations)} violations on {database}. Journal, server logs and homes: {folder}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
