"""Jobs in a folder of this computer, run by the kind `local`: what sheds and barns have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from windlass import drivers
from windlass.drivers.base import (
    Driver,
    Event,
    Features,
    Handle,
    Health,
    Job,
    Observation,
    Plan,
    RunFile,
    TargetConfig,
    Watcher,
)
from windlass.drivers.plan import refuse_undeclared

C = TypeVar("C", bound=TargetConfig)


class WorkshopDriver(Driver[C], Watcher):
    features = Features(built_environments=True, calls_home=True)

    @abstractmethod
    def folder(self) -> Path:
        """Where jobs run."""

    def check_access(self) -> None:
        """Raises what keeps us from using the folder."""

    def check(self) -> Health:
        return self._local().check()

    def plan(self, job: Job) -> Plan:
        refuse_undeclared(self.kind, self.features, job)
        return self._bench().plan(job)

    def start(self, plan: Plan) -> Handle:
        return self._ours(self._local().start(plan))

    def prepare(self, plan: Plan) -> None:
        self._local().prepare(plan)

    def find(self, job_id: str, nonce: str) -> Handle | None:
        found = self._local().find(job_id, nonce)
        return None if found is None else self._ours(found)

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        return self._local().observe(handles)

    def stop(self, handle: Handle, grace: timedelta) -> None:
        self._local().stop(handle, grace)

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return self._local().read(handle, path, offset, limit)

    def files(self, handle: Handle) -> Iterable[RunFile]:
        return self._local().files(handle)

    def clean(self, handle: Handle) -> None:
        self._local().clean(handle)

    def watch(self, sink: Callable[[str, Event], None]) -> None:
        bench = self._bench()
        assert isinstance(bench, Watcher)
        bench.watch(sink)

    def leave(self) -> None:
        self._bench().leave()

    def _local(self) -> Driver[Any]:
        self.check_access()
        return self._bench()

    def _bench(self) -> Driver[Any]:
        local = drivers.load("local")
        config = local.config_model.model_validate({"root": self.folder() / "machine"})
        bench = local(self.name, config, self.secrets, self.connections)
        bench.context, bench.report = self.context, self.report
        return bench

    def _ours(self, handle: Handle) -> Handle:
        return Handle(self.kind, handle.native_id, handle.nonce, handle.version, handle.data)
