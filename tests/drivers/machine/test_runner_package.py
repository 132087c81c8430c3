"""What travels: the same bytes from the same sources, and nothing that needs more than an old Python."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windlass.drivers.machine import runner_package
from windlass.runner.environments import interpreters

OLDEST = (3, 8)


def names(package: runner_package.Package) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(package.data)).namelist()


def digest_elsewhere(sources: Path, which: str, **variables: str) -> str:
    """What another process makes of a copy of the sources."""
    code = f"import sys; sys.path.insert(0, {str(sources)!r})\nfrom windlass.drivers.machine import runner_package\n"
    code += f"assert runner_package.__file__.startswith({str(sources)!r}); print(runner_package.{which}().digest)"
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


@pytest.mark.parametrize("which", ["runner", "sdk"])
def test_the_same_sources_are_the_same_bytes_anywhere(which: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    shutil.copytree(Path(runner_package.__file__).parents[2], here / "windlass")
    shutil.copytree(here / "windlass", there / "windlass", ignore=shutil.ignore_patterns("__pycache__"))
    for path in there.rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(0o755)
    first = digest_elsewhere(here, which, PYTHONHASHSEED="1", TZ="Asia/Tokyo")
    assert first == digest_elsewhere(there, which, PYTHONHASHSEED="2", TZ="UTC")
    (there / "windlass" / "core" / "names.py").write_text("changed = True\n")
    (there / "windlass" / "runner" / "frames.py").write_text("changed = True\n")
    assert first != digest_elsewhere(there, which)


@pytest.mark.parametrize("package", [runner_package.runner(), runner_package.sdk()], ids=["runner", "sdk"])
def test_the_digest_is_of_the_bytes_and_nothing_but_sources_is_in_them(package: runner_package.Package) -> None:
    assert package.digest == hashlib.sha256(package.data).hexdigest()
    assert all(name.endswith(".py") and "__pycache__" not in name for name in names(package))
    assert zipfile.ZipFile(io.BytesIO(package.data)).testzip() is None


def test_the_compiled_runner_is_the_runner_and_needs_no_compiler(tmp_path: Path) -> None:
    sources = set(names(runner_package.runner()))
    compiled = set(names(runner_package.compiled_runner()))
    assert compiled == sources | {f"{name}c" for name in sources - {"__main__.py"}}
    path = runner_package.compiled_runner().place(tmp_path / "runner.pyz")
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import runner.host.loop as loop; print(loop.__cached__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{path}/runner/host/loop.pyc"


def test_the_sdk_has_what_scripts_import_and_nothing_of_the_server() -> None:
    packed = names(runner_package.sdk())
    assert {"windlass/__init__.py", "windlass/_version.py", "windlass/core/states.py"} <= set(packed)
    folders = {name.split("/")[1] for name in packed if name.startswith("windlass/") and name.count("/") > 1}
    assert folders <= {"core", "client", "compat"}
    assert not any(name.startswith("windlass/compat/azureml/") for name in packed)


def test_the_shim_stands_beside_windlass() -> None:
    assert runner_package._archive_name("windlass/compat/azureml/core/run.py") == "azureml/core/run.py"
    assert runner_package._archive_name("windlass/compat/enable.py") == "windlass/compat/enable.py"


def test_every_source_that_travels_compiles_on_the_oldest_python() -> None:
    for package in (runner_package.runner(), runner_package.sdk()):
        archive = zipfile.ZipFile(io.BytesIO(package.data))
        for name in archive.namelist():
            compile_as_old(archive.read(name).decode(), name)


def compile_as_old(source: str, name: str) -> None:
    import ast

    ast.parse(source, name, feature_version=OLDEST)


@pytest.mark.parametrize("wish", ["3.8", None])
def test_every_module_of_the_sdk_imports_on_the_oldest_python_that_is_here(wish: str | None, tmp_path: Path) -> None:
    package = runner_package.sdk()
    path = package.place(tmp_path / "sdk.zip")
    modules = [name[: -len(".py")].removesuffix("/__init__").replace("/", ".") for name in names(package)]
    code = f"import importlib, sys; sys.path.insert(0, {str(path)!r})\n"
    code += f"for name in {modules!r}: importlib.import_module(name)"
    python = interpreters.nearest(wish).path
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_place_writes_whole_files_that_only_we_read(tmp_path: Path) -> None:
    package = runner_package.Package("0" * 64, b"new")
    path = tmp_path / "machine" / "runner.pyz"
    assert package.place(path) == path
    path.write_bytes(b"old")
    package.place(path)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert os.listdir(path.parent) == ["runner.pyz"]


def test_place_leaves_a_file_that_is_right_alone(tmp_path: Path) -> None:
    package = runner_package.Package("0" * 64, b"same")
    before = package.place(tmp_path / "runner.pyz").stat()
    after = package.place(tmp_path / "runner.pyz").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
