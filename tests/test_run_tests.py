"""tools.run_tests: one more try for a test that failed, and a list of those that passed then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import run_tests

FAILS_ONCE = """
from pathlib import Path

def test_of_chance() -> None:
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-q'\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to load
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "FLAKY", tmp_path / ".cache" / "flaky.txt")
    return tmp_path


def test_a_test_that_passes_alone_is_listed_as_flaky(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "test_one.py").write_text(FAILS_ONCE)
    assert run_tests.main(["test_one.py"]) == 0
    assert "FLAKY test_one.py::test_of_chance" in capfd.readouterr().out
    assert (project / ".cache/flaky.txt").read_text().endswith(" test_one.py::test_of_chance\n")


def test_a_test_that_fails_again_fails_the_run(project: Path) -> None:
    (project / "test_one.py").write_text("def test_never() -> None:\n    assert False\n")
    assert run_tests.main(["test_one.py"]) == run_tests.TESTS_FAILED
    assert not (project / ".cache").exists()


def test_laws_have_no_second_try(project: Path) -> None:
    (project / "tests/contract").mkdir(parents=True)
    (project / "tests/contract/test_laws.py").write_text(FAILS_ONCE)
    assert run_tests.main(["tests/contract/test_laws.py"]) == run_tests.TESTS_FAILED


def test_many_failures_are_no_chance(project: Path) -> None:
    head = 'import pytest\n\n@pytest.mark.parametrize("n", range(50))\n'
    (project / "test_many.py").write_text(f"{head}def test_many(n: int) -> None:\n    assert n < 0\n")
    assert run_tests.main(["test_many.py"]) == run_tests.TESTS_FAILED
