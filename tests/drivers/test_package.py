"""What travels: the same bytes from the same sources, and nothing that needs more than an old Python."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windlass.drivers import _package

OLDEST = (3, 8)


def names(package: _package.Package) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(package.data)).namelist()


def in_a_fresh_process(code: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


@pytest.mark.parametrize("which", ["runner", "sdk"])
def test_another_process_packs_the_same_bytes(which: str) -> None:
    code = f"from windlass.drivers import _package; print(_package.{which}().digest)"
    assert in_a_fresh_process(code, PYTHONHASHSEED="1", TZ="Asia/Tokyo") == getattr(_package, which)().digest


@pytest.mark.parametrize("package", [_package.runner(), _package.sdk()], ids=["runner", "sdk"])
def test_the_digest_is_of_the_bytes_and_nothing_but_sources_is_in_them(package: _package.Package) -> None:
    assert package.digest == hashlib.sha256(package.data).hexdigest()
    assert all(name.endswith(".py") and "__pycache__" not in name for name in names(package))
    assert zipfile.ZipFile(io.BytesIO(package.data)).testzip() is None


def test_the_sdk_has_what_scripts_import_and_nothing_of_the_server() -> None:
    packed = names(_package.sdk())
    assert {"windlass/__init__.py", "windlass/_version.py", "windlass/core/states.py"} <= set(packed)
    folders = {name.split("/")[1] for name in packed if name.startswith("windlass/") and name.count("/") > 1}
    assert folders <= {"core", "client", "compat"}
    assert not any(name.startswith("windlass/compat/azureml/") for name in packed)


def test_the_shim_stands_beside_windlass() -> None:
    assert _package._on_top("windlass/compat/azureml/core/run.py") == "azureml/core/run.py"
    assert _package._on_top("windlass/compat/enable.py") == "windlass/compat/enable.py"


def test_every_source_that_travels_compiles_on_the_oldest_python() -> None:
    for package in (_package.runner(), _package.sdk()):
        archive = zipfile.ZipFile(io.BytesIO(package.data))
        for name in archive.namelist():
            compile_as_old(archive.read(name).decode(), name)


def compile_as_old(source: str, name: str) -> None:
    import ast

    ast.parse(source, name, feature_version=OLDEST)


def test_place_writes_whole_files_that_only_we_read(tmp_path: Path) -> None:
    package = _package.Package("0" * 64, b"new")
    path = tmp_path / "machine" / "runner.pyz"
    assert package.place(path) == path
    path.write_bytes(b"old")
    package.place(path)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert os.listdir(path.parent) == ["runner.pyz"]


def test_place_leaves_a_file_that_is_right_alone(tmp_path: Path) -> None:
    package = _package.Package("0" * 64, b"same")
    before = package.place(tmp_path / "runner.pyz").stat()
    after = package.place(tmp_path / "runner.pyz").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
