"""Secrets of the old command lines leave the command line before anything else happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import COMMAND
from windlass.cli.concealment import received, split


@pytest.mark.parametrize(
    ("words", "kept", "found"),
    [
        (["--password", "x"], [], {"password": "x"}),
        (["--password=x y"], [], {"password": "x y"}),
        (["--password="], [], {"password": ""}),
        (["-w", "x", "-n", "a"], ["-n", "a"], {"password": "x"}),
        (["-wx"], [], {"password": "x"}),
        (["-kwx"], ["-k"], {"password": "x"}),
        (["-ywx"], ["-y"], {"password": "x"}),
        (["-kywx"], ["-k", "-y"], {"password": "x"}),
        (["-ykp", "x"], ["-y", "-k"], {"password": "x"}),
        (["-hwkyx"], ["-h"], {"password": "kyx"}),
        (["-ky"], ["-k", "-y"], {}),
        (["-p", "-n"], [], {"password": "-n"}),
        (["--private-key-passphrase", "y", "-k"], ["-k"], {"passphrase": "y"}),
        (["--password"], ["--password"], {}),
        (["--name", "a", "-k"], ["--name", "a", "-k"], {}),
    ],
)
def test_which_words_are_secrets(words: list[str], kept: list[str], found: dict[str, str]) -> None:
    assert split(words) == (kept, found)


def test_a_pipe_brings_them_and_nothing_else_does() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"password": "x"}')
    os.close(writing)
    assert received(reading) == {"password": "x"}
    assert received(999_999) == {}
    for nonsense in (b"", b"[1]", b"\xff"):
        reading, writing = os.pipe()
        os.write(writing, nonsense)
        os.close(writing)
        assert received(reading) == {}


@pytest.mark.parametrize("leading", [[], ["--workspace", "team", "--json"]])
def test_the_process_has_no_secret_in_its_command_line_while_it_works(tmp_path: Path, leading: list[str]) -> None:
    """Its home is a pipe that nobody writes to, so that it stops where it would find its server."""
    home = tmp_path / "home"
    home.mkdir()
    os.mkfifo(home / "server.json")
    line = [
        *leading,
        "computetarget",
        "attach",
        "remote",
        "-n",
        "vm",
        "-a",
        "10.0.0.7",
        "-u",
        "jane",
        "--password",
        "canary-7f3a",
    ]
    env = {**os.environ, "WINDLASS_HOME": str(home)}
    with subprocess.Popen([*COMMAND, *line], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL) as process:
        try:
            with open(home / "server.json", "w"):  # opens as soon as the other side reads
                seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                variables = Path(f"/proc/{process.pid}/environ").read_bytes()
        finally:
            process.kill()
    assert b"computetarget" in seen and b"--secrets-from-fd=" in seen
    assert b"canary-7f3a" not in seen and b"canary-7f3a" not in variables
    assert sys.executable.encode() in seen
