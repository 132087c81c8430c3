"""A barn: a folder that is created with a number of stalls, its nodes, and deleted again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from windlass.core.errors import TargetRejected, TargetUnreachable
from windlass.drivers.base import (
    HasNodes,
    Managed,
    Node,
    NodeState,
    Provisioning,
    ProvisioningState,
    TargetConfig,
    shown_as_option,
)
from windlass_farm.workshop import WorkshopDriver

_DONE = Provisioning(ProvisioningState.SUCCEEDED)


class BarnConfig(TargetConfig):
    folder: Path = Field(description="Where to build it.")
    max_stalls: int = Field(
        default=2, ge=1, le=8, description="How many nodes it has.", json_schema_extra=shown_as_option("--stalls")
    )


class BarnDriver(WorkshopDriver[BarnConfig], Managed, HasNodes):
    """A barn with stalls, in a folder of this computer."""

    kind = "barn"
    config_model = BarnConfig
    mutable_settings = frozenset({"max_stalls"})

    def folder(self) -> Path:
        return self.config.folder

    def location(self) -> str:
        return f"barn {self.config.folder}"

    def create(self) -> Provisioning:
        """One stall a call, so that a server may be restarted in between."""
        if not self.config.folder.parent.is_dir():
            raise TargetRejected(f"There is no folder {self.config.folder.parent} to build {self.name} in.")
        missing = [stall for stall in self._wanted() if not stall.exists()]
        for stall in missing[:1]:
            stall.parent.mkdir(parents=True, exist_ok=True)
            stall.write_text(json.dumps({"cores": 1}), "utf-8")
        if len(missing) > 1:
            return Provisioning(ProvisioningState.CREATING, f"{len(missing) - 1} stalls are missing")
        return _DONE

    def update(self, before: Mapping[str, Any]) -> Provisioning:
        for stall in set(self._stalls()) - set(self._wanted()):
            stall.unlink()
        return self.create()

    def delete(self) -> Provisioning:
        self.leave()
        shutil.rmtree(self.config.folder, ignore_errors=True)
        return _DONE

    def nodes(self) -> list[Node]:
        self.check_access()
        return [Node(path.stem, NodeState.IDLE, json.loads(path.read_text("utf-8"))) for path in self._stalls()]

    def check_access(self) -> None:
        if not self.config.folder.is_dir():
            raise TargetUnreachable(f"{self.name} cannot be reached: {self.config.folder} is not there.")

    def _stalls(self) -> list[Path]:
        return sorted((self.config.folder / "stalls").glob("*.json"))

    def _wanted(self) -> list[Path]:
        return [
            self.config.folder / "stalls" / f"{self.name}-{number}.json" for number in range(self.config.max_stalls)
        ]


DRIVER = BarnDriver
