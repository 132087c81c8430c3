"""What is sent to a machine once is whole there, or not there: after a full disk, and after a power cut."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from pathlib import Path

import pytest

from windlass.runner.system import kernel
from windlass.runner.workdir.machine_folder import Machine

from ..pipe import zip_of

SDK = zip_of({"windlass/__init__.py": b"here = True", "azureml/core/__init__.py": b""})
DIGEST = hashlib.sha256(SDK).hexdigest()


class System:
    """A libc that remembers what was there when it was asked to bring a file system to its disk."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.synced: list[tuple[str, set[str]]] = []

    def syncfs(self, fd: int) -> int:
        folder = os.readlink(f"/proc/self/fd/{fd}")
        self.synced.append((folder, {name for _, _, names in os.walk(folder) for name in names}))
        ctypes.set_errno(self.code)
        return -1 if self.code else 0


def unpacked(root: Path, monkeypatch: pytest.MonkeyPatch, system: object) -> Machine:
    monkeypatch.setattr(kernel, "_libc", system)
    machine = Machine(str(root))
    machine.make()
    machine.unpack_sdk(DIGEST, SDK)
    return machine


def test_an_sdk_has_its_name_only_after_its_files_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System()
    machine = unpacked(tmp_path, monkeypatch, system)
    [(folder, names)] = system.synced
    assert folder.startswith(f"{machine.sdk(DIGEST)}.") and folder.endswith(".tmp")
    assert names == {"__init__.py"}
    machine.unpack_sdk(DIGEST, SDK)
    assert len(system.synced) == 1, "what is there costs nothing"


def test_an_sdk_that_the_disk_did_not_take_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="Input/output"):
        unpacked(tmp_path, monkeypatch, System(errno.EIO))
    assert not os.listdir(tmp_path / "sdk")


@pytest.mark.parametrize("system", [object(), System(errno.ENOSYS)])
def test_a_system_that_cannot_bring_one_file_system_brings_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: object
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: asked.append(True))
    assert unpacked(tmp_path, monkeypatch, system).has_sdk(DIGEST) and asked == [True]


def test_this_system_brings_a_file_system_to_its_disk(tmp_path: Path) -> None:
    kernel.sync_file_system(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        kernel.sync_file_system(str(tmp_path / "nowhere"))
