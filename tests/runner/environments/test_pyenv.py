"""A run behind pyenv's shim gets the interpreter itself, chosen as pyenv chooses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from windlass.runner.environments.pyenv import program_of

from ..pipe import Host


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of pyenv with two versions, and a Python of the system's own."""
    root = tmp_path / "pyenv"
    for folder in ("shims", "versions/3.10.1/bin", "versions/3.11.7/bin", "../usr/bin"):
        program = root / folder / "python3"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\nexit 9\n")
        program.chmod(0o755)
    (root / "version").write_text("# the account's\n3.11.7\n3.10.1\n")
    monkeypatch.setenv("PATH", f"{root}/shims{os.pathsep}{tmp_path}/usr/bin")
    for name in ("PYENV_VERSION", "PYENV_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "source" / "sub").mkdir(parents=True)
    return root


def found(root: Path, folder: str = "source", **variables: str) -> str:
    program = program_of(f"{root}/shims/python3", str(root.parent / folder), variables)
    return os.path.relpath(program, root)


def test_the_version_of_the_account(root: Path) -> None:
    assert found(root) == "versions/3.11.7/bin/python3"


def test_the_nearest_file_of_a_project(root: Path) -> None:
    (root.parent / "source" / ".python-version").write_text("3.10.1\n")
    assert found(root, "source/sub") == "versions/3.10.1/bin/python3"
    assert found(root, ".") == "versions/3.11.7/bin/python3"


def test_the_systems_own(root: Path) -> None:
    (root / "version").unlink()
    assert found(root) == "../usr/bin/python3"


@pytest.mark.parametrize("text", ["3.11", "3.9.0\n3.10.1", "pypy3.10-7.3"])
def test_what_only_pyenv_can_say_is_left_to_it(root: Path, text: str) -> None:
    (root / "version").write_text(text)
    assert found(root) == "shims/python3"


def test_variables_of_the_run_are_left_to_it(root: Path) -> None:
    assert found(root, PYENV_VERSION="3.10.1") == "shims/python3"


def test_a_path_of_another_kind_is_left_as_it_is(root: Path, tmp_path: Path) -> None:
    assert program_of("/usr/bin/python3", str(tmp_path), {}) == "/usr/bin/python3"


def test_a_run_is_started_by_the_interpreter_itself(host: Host, root: Path) -> None:
    """The shim would end with 9."""
    real = root / "versions" / "3.11.7" / "bin" / "python3"
    real.unlink()
    real.symlink_to(sys.executable)
    host.start("a.1", ["{python}", "-c", "print('done')"], environment={"interpreter": f"{root}/shims/python3"})
    status = host.wait("a.1")
    assert status["exit_code"] == 0, status
