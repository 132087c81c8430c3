"""A reconciler on a real store, with a dummy target that does what the scenario says. Rounds come without waiting."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.store.makers import with_slots
from windlass import drivers
from windlass.core.entities import RetryPolicy, Run, RunSpec
from windlass.core.states import Phase
from windlass.drivers.base import ConnectionPool
from windlass.server.execution.dispatcher import Dispatcher
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.execution.tracked_run import handle_of
from windlass.server.security.key_file import KeyFile
from windlass.server.security.run_secrets import RunSecrets
from windlass.server.security.secret_store import SecretStore
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Leased, NewRun, Store, open_store

WORKSPACE = "default"
TARGET = "stage"


@dataclass
class Stage:
    store: Store
    folder: Path
    settings: Settings
    event_bus: EventBus
    jobs: JobBuilder
    dispatcher: Dispatcher
    reconciler: Reconciler
    targets: TargetService
    connections: ConnectionPool
    secret_store: SecretStore
    run_secrets: RunSecrets
    retries: RetryPolicy = RetryPolicy()  # of runs that are submitted

    def submit(self, target: str = TARGET, **acts: str) -> Run:
        """A run whose DUMMY_ variables say what becomes of it."""
        run, leased = self.insert(target, **acts)
        if leased is not None:
            self.reconciler.dispatch(leased)
        return run

    def insert(self, target: str, **acts: str) -> tuple[Run, Leased | None]:
        """A run that is committed, and not started."""
        spec = RunSpec(
            command=("{python}", "act.py"),
            target=target,
            retries=self.retries,
            environment_variables={f"DUMMY_{k.upper()}": v for k, v in acts.items()},
        )
        new = NewRun(f"scene_{secrets.token_hex(6)}", WORKSPACE, "scenes", "azureml.scriptrun", spec=spec, nonce="n")
        slots = self.store.targets.get(WORKSPACE, target).slots
        run, _, leased = self.store.runs.submit(new, self.reconciler.owner, with_slots(slots), 30)
        return run, leased

    def run(self, run: Run) -> Run:
        return self.store.runs.get(WORKSPACE, run.id)

    def until(self, run: Run, holds: Callable[[Run], bool]) -> Run:
        """Go round, with a clock that runs far ahead, until it is so."""
        deadline, ahead = time.monotonic() + 60, 0.0
        while not holds(found := self.run(run)):
            assert time.monotonic() < deadline, found
            ahead += 11
            self.reconciler.step(time.monotonic() + ahead)
            time.sleep(0.01)
        return found

    def until_final(self, run: Run) -> Run:
        return self.until(run, lambda found: found.is_final)

    def cancel(self, run: Run) -> None:
        self.store.runs.request_cancel(WORKSPACE, run.id)
        self.reconciler.wake(run.id)

    def evict(self, run: Run, why: str = "the node leaves") -> None:
        self.store.runs.request_eviction(WORKSPACE, run.id, why)
        self.reconciler.wake(run.id)

    def cut(self) -> None:
        (self.folder / "unreachable").touch()

    def heal(self) -> None:
        (self.folder / "unreachable").unlink()

    def set_clock(self, seconds: float) -> None:
        """From now on it is that late for the target: what it runs lasts until the clock is put on."""
        (self.folder / "clock").write_text(str(seconds))

    def phase_there(self, run: Run) -> Phase:
        """What its target says of a run, whatever the store says."""
        [attempt] = self.store.runs.attempts(run.id)
        kind = drivers.load("dummy")
        config = kind.config_model.model_validate({"folder": self.folder})
        driver = kind(TARGET, config, self.secret_store.of_target(WORKSPACE, TARGET), self.connections)
        [seen] = driver.observe([handle_of(attempt.handle or {}, attempt.nonce)])
        return seen.phase

    def stories(self, run: Run) -> list[str]:
        return [event.kind for event in self.store.runs.events(run.id)]


@contextmanager
def staged(url: str, tmp_path: Path, **settings: object) -> Iterator[Stage]:
    chosen = Settings.load({}, home=tmp_path / "home", database=url, **settings)
    folder = tmp_path / "stage"
    folder.mkdir(exist_ok=True)
    store = open_store(url, chosen.files)
    connections = drivers.open_pool()
    try:
        store.workspaces.create(WORKSPACE, "", "", "", {}, exist_ok=True)
        store.targets.ensure(WORKSPACE, TARGET, "dummy", {"folder": str(folder)}, 4, True)
        secret_store = SecretStore(store, KeyFile(chosen.key_file))
        run_secrets = RunSecrets(store, secret_store)
        jobs = JobBuilder(store, connections, chosen, "http://127.0.0.1:1", b"key", run_secrets)
        event_bus, owner = EventBus(), f"owner-{secrets.token_hex(4)}"
        dispatcher = Dispatcher(store, event_bus, jobs, owner, chosen)
        reconciler = Reconciler(store, event_bus, jobs, dispatcher, owner, chosen)
        targets = TargetService(store, jobs, dispatcher)
        yield Stage(
            store,
            folder,
            chosen,
            event_bus,
            jobs,
            dispatcher,
            reconciler,
            targets,
            connections,
            secret_store,
            run_secrets,
        )
        reconciler.stop()
    finally:
        connections.close()
        store.close()
