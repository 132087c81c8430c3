"""A mistake in a command line leads to what was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.boxes import BOX, server
from tests.cli.fake import FakeSession, W, a_run, windlass
from tests.cli.shell import Shell, Terminal
from windlass.core.errors import NotFound


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            "submit --alpha 0.1 train.py",
            "Options of the script follow the script: windlass submit train.py --alpha 0.1",
        ),
        (
            "submit --alpha=0.1 train.py",
            "Options of the script follow the script: windlass submit train.py --alpha=0.1",
        ),
        (
            "submit --epochs=3 train.py x",
            "Options of the script follow the script: windlass submit train.py --epochs=3",
        ),
        ("submit --experimnt x train.py", "Did you mean --experiment?"),
        ("submit --gpu train.py", "--gpus N asks for GPUs."),
        ("submit --node-count 2 train.py", "--nodes N asks for nodes of a cluster."),
        ("cancel --all", "`windlass runs -s active` lists"),
        ("run train.py", "`windlass submit train.py`"),
        ("targets", "`windlass compute list`"),
        ("list", "`windlass runs`"),
        ("ps", "`windlass runs -s active`"),
        ("rm @last", "`windlass run delete RUN`"),
        ("delete @last", "`windlass run delete RUN`"),
        ("stop @last", "`windlass cancel RUN`"),
        ("env list", "`windlass environment list`"),
        ("compute rm box", "`windlass compute detach`"),
        ("compute ls", "`windlass compute list`"),
        ("secret add x", "`windlass secret set`"),
        ("server stpo", "`windlass server stop`"),
    ],
)
def test_the_right_command_is_named(line: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = windlass(FakeSession(), *line.split())
    assert code == (125 if line.startswith("submit") else 2)
    message, said = capsys.readouterr().err.splitlines()
    assert message.startswith("error: windlass") and message.endswith(".")
    assert hint in said


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["-e", "dmo"], "There is no experiment dmo.", "Did you mean demo?"),
        (["-c", "somewhere"], "There is no target somewhere.", "There are local, box."),
        (["-m", "los"], "No run has a metric los.", "Did you mean loss?"),
        (["--sort", "-metric.los"], "No run has a metric los.", "Did you mean loss?"),
        (["--where", "metric.los < 1"], "No run has a metric los.", "Did you mean loss?"),
    ],
)
def test_names_that_nothing_has_are_mistakes(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {**a_run(), "metrics": {}}

    def runs(body: Any, query: dict[str, Any]) -> Any:
        is_filtered = query.keys() & {"experiment", "target", "where"}
        return {"runs": [] if is_filtered else [run], "next": None}

    session = FakeSession(
        {
            f"GET {W}/runs": runs,
            f"GET {W}/runs/{run['id']}/metrics": {"metrics": {"loss": {"kind": "scalar"}, "curve": {"kind": "table"}}},
            f"GET {W}/experiments": {"experiments": [{"name": "demo"}, {"name": "other"}]},
            f"GET {W}/targets": {"targets": [{"name": "local"}, {"name": "box"}]},
        }
    )
    assert windlass(session, "runs", *words) == 3
    assert capsys.readouterr().err == f"error: {message}\n  {hint}\n"
    assert windlass(session, "runs", "-m", "curve") == 2
    assert "curve is a table" in capsys.readouterr().err


def test_filters_by_names_that_exist_may_find_nothing(shell: Shell, project: Path) -> None:
    shell.submit(project, "from windlass import Run\nRun.get_context().log('loss', 0.5)", "-e", "filtered")
    for words in (["-s", "failed"], ["--where", "metric.loss<0"], ["-c", "docker"]):
        found = shell("runs", "-e", "filtered", *words)
        assert (found.code, found.out) == (0, "No such runs. All of them: windlass runs --all\n")
    wrong = shell("runs", "-e", "filtered", "--where", "metric.loss << 1")
    assert wrong.code == 2 and "Not a condition on a metric: 'metric.loss << 1'" in wrong.err
    assert shell("runs", "-e", "filtered", "-m", "typo").code == 3
    assert shell("runs", "-e", "no-such-experiment").code == 3


def test_run_configurations_are_named_too(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print('hi')")
    (project / "aml_config").mkdir()
    (project / "aml_config" / "mylocal.runconfig").write_text("target: local\n")
    done = shell("submit", "-c", "mylocl", "train.py", cwd=project)
    assert done.code == 125
    assert "Did you mean mylocal?" in done.err
    assert "Targets: docker, local." in done.err and "Run configurations of this project: mylocal." in done.err


@pytest.mark.parametrize("name", [".env", "settings.txt"])
def test_a_file_of_variables_is_not_one_of_packages(shell: Shell, project: Path, name: str) -> None:
    (project / "train.py").write_text("print('hi')")
    (project / name).write_text("# mine\nexport TOKEN=abc\nREGION=west\n")
    done = shell("submit", "--env-file", name, "train.py", cwd=project)
    assert done.code == 125
    assert f"{name} sets variables" in done.err and "--env KEY=VALUE" in done.err


def test_a_variable_alone_has_its_value_from_here(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import os; print([os.environ[name] for name in ('MINE', 'GIVEN', 'EMPTY')])")
    words = ("submit", "-q", "--env", "MINE", "--env", "GIVEN=x=y", "--env", "EMPTY=", "train.py")
    done = shell(*words, cwd=project, env={"MINE": "of here"})
    assert (done.code, done.out) == (0, "['of here', 'x=y', '']\n"), done.err
    unset = shell(*words, cwd=project, env={"MINE": None})
    assert unset.code == 125
    assert "--env MINE takes its value from the environment here, where it is not set." in unset.err


def test_a_dry_run_tells_of_a_folder_that_was_never_sent(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text(f"print('never sent: {project}')")
    plan = shell("submit", "--dry-run", "train.py", cwd=project)
    assert plan.code == 0
    [line] = [line for line in plan.out.splitlines() if line.startswith("snapshot")]
    assert f"(1 file, {len((project / 'train.py').read_text())} bytes)" in line
    shell("submit", "-q", "train.py", cwd=project)
    assert line in shell("submit", "--dry-run", "train.py", cwd=project).out.splitlines()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such host\nCheck its name.", "no such host. Check its name."),
        ("It ended.\nTry again.", "It ended. Try again."),
        ("packages:\nNumpy", "packages: Numpy"),
        ("one two\nthree", "one two three"),
        ("'a'\nInstall it.", "'a'. Install it."),
    ],
)
def test_sentences_on_lines_of_their_own_end(text: str, shown: str) -> None:
    from windlass.core.sanitize import one_line

    assert one_line(text) == shown


def test_a_taken_name_is_told_before_a_password_is_asked_for(shell: Shell, project: Path) -> None:
    words = ("compute", "attach", "ssh", "docker", "--address", "10.0.0.7", "--username", "jane", "--ask-password")
    terminal = Terminal(shell, *words, cwd=project)
    assert terminal.end() == 6
    assert "There is a target docker already." in terminal.text and "Password" not in terminal.text


def test_an_unknown_host_key_is_accepted_by_nobody(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Also by the command lines of Azure ML Workbench."""
    words = ["computetarget", "attach", "remote", "-n", "box", "-a", "10.0.0.7", "-u", "jane", "-k"]
    assert windlass(server(), *words) == 2
    assert "add: --pin SHA256:" in capsys.readouterr().err


WARNED = {
    "cores": 8,
    "docker": {"version": "20.10", "warning": "runc 1.1.5 has CVE-2024-21626."},
    "problems": [
        {
            "level": "warning",
            "about": "docker",
            "message": "runc 1.1.5 has CVE-2024-21626.",
            "fix": "sudo apt-get install",
        },
        {"level": "missing", "about": "disk", "message": "Only 10 MB are free.", "fix": "df -h"},
    ],
}


@pytest.mark.parametrize("is_docker", [False, True])
def test_attaching_tells_of_docker_where_it_is_used(
    is_docker: bool, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    box = {**BOX, "inventory": WARNED, "config": {**BOX["config"], "docker": is_docker}}
    session = server(**{f"POST {W}/targets": box, f"GET {W}/targets/box": NotFound("no box")})
    words = ["compute", "attach", "ssh", "box", "-a", "10.0.0.7", "-u", "jane", "-k", "--yes"]
    assert windlass(session, *words) == 0
    out = capsys.readouterr().out
    assert ("warning  runc 1.1.5" in out) == is_docker
    assert ("docker" in out) == is_docker
    assert "missing  Only 10 MB are free." in out
