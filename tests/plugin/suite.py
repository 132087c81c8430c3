"""The laws of drivers for the kinds of this package, as its own tests run them: pytest suite.py"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from windlass_farm.barn import BarnDriver
from windlass_farm.shed import ShedDriver
from windlass_farm.workshop import WorkshopDriver

from windlass import drivers
from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import CONTRACT_VERSION, Driver, Handle, Plan
from windlass.testing import GivenSecrets, Harness, Laws, wait_until


class FarmHarness(Harness):
    """A workshop in a folder. Its driver counts its calls, and may lose a receipt."""

    is_real = True
    driver_class: type[WorkshopDriver[Any]]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = folder / "place"
        self.place.mkdir()
        self.machine = self.place / "machine"
        self._away = folder / "away"
        self._calls = 0
        self._loses_receipts = False

    def config(self) -> dict[str, Any]:
        return {"folder": str(self.place)}

    def driver(self) -> Driver[Any]:
        harness = self

        class Counted(self.driver_class):  # type: ignore[name-defined,misc]
            def check_access(self) -> None:
                harness._calls += 1
                super().check_access()

            def start(self, plan: Plan) -> Handle:
                handle: Handle = super().start(plan)
                if harness._loses_receipts:
                    raise TargetUnreachable("the answer was lost")
                return handle

        assert drivers.load(self.kind) is self.driver_class
        return Counted("box", self.driver_class.config_model(**self.config()), self.secrets, self.connections)

    def cut(self) -> None:
        self._way().rename(self._away)

    def heal(self) -> None:
        if self._away.exists():
            self._away.rename(self._way())

    def _way(self) -> Path:
        """Without which the place is not reached."""
        return self.place

    def vanish(self, handle: Handle) -> None:
        noted = self.machine / "started" / handle.native_id
        wait_until(lambda: b"ended" in noted.read_bytes(), f"the note of the end of {handle.native_id}")
        shutil.rmtree((self.machine / "runs" / handle.native_id).rename(self.machine / "vanished"), ignore_errors=True)

    def calls(self) -> int:
        return self._calls

    def living(self) -> list[str]:
        cookies = {f"WINDLASS_COOKIE={job.nonce}".encode() for job in self.jobs}
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and cookies & _environment(pid)]

    def leftovers(self) -> list[str]:
        runs = self.machine / "runs"
        return [*(os.listdir(runs) if runs.exists() else []), *self.living()]

    @contextmanager
    def lose_receipt(self) -> Iterator[None]:
        self._loses_receipts = True
        try:
            yield
        finally:
            self._loses_receipts = False


class ShedHarness(FarmHarness):
    kind = "shed"
    driver_class = ShedDriver

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.place / "seal").write_text("red")
        (self.place / "token").write_text("sesame")
        self.secrets = GivenSecrets(**{"target/box/token": "sesame"})

    def _way(self) -> Path:
        return self.place / "token"


class BarnHarness(FarmHarness):
    kind = "barn"
    driver_class = BarnDriver


def _environment(pid: str) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


@pytest.fixture(params=[ShedHarness, BarnHarness], ids=["shed", "barn"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    make: Callable[[Path], Harness] = request.param
    made = make(tmp_path)
    yield made
    made.close()


class TestFarm(Laws):
    """Each law, for each kind of this package."""


def test_the_contract_is_the_one_that_this_package_was_written_for() -> None:
    assert CONTRACT_VERSION == 1
