"""`windlass azureml enable`, `disable` and `status`, with real environments and pip."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
from tests.cli.shell import COMMAND, Shell
from tests.wheels import make_wheel

WHICH = """
import importlib.metadata, azureml.core
print(azureml.core.VERSION, importlib.metadata.version("azureml-core"))
"""
OURS = "1.61.0 1.61.0+windlass\n"
PACKAGES = ("azureml-core", "azureml-sdk[notebooks,automl]", "azureml-defaults>=1.0", "azureml-train-core")


def python(venv: Path) -> str:
    return str(venv / "bin" / "python")


def run(shell: Shell, venv: Path, *words: str) -> str:
    """What the environment's Python prints, and says on stderr."""
    done = subprocess.run(
        [python(venv), *words], env=shell.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def site_packages(venv: Path) -> Path:
    (found,) = venv.glob("lib/python*/site-packages")
    return found


def contents(venv: Path) -> dict[str, bytes | str]:
    """All files and links, but for what Python compiled."""
    paths = [path for path in venv.rglob("*") if "__pycache__" not in path.parts]
    return {str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in paths if path.is_symlink() or path.is_file()}  # fmt: skip


@pytest.fixture
def pip(fresh: Shell, pip_venv: Path) -> Iterator[Path]:
    """The environment with pip, as it was made."""
    before = contents(pip_venv)
    yield pip_venv
    assert contents(pip_venv) == before


def real_sdk(folder: Path, version: str) -> Path:
    """A wheel that looks like Azure's."""
    files = {"azureml/__init__.py": "", "azureml/core/__init__.py": f"VERSION = {version!r}\n"}
    return make_wheel(folder, "azureml_core", version, files=files)


def test_enable_and_disable_leave_no_trace(fresh: Shell, venv: Path) -> None:
    before, folders = contents(venv), sorted(venv.rglob("*"))
    enabled = fresh("azureml", "enable", env={"VIRTUAL_ENV": str(venv)})
    assert enabled.out == f"`import azureml` now uses Windlass in {venv}.\n" and enabled.code == 0
    assert run(fresh, venv, "-c", WHICH) == OURS
    assert run(fresh, venv, "-I", "-c", WHICH) == OURS, "isolated Pythons too"
    assert "No module named 'click'" in run(fresh, venv, "-c", "import click"), "nothing else of windlass's packages"
    held = contents(venv)
    again = fresh("azureml", "enable", "--json", "--python", python(venv))
    assert again.json == {"python": python(venv), "is_enabled": True, "has_changed": False}
    assert contents(venv) == held
    assert fresh("azureml", "disable", "--python", python(venv)).code == 0
    assert contents(venv) == before and [each for each in folders if not each.exists()] == []
    assert not (site_packages(venv) / "windlass-azureml").exists()
    assert fresh("azureml", "disable", "--python", python(venv)).out == f"It was not enabled in {venv}.\n"


def test_pip_finds_the_sdk_installed(fresh: Shell, pip: Path) -> None:
    fresh("azureml", "enable", "--python", python(pip))
    said = run(fresh, pip, "-m", "pip", "install", "--no-index", *PACKAGES)
    assert said.count("Requirement already satisfied") == len(PACKAGES), said
    assert "azureml-core==1.61.0+windlass" in run(fresh, pip, "-m", "pip", "freeze")
    assert run(fresh, pip, "-m", "pip", "check") == "No broken requirements found.\n"
    assert run(fresh, pip, "-c", WHICH) == OURS
    fresh("azureml", "disable", "--python", python(pip))


@pytest.mark.slow
def test_azures_sdk_that_is_installed_stays_and_is_not_used(fresh: Shell, pip: Path, tmp_path: Path) -> None:
    run(fresh, pip, "-m", "pip", "install", "--no-index", str(real_sdk(tmp_path, "1.40.0")))
    before = contents(pip)
    assert "not Windlass's; `windlass azureml enable` puts" in fresh("azureml", "status", "--python", python(pip)).out
    assert "azureml-core 1.40.0 stays" in fresh("azureml", "enable", "--python", python(pip)).err
    assert before.items() <= contents(pip).items()
    assert run(fresh, pip, "-c", WHICH) == OURS
    status = fresh("azureml", "status", "--json", "--python", python(pip)).json
    assert status["is_windlass"] and status["reason"] == "Windlass's: windlass-azureml.pth puts it first"
    assert [each["version"] for each in status["azureml_core"]] == ["1.61.0+windlass", "1.40.0"]
    fresh("azureml", "disable", "--python", python(pip))
    assert contents(pip) == before and run(fresh, pip, "-c", WHICH) == "1.40.0 1.40.0\n"
    run(fresh, pip, "-m", "pip", "uninstall", "-y", "azureml-core")


def test_an_upgrade_does_not_displace_it(fresh: Shell, pip: Path, tmp_path: Path) -> None:
    fresh("azureml", "enable", "--python", python(pip))
    real_sdk(tmp_path, "1.99.0")
    links = ("--no-index", "--find-links", str(tmp_path))
    said = run(fresh, pip, "-m", "pip", "install", *links, "--upgrade", "azureml-core")
    assert "Successfully installed azureml_core-1.99.0" in said or "Successfully installed azureml-core-1.99.0" in said
    assert run(fresh, pip, "-c", "import azureml.core; print(azureml.core.VERSION)") == "1.61.0\n"
    status = fresh("azureml", "status", "--json", "--python", python(pip)).json
    assert status["is_enabled"] and status["is_windlass"]
    assert fresh("azureml", "enable", "--json", "--python", python(pip)).json["has_changed"]
    assert run(fresh, pip, "-c", WHICH) == OURS
    fresh("azureml", "disable", "--python", python(pip))
    assert run(fresh, pip, "-c", WHICH) == "1.99.0 1.99.0\n"
    run(fresh, pip, "-m", "pip", "uninstall", "-y", "azureml-core")


def test_in_a_run_azures_sdk_does_not_win(fresh: Shell, venv: Path, project: Path) -> None:
    """With an interpreter that has Azure's SDK installed, and one where ours is enabled besides."""
    shutil.unpack_archive(real_sdk(project / "wheels", "1.40.0"), site_packages(venv), "zip")
    assert run(fresh, venv, "-c", WHICH) == "1.40.0 1.40.0\n"
    script = "import sys, azureml.core as c\nc.Run.get_context().log_list('at', [sys.prefix, c.__file__])\n"
    for _ in range(2):
        found = fresh.submit(project, script, "--python", python(venv))
        at = fresh("metrics", "--json", found["id"]).out
        assert found["state"] == "Completed" and str(venv) in at and str(site_packages(venv)) not in at
        fresh("azureml", "enable", "--python", python(venv))


def test_files_of_others_are_left_alone(fresh: Shell, venv: Path) -> None:
    site = site_packages(venv)
    for name in ("windlass-azureml.pth", "windlass-azureml/azureml/mine.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("mine = 1\n")
        before = contents(venv)
        for command in ("enable", "disable"):
            refused = fresh("azureml", command, "--python", python(venv))
            assert refused.code == 6 and str(site / "windlass-azureml") in refused.err.replace("\n", ""), refused.err
            assert contents(venv) == before
        shutil.rmtree(site / "windlass-azureml", ignore_errors=True)
        (site / "windlass-azureml.pth").unlink(missing_ok=True)
    fresh("azureml", "enable", "--python", python(venv))
    (site / "windlass-azureml" / "notes.txt").write_text("mine")
    left = fresh("azureml", "disable", "--python", python(venv))
    assert left.code == 6 and "was not written by windlass, and stays" in left.err
    assert [path.name for path in site.glob("windlass-azureml*/**/*")] == ["notes.txt"]


def test_an_environment_survives_that_windlass_is_removed(fresh: Shell, venv: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(windlass.__file__).parent, other / "windlass", ignore=shutil.ignore_patterns("__pycache__"))
    command = [*COMMAND, "azureml", "enable", "--python", python(venv)]
    subprocess.run(command, env=fresh.environment(PYTHONPATH=str(other)), check=True, stdout=subprocess.DEVNULL)
    assert run(fresh, venv, "-c", WHICH) == OURS
    shutil.rmtree(other)
    assert run(fresh, venv, "-c", "print('starts')") == "starts\n"
    assert "No module named 'azureml'" in run(fresh, venv, "-c", "import azureml")
    assert "windlass was removed or moved" in fresh("azureml", "status", "--python", python(venv)).out
    assert fresh("azureml", "enable", "--python", python(venv)).code == 0
    assert run(fresh, venv, "-c", WHICH) == OURS


def _obey_permissions() -> None:
    """Root may write everywhere by this capability, which the program then lacks."""
    drop, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop, dac_override, 0, 0, 0)


def test_where_it_cannot_write(fresh: Shell, venv: Path) -> None:
    site = site_packages(venv)
    site.chmod(0o555)
    refused = fresh("azureml", "enable", "--python", python(venv), preexec=_obey_permissions)
    assert refused.code == 4 and f"{site} cannot be changed: Permission denied." in refused.err.replace("\n", "")
    assert "windlass python" in refused.err and list(site.iterdir()) == []
    site.chmod(0o755)


@pytest.mark.parametrize(
    ("path", "code", "sentence"),
    [
        ("/nowhere/bin/python", 3, "There is no Python /nowhere/bin/python."),
        ("/bin/true", 2, "/bin/true does not answer like Python."),
    ],
)
def test_what_is_no_python(fresh: Shell, path: str, code: int, sentence: str) -> None:
    refused = fresh("azureml", "enable", "--python", path)
    assert refused.code == code and sentence in refused.err


def test_a_python_that_is_too_old(fresh: Shell, tmp_path: Path) -> None:
    """By its own answer, as a file called `python` does not say it."""
    old = tmp_path / "python"
    answer = '{"version": [3, 6, 15], "prefix": "/p", "site": "/p", "azureml": "", "found": {}}'
    old.write_text(f"#!/bin/sh\nprintf '%s' '{answer}'\n")
    old.chmod(0o755)
    refused = fresh("azureml", "status", "--python", str(old))
    assert refused.code == 2 and f"{old} is Python 3.6, and azureml needs 3.8 or newer." in refused.err
