"""The folder is the registry."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from windlass import drivers
from windlass.core.errors import NotFound
from windlass.drivers.base import Driver, TargetConfig


def in_a_fresh_process(code: str, path: Path) -> str:
    script = f"import sys; sys.path.insert(0, {str(path)!r})\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_module_is_a_kind_and_says_so() -> None:
    for kind in drivers.known_kinds():
        driver = drivers.load(kind)
        assert issubclass(driver, Driver)
        assert driver.kind == kind
        assert issubclass(driver.config_model, TargetConfig)


def test_local_is_there_and_inner_modules_are_not() -> None:
    assert "local" in drivers.known_kinds()
    assert "base" not in drivers.known_kinds()
    assert not any(kind.startswith("_") for kind in drivers.known_kinds())


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="'teapot'") as caught:
        drivers.load("teapot")
    assert "local" in caught.value.hint


def test_listing_kinds_imports_none_of_them() -> None:
    code = """
        from windlass import drivers
        drivers.known_kinds()
        print([name for name in sys.modules if name.startswith("windlass.drivers.kinds.") or name == "pydantic"])
    """
    assert in_a_fresh_process(code, Path.cwd()) == "[]"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package of others: one sound driver, one whose SDK is missing, one that lies about its kind."""
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[windlass.drivers]\nteapot = others:Teapot\nkettle = others_kettle:Kettle\ncup = others:Teapot\n"
        "local = others:Teapot\n"
    )
    (tmp_path / "others.py").write_text("class Teapot:\n    kind = 'teapot'\n")
    (tmp_path / "others_kettle.py").write_text("import steam_sdk\n")
    return tmp_path


def test_packages_of_others_add_kinds_but_replace_none(package: Path) -> None:
    code = """
        from windlass import drivers
        print("teapot" in drivers.known_kinds(), drivers.load("teapot").__module__, drivers.load("local").__module__)
    """
    assert in_a_fresh_process(code, package) == "True others windlass.drivers.kinds.local"


def test_a_missing_sdk_answers_with_the_line_to_type(package: Path) -> None:
    code = """
        from windlass import drivers
        try:
            drivers.load("kettle")
        except Exception as e:
            print(type(e).__name__, e)
    """
    said = in_a_fresh_process(code, package)
    assert said.startswith("SpecNotSupported") and "steam_sdk" in said
    assert "pip install 'windlass[kettle]'" in said


def test_a_driver_under_a_wrong_name_is_a_bug_that_is_named(package: Path) -> None:
    code = """
        from windlass import drivers
        try:
            drivers.load("cup")
        except Exception as e:
            print(type(e).__name__, e)
    """
    assert "InternalError" in in_a_fresh_process(code, package)
