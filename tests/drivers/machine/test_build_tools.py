"""Tools that are sent to build environments: uv as it is, and rattler repacked as a wheel."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from windlass.core.entities import EnvironmentSpec
from windlass.drivers.machine import build_tools

CONDA = EnvironmentSpec(conda=("python=3.11", "numpy"))


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        (EnvironmentSpec(interpreter="python3"), []),
        (EnvironmentSpec(pip=("numpy",)), ["uv"]),
        (EnvironmentSpec(conda=("python=3.11", "pip", "setuptools >=60"), pip=("numpy",)), ["uv"]),
        (CONDA, ["uv", "rattler"]),
        (EnvironmentSpec(conda=("python-dateutil",)), ["uv", "rattler"]),
    ],
)
def test_a_machine_may_get_what_its_environment_needs(environment: EnvironmentSpec, names: list[str]) -> None:
    assert list(build_tools.sendable_tools(environment)) == names


def test_what_is_sent_is_what_was_described() -> None:
    for program in build_tools.sendable_tools(CONDA).values():
        with program.open() as first, program.open() as second:
            assert first.read(4) == second.read(4), "two are sent at once"
            first.read()
            data = second.read()
        assert program.size == len(data) + 4
        with program.open() as file:
            assert program.digest == hashlib.sha256(file.read()).hexdigest() == program.describe()["digest"]


def test_what_is_packed_is_a_wheel_for_all_pythons_that_the_library_runs_on() -> None:
    rattler = build_tools.sendable_tools(CONDA)["rattler"]
    assert rattler.name is not None
    assert rattler.name == rattler.describe()["name"]
    assert rattler.name.startswith("py_rattler-0.") and "-cp310-abi3-manylinux" in rattler.name
    with rattler.open() as file, zipfile.ZipFile(io.BytesIO(file.read())) as archive:
        [record] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        assert [row[0] for row in rows] == archive.namelist()
        for name, told, size in rows[:-1]:
            data = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (told, size) == (f"sha256={digest}", str(len(data))), name


def install(folder: Path, tag: str) -> None:
    """As pip does it: beside what was in the wheel there is what was made here."""
    info = folder / "tiny-1.0.dist-info"
    info.mkdir()
    (folder / "tiny.py").write_text("version = '1.0'\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: cp310-abi3-{tag}\nTag: cp310-abi3-manylinux2014_x86_64\n")
    made = [f"{info.name}/{name},," for name in ("RECORD", "INSTALLER", "direct_url.json")]
    rows = [f"{info.name}/METADATA,sha256=x,1", f"{info.name}/WHEEL,sha256=x,1", "tiny.py,sha256=x,16", *made]
    (info / "RECORD").write_text("\n".join([*rows, "../../bin/tiny,,", "__pycache__/tiny.cpython-311.pyc,,"]))


def test_the_same_package_is_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "manylinux_2_17_x86_64")
    packed = [io.BytesIO(), io.BytesIO()]
    for each in packed:
        assert build_tools.pack("tiny", each) == "tiny-1.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
        (tmp_path / "tiny.py").touch()
    assert packed[0].getvalue() == packed[1].getvalue()
    names = zipfile.ZipFile(packed[0]).namelist()
    assert names == [*(f"tiny-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL")), "tiny.py", names[-1]]


def test_what_was_built_for_one_machine_does_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "linux_x86_64")
    assert build_tools.pack("tiny", io.BytesIO()) is None
    assert build_tools.pack("no-such-project", io.BytesIO()) is None
