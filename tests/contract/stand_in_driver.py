"""The driver of a kind whose jobs the stand-in engine starts (stand_in_engine.py)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from tests.contract.stand_in_engine import EngineClient
from windlass.core.states import Phase
from windlass.drivers.base import Attachable, Claims, Features, Handle, Identity, Plan
from windlass.drivers.kinds.local import LocalConfig
from windlass.drivers.machine import runner_package
from windlass.drivers.machine.engine_driver import EngineDriver, NativeState
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess

_PHASES = {"queued": Phase.QUEUED, "running": Phase.RUNNING, "ended": Phase.ENDED, "unknown": Phase.LOST}


class StandInConfig(LocalConfig):
    queue: Path = Field(description="The folder of the stand-in engine.")


class StandInDriver(EngineDriver[StandInConfig]):
    kind = "stand_in_engine"
    config_model: ClassVar[type[StandInConfig]] = StandInConfig
    features = Features()
    settle_time = timedelta(seconds=6)

    def _key(self) -> str:
        return f"stand-in {self.config.root}"

    def _root(self) -> Path:
        assert self.config.root is not None
        return self.config.root

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        return open_host(self.name, self.config, self._root(), feed)

    def submit_native(self, plan: Plan, command: Sequence[str]) -> str:
        return self._engine().submit(f"{plan.job.id} {plan.job.nonce}", command)

    def find_native(self, job_id: str, nonce: str) -> str | None:
        return self._engine().find(f"{job_id} {nonce}")

    def cancel_native(self, native_id: str) -> None:
        self._engine().cancel(native_id)

    def native_states(self, native_ids: Sequence[str]) -> list[NativeState]:
        states = self._engine().states(native_ids)
        return [NativeState(_PHASES[state["state"]], ended_at=state.get("ended_at")) for state in states]

    def _engine(self) -> EngineClient:
        return EngineClient(self.config.queue)


class ClaimingDriver(StandInDriver, Claims):
    """The same, where the server decides which instance of a job executes it."""


class AttachedDriver(StandInDriver, Attachable):
    """The same, for servers of other processes, where it is attached by its folder."""

    kind = "stand_in_queue"

    def probe(self) -> Identity | None:
        return None

    def location(self) -> str:
        return str(self.config.queue)


def open_host(name: str, config: StandInConfig, root: Path, feed: Feed) -> HostClient:
    runner = runner_package.compiled_runner().place(root / "runner.pyz")
    argv = [config.python or sys.executable, "-I", "-S", str(runner), "host", "--engine-owned", "--root", str(root)]
    return HostClient(ChildProcess(name, argv), on_event=feed.publish, on_break=feed.publish_all)
