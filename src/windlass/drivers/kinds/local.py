"""Driver for this computer: jobs are local process trees, started by a runner's host that is a child process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import Features, Handle, TargetGroup, shown_in_form
from windlass.drivers.containers.config import CONTAINER_SETTINGS, ContainerConfig
from windlass.drivers.machine import build_tools, runner_package
from windlass.drivers.machine.channels import InteractiveMachine
from windlass.drivers.machine.driver import MachineDriver
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("the machine's folder must be an absolute path")
    return path


class LocalConfig(ContainerConfig):
    root: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        default=None,
        title="Folder",
        description="The folder for runs, files of snapshots and environments; by default one of the server's own.",
        json_schema_extra=shown_in_form("advanced", "path"),
    )
    python: str | None = Field(
        default=None,
        title="Python",
        description="The Python that runs the runner; by default the server's own.",
        json_schema_extra=shown_in_form("advanced", "path"),
    )
    machine: str | None = Field(
        default=None,
        description="Which machine it is, where servers on several machines share a database.",
        json_schema_extra=shown_in_form(hidden=True),
    )


class LocalDriver(MachineDriver[LocalConfig], InteractiveMachine):
    """This computer."""

    kind = "local"
    title = "This computer"
    group: ClassVar[TargetGroup | None] = "built-in"
    is_this_computer = True
    config_model: ClassVar[type[LocalConfig]] = LocalConfig
    features = Features(gpus=True, built_environments=True, containers=True, calls_home=True)
    mutable_settings = CONTAINER_SETTINGS | {"python"}
    checked_inventory = frozenset({"docker", "problems"})

    def _key(self) -> str:
        return f"local {self._folder} {self.config.python or ''}"

    def _root(self) -> Path:
        return self._folder

    @cached_property
    def _folder(self) -> Path:
        if self.config.root is not None:
            return self.config.root
        assert self.context.folder is not None  # the server always sets it
        return self.context.folder / "machine"

    @property
    def is_servers_own(self) -> bool:
        return self.context.folder is not None and self._folder == self.context.folder / "machine"

    def _tools(self) -> Mapping[str, str]:
        return build_tools.installed_tools()

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        root = self._folder
        try:
            runner = runner_package.compiled_runner().place(root / "runner.pyz")
        except OSError as e:
            raise TargetUnreachable(
                f"{self.name} cannot be reached: its runner cannot be put into {root}: {e.strerror}."
            ) from e
        # Isolated (-I -S): it needs only the standard library, not the working directory or PYTHONPATH.
        python = [self.config.python or sys.executable, "-I", "-S"]
        argv = [*python, str(runner), "host", "--root", str(root)]
        return HostClient(ChildProcess(self.name, argv), on_event=feed.publish, on_break=feed.publish_all)


DRIVER = LocalDriver
