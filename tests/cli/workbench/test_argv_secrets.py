"""Secrets of the old command lines leave the command line before anything else happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import COMMAND
from windlass.cli.workbench.argv_secrets import ATTACH, read_from_pipe, split


@pytest.mark.parametrize(
    ("words", "kept", "found"),
    [
        (["--password", "x"], [], {"password": "x"}),
        (["--password=x y"], [], {"password": "x y"}),
        (["--password="], [], {"password": ""}),
        (["-w", "x", "-n", "a"], ["-n", "a"], {"either": "x"}),
        (["-wx"], [], {"either": "x"}),
        (["-kwx"], ["-k"], {"either": "x"}),
        (["-ywx"], ["-y"], {"either": "x"}),
        (["-kywx"], ["-k", "-y"], {"either": "x"}),
        (["-ykp", "x"], ["-y", "-k"], {"password": "x"}),
        (["-hwkyx"], ["-h"], {"either": "kyx"}),
        (["-ky"], ["-k", "-y"], {}),
        (["-p", "-n"], [], {"password": "-n"}),
        (["--private-key-passphrase", "y", "-k"], ["-k"], {"private_key_passphrase": "y"}),
        (["--password"], ["--password"], {}),
        (["--passw", "x"], [], {"password": "x"}),
        (["--private-key-f", "x"], ["--private-key-f", "x"], {}),
        (["--name", "a", "-k"], ["--name", "a", "-k"], {}),
    ],
)
def test_which_words_are_secrets(words: list[str], kept: list[str], found: dict[str, str]) -> None:
    assert split(words, ATTACH) == (kept, found)


def test_a_pipe_brings_them_and_nothing_else_does() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"password": "x"}')
    os.close(writing)
    assert read_from_pipe(reading) == {"password": "x"}
    assert read_from_pipe(999_999) == {}
    for nonsense in (b"", b"[1]", b"\xff"):
        reading, writing = os.pipe()
        os.write(writing, nonsense)
        os.close(writing)
        assert read_from_pipe(reading) == {}


ATTACHING = ["computetarget", "attach", "remote", "-n", "vm", "-a", "10.0.0.7", "-u", "jane"]
V2 = ["compute", "attach", "-n", "vm", "-t", "virtualmachine", "--address", "10.0.0.7", "--admin-username", "jane"]


@pytest.mark.parametrize(
    "line",
    [
        [*ATTACHING, "--password"],
        ["--workspace", "team", "--json", *ATTACHING, "--password"],
        ["az", "ml", *ATTACHING, "-w"],
        ["az", "ml", *V2, "--admin-password"],
        ["$", "az", "ml", *V2, "--admin-pass"],
    ],
)
def test_the_process_has_no_secret_in_its_command_line_while_it_works(tmp_path: Path, line: list[str]) -> None:
    """Its home is a pipe that nobody writes to, so that it stops where it would find its server."""
    home = tmp_path / "home"
    home.mkdir()
    os.mkfifo(home / "server.json")
    env = {**os.environ, "WINDLASS_HOME": str(home)}
    with subprocess.Popen([*COMMAND, *line, "canary-7f3a"], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL) as process:
        try:
            with open(home / "server.json", "w"):  # opens as soon as the other side reads
                seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                variables = Path(f"/proc/{process.pid}/environ").read_bytes()
        finally:
            process.kill()
    assert b"attach" in seen and b"--secrets-from-fd=" in seen
    assert b"canary-7f3a" not in seen and b"canary-7f3a" not in variables
    assert sys.executable.encode() in seen
