"""Commands, modules and shell scripts by `windlass submit`; what a run asks of its target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def project(project: Path) -> Path:
    (project / "train.py").write_text("import sys; print('script', sys.argv[1:])\n")
    (project / "train.sh").write_text('#!/bin/bash\necho "bash $0 $1"; [[ x == x ]] && exit 3\n')
    (project / "plain.sh").write_text('echo "sh $1"\n')
    (project / "own").write_text("#!/usr/bin/env -S sh -e\nfalse\necho never\n")
    package = project / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mod.py").write_text("import sys; print('module', sys.argv[1:])\n")
    return project


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["train.sh", "one"], 3, "bash train.sh one\n"),
        (["plain.sh", "two words"], 0, "sh two words\n"),
        (["own"], 1, ""),
        (["-m", "pkg.mod", "--alpha", "0.1", "-e", "x"], 0, "module ['--alpha', '0.1', '-e', 'x']\n"),
        (["--module=pkg.mod"], 0, "module []\n"),
        (["--", "python", "train.py", "--x", "1"], 0, "script ['--x', '1']\n"),
        (["--", "sh", "-c", "echo $0 $1", "a", "b c"], 0, "a b c\n"),
        (["--", "train.py", "a"], 0, "script ['a']\n"),
        (["--", "echo", "--json", "&&", "$HOME"], 0, "--json && $HOME\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_not_a_python_script_is_run_too(
    shell: Shell, project: Path, words: list[str], code: int, out: str
) -> None:
    done = shell("submit", "-q", *words, cwd=project)
    assert (done.out, done.code) == (out, code), done.err


def test_a_command_finds_the_programs_of_the_environment(shell: Shell, project: Path) -> None:
    environment = project.parent / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (environment / "bin" / "python").symlink_to("/usr/bin/env")  # never executed
    tool = environment / "bin" / "own-torchrun"
    tool.write_text("#!/bin/sh\necho started $1\n")
    tool.chmod(0o755)
    line = ["--python", str(environment / "bin" / "python"), "--", "own-torchrun", "train.py"]
    assert shell("submit", "-q", *line, cwd=project).out == "started train.py\n"


def test_a_command_by_way_of_click_is_the_same(shell: Shell, project: Path) -> None:
    """Options of all commands may stand before `submit`."""
    found = shell("--json", "submit", "-m", "pkg.mod", "--help", cwd=project).json
    shown = shell("show", found["id"], cwd=project).out
    assert "Command     python -m pkg.mod --help\n" in shown
    found = shell("--json", "submit", "-d", "--", "echo", "-d", cwd=project).json
    assert "Command     echo -d\n" in shell("show", found["id"], cwd=project).out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--"], "error: There is no command behind --.\n  windlass submit -- torchrun train.py\n"),
        (["--", "train.sh"], "error: train.sh is a file of the folder, and not a command that is found on the PATH.\n"
         "  Leave out the -- to run it as a script, or name it by its path: windlass submit -- ./train.sh\n"),
        (["--", "echo a && ls"], "error: echo a && ls is one word to a shell, and there is no program of that name.\n"
         "  Leave out the quotes, or let a shell run it: windlass submit -- sh -c 'echo a && ls'\n"),
        (["-m", "train.py"], "error: train.py is not the name of a module.\n"
         "  It is a script: windlass submit train.py\n"),
        (["-m", "pkg/mod"], "error: pkg/mod is not the name of a module.\n"
         "  A module has dots between its parts: -m package.module\n"),
        (["--processes-per-node", "2", "train.py"], "error: --processes-per-node says how many processes "
         "--distribution starts, which is not given.\n  Add --distribution mpi|pytorch|tensorflow.\n"),
        (["--nodes", "2", "train.py"], "error: Targets of kind local run on one node.\n"),
        (["--gpu", "2", "train.py"], "error: windlass submit has no option --gpu.\n  --gpus N asks for GPUs.\n"),
        (["--memory", "8", "train.py"], "error: Invalid value for '--memory': '8' is not an amount of memory like "
         "512M or 8G. Did you mean 8M or 8G?\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_mistakes_get_a_suggestion(shell: Shell, project: Path, words: list[str], error: str) -> None:
    done = shell("submit", *words, cwd=project)
    assert done.code == 125 and done.err.startswith(error), done.err


def test_a_program_is_no_script(shell: Shell, project: Path) -> None:
    (project / "prog").write_bytes(b"\x7fELF\0\0")
    done = shell("submit", "prog", cwd=project)
    assert done.err == (
        "error: prog is not a script: it holds binary data.\n  A program is a command: windlass submit -- ./prog\n"
    )


def test_a_dry_run_shows_the_command_the_resources_and_the_processes(shell: Shell, project: Path) -> None:
    line = ["--cpus", "2", "--memory", "1.5G", "--distribution", "pytorch", "--processes-per-node", "2"]
    out = shell("submit", "--dry-run", *line, "--", "torchrun", "train.py", cwd=project).out
    assert "\ncommand      torchrun train.py\n" in out
    assert "\nresources    cores 2, memory in MB 1536\n" in out
    assert "\nprocesses    pytorch, 2 on each node, 2 in all\n" in out


def spec_of(shell: Shell, project: Path, *words: str) -> dict[str, Any]:
    """The specification of a run that was submitted; whether it could be run does not matter."""
    run = shell("submit", "--json", "-d", *words, cwd=project).json
    spec: dict[str, Any] = shell("show", "--json", run["id"], cwd=project).json["spec"]
    shell("cancel", run["id"], cwd=project)
    return spec


def test_resources_and_processes_are_part_of_the_run(shell: Shell, project: Path) -> None:
    spec = spec_of(shell, project, "--cpus", "1", "--memory", "64M", "--distribution", "tensorflow", "train.py")
    assert {key: value for key, value in spec["resources"].items() if value is not None} == {
        "cpus": 1.0,
        "memory_mb": 64,
    }
    assert spec["distribution"]["framework"] == "tensorflow" and spec["distribution"]["workers"] == 1
    assert spec["definition"]["communicator"] == "ParameterServer"


def test_a_run_configuration_with_a_command_and_resources(shell: Shell, project: Path) -> None:
    folder = project / "aml_config"
    folder.mkdir()
    environment = "environment: {python: {userManagedDependencies: true}}\n"
    (folder / "task.runconfig").write_text(
        f"target: local\ncommand: echo from $PWD | cut -c1-4\nresources: {{cpu: 1}}\n{environment}"
    )
    assert shell("submit", "-q", "-c", "task", cwd=project).out == "from\n"
    spec = spec_of(shell, project, "-c", "task", "--memory", "1G", "--", "echo", "other")
    assert spec["command"] == ["echo", "other"] and spec["script"] is None
    assert (spec["resources"]["cpus"], spec["resources"]["memory_mb"]) == (1, 1024)
    assert spec_of(shell, project, "-c", "task", "plain.sh", "x")["command"] == ["sh", "plain.sh", "x"]
    assert spec_of(shell, project, "-c", "task", "train.py", "x")["script"] == "train.py"
