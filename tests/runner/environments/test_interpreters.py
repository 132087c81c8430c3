"""Which interpreters a machine has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from windlass.runner.environments import interpreters


def test_shims_of_pyenv_are_not_asked_and_its_versions_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shim takes a quarter of a second to answer, and a machine may have one of each version."""
    shims, version = tmp_path / ".pyenv/shims", tmp_path / ".pyenv/versions/3.7.17/bin"
    shims.mkdir(parents=True)
    version.mkdir(parents=True)
    for path, says in ((shims / "python3", "9.9.9"), (shims / "python3.9", "9.9.9"), (version / "python3", "3.7.17")):
        path.write_text(f"#!/bin/sh\necho {says}\n")
        path.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{shims}:{shims}/")
    found = interpreters.all_interpreters()
    assert found[1:] == [(sys.executable, found[0].version), (str(version / "python3"), "3.7.17")]
