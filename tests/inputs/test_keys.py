"""I5: the key file of secrets, missing, wrong, damaged or open to others; and runs that name secrets in vain."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Result, Shell
from tests.inputs.command import complains
from tests.inputs.outside import WS, Outside

CANARY = "the-canary-sings"


def set_secret(shell: Shell) -> Result:
    with tempfile.TemporaryFile() as file:
        file.write(CANARY.encode())
        file.seek(0)
        return shell("secret", "set", "key", stdin=file)


def _other(path: Path) -> None:
    path.write_text("ab" * 32 + "\n")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "is not there"),
    "of another database": (_other, "does not have that key"),
    "readable by all": (lambda path: path.chmod(0o644), "can be read by others"),
    "readable by a group": (lambda path: path.chmod(0o640), "can be read by others"),
    "cut": (lambda path: os.truncate(path, 120), "is damaged"),
    "empty": (lambda path: os.truncate(path, 0), "is damaged"),
    "binary": (lambda path: path.write_bytes(os.urandom(100)), "is damaged"),
    "a folder": (_folder, "cannot be read"),
}


@pytest.mark.parametrize("harm, word", HARM.values(), ids=HARM)
def test_i5_without_its_key_a_server_does_not_start(fresh: Shell, harm: Callable[[Path], object], word: str) -> None:
    """It says which file and why; nothing is made anew, and when the file is right again, everything is."""
    assert set_secret(fresh).code == 0
    path = fresh.home / "keys" / "secrets.key"
    whole = path.read_bytes()
    assert fresh("server", "stop").code == 0
    harm(path)
    done = fresh("server", "run")
    complains(done, 125, "secrets.key", word)
    refused = fresh("runs")
    assert refused.code == 5 and word in refused.err and CANARY not in refused.err
    if path.is_dir():
        path.rmdir()
    path.write_bytes(whole)
    path.chmod(0o600)
    assert fresh("secret", "list").code == 0


def test_i5_a_key_that_is_harmed_while_the_server_runs_is_said_when_it_is_needed(fresh: Shell) -> None:
    assert set_secret(fresh).code == 0
    path = fresh.home / "keys" / "secrets.key"
    path.chmod(0o644)
    done = set_secret(fresh)
    assert done.code == 1 and "can be read by others" in done.err and "Traceback" not in done.err
    assert fresh("secret", "list").code == 0 and fresh("runs").code == 0
    path.chmod(0o600)
    assert set_secret(fresh).code == 0


def test_i5_a_home_without_secrets_needs_no_key(fresh: Shell) -> None:
    assert fresh("runs").code == 0
    assert not (fresh.home / "keys").exists()


NAMES: dict[str, tuple[Any, int]] = {
    "unknown": (["nothing"], 404),
    "granted to nobody": (["closed"], 403),
    "of a target": (["target/gpu/password"], 400),
    "of a run": (["run/demo.1"], 400),
    "empty": ([""], 400),
    "a text": ("nothing", 400),
    "a thousand": ([f"s{n}" for n in range(1001)], 413),
    "a number": ([5], 400),
    "null": (None, 400),
}


@pytest.mark.parametrize("names, status", NAMES.values(), ids=NAMES)
def test_runs_that_name_secrets_which_they_cannot_have(server: Outside, names: Any, status: int) -> None:
    closed = {"value": CANARY, "granted_to": "nobody"}
    server.call("PUT", f"{WS}/secrets/closed", closed).kept()
    with server.unchanged():
        for path in (f"{WS}/runs", f"{WS}/plan"):
            sentence = server.call("POST", path, server.submission(secrets=names)).refused(status)
            assert CANARY not in sentence
    server.call("DELETE", f"{WS}/secrets/closed")
