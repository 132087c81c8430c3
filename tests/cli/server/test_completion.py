"""What the Tab key completes, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.shell import COMMAND, Shell, Terminal

PROMPT = "ready> "


class Desk(NamedTuple):
    """A project with runs of a running server, and a folder with the command."""

    shell: Shell
    project: Path
    programs: Path
    run: str

    def environment(self) -> dict[str, str | None]:
        path = f"{self.programs}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.project), "TERM": "dumb", "PS1": PROMPT, "PROMPT": PROMPT}


@pytest.fixture(scope="module")
def desk(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    project, programs = tmp_path_factory.mktemp("desk"), tmp_path_factory.mktemp("programs")
    python, _, code = COMMAND
    (programs / "windlass").write_text(f"#!/bin/sh\nexec {python} -c '{code}' \"$@\"\n")
    (programs / "windlass").chmod(0o755)
    (project / "training.py").write_text("print('hello')\n")
    (project / "aml_config").mkdir()
    (project / "aml_config" / "nightly.runconfig").write_text("target: local\n")
    done = shell("submit", "--json", "-e", "zebra-experiment", "training.py", cwd=project)
    assert done.code == 0, done.err
    place = ("-g", "rg", "--vm-name", "box", "--address", "10.0.0.7")
    assert shell("connection", "add", "vm", "quagga-lab", *place).code == 0
    yield Desk(shell, project, programs, done.json["id"])


CASES = [
    ("windlass submit train", "training.py"),
    ("windlass submit --env-file train", "training.py"),
    ("windlass submit -c loc", "local"),
    ("windlass submit -c nigh", "nightly"),
    ("windlass submit -e zebra", "zebra-experiment"),
    ("windlass runs -e zebra", "zebra-experiment"),
    ("windlass compute check doc", "docker"),
    ("windlass compute attach ss", "ssh"),
    ("windlass compute attach ssh box --addr", "--address"),
    ("windlass compute update docker --base", "--base-image"),
    ("windlass compute public-key s", "ssh"),
    ("windlass connection show quag", "quagga-lab"),
    ("windlass connection remove quag", "quagga-lab"),
    ("windlass logs -f {short}", "{whole}"),
    ("windlass cancel zebra", "{id}"),
    ("windlass serv", "server"),
]


def case(desk: Desk, line: str, completed: str) -> tuple[str, str]:
    digits = desk.run.rpartition("_")[2]
    known = {"short": digits[:6], "whole": digits, "id": desk.run}
    return line.format(**known), completed.format(**known)


class Typed:
    """An interactive shell at a terminal, with our completion."""

    def __init__(self, desk: Desk, command: list[str], set_up: str) -> None:
        self.terminal = Terminal(desk.shell, cwd=desk.project, env=desk.environment(), command=command)
        self.terminal.wait_for(PROMPT)
        self.terminal.press(f"{set_up}; echo set-'up'\n")
        self.terminal.wait_for("set-up\r\n")

    def complete(self, line: str, completed: str) -> None:
        """Type a line and Tab, and wait for what it becomes; then forget the line."""
        self.terminal.seen = ""
        self.terminal.press(f"{line}\t")
        begun = line.rpartition(" ")[2]
        self.terminal.wait_for(completed if not completed.startswith(begun) else line[: -len(begun)] + completed)
        self.terminal.press("\x15")  # Ctrl-U

    def end(self) -> None:
        self.terminal.press("exit\n")
        self.terminal.end()


def test_bash(desk: Desk) -> None:
    bash = Typed(desk, ["bash", "--norc", "--noprofile", "-i"], 'eval "$(windlass completion bash)"')
    for line, completed in CASES:
        bash.complete(*case(desk, line, completed))
    bash.end()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(desk: Desk) -> None:
    set_up = 'autoload -Uz compinit; compinit -u -D; eval "$(windlass completion zsh)"'
    zsh = Typed(desk, ["zsh", "-f", "-i"], set_up)
    for line, completed in CASES:
        zsh.complete(*case(desk, line, completed))
    zsh.end()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(desk: Desk) -> None:
    """It says itself what it would complete."""
    environment = desk.shell.environment(**desk.environment())
    for line, completed in CASES:
        line, completed = case(desk, line, completed)
        code = f"windlass completion fish | source; complete --do-complete '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code], cwd=desk.project, env=environment, capture_output=True, text=True
        )
        assert completed in [row.split("\t")[0] for row in done.stdout.splitlines()], (line, done.stdout, done.stderr)


def test_nothing_is_completed_and_started_without_a_server(fresh: Shell) -> None:
    env: dict[str, str | None] = {
        "_WINDLASS_COMPLETE": "bash_complete",
        "COMP_WORDS": "windlass logs ",
        "COMP_CWORD": "2",
    }
    done = fresh(env=env)
    assert (done.code, done.out.strip(), done.err) == (0, "", "")
    assert not fresh.home.exists()
