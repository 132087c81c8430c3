"""Every command against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import Shell, Terminal

SCRIPT = """
import os, sys
from windlass import Run
run = Run.get_context()
for i in range(3):
    run.log("loss", float(sys.argv[1]) / (i + 1))
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.txt", "w") as file:
    file.write("weights")
print("trained", sys.argv[1])
"""
NAME = "a-name-that-is-rather-long-for-a-table-of-eighty-columns"


class Past(NamedTuple):
    """Two runs that have ended."""

    shell: Shell
    first: str
    second: str
    folder: Path


@pytest.fixture(scope="module")
def past(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    folder = tmp_path_factory.mktemp("past")
    (folder / "train.py").write_text(SCRIPT)
    ids = []
    for value in ("1.0", "2.0"):
        done = shell(
            "submit", "--json", "-e", "commands", "-n", NAME, "-t", f"value={value}", "train.py", value, cwd=folder
        )
        assert done.code == 0, done.err
        ids.append(done.json["id"])
    yield Past(shell, ids[0], ids[1], folder)


COMMANDS = (
    "runs", "runs --all -e commands", "show {first}", "logs {first}", "metrics {first}", "metrics {first} loss",
    "compare {first} {second}", "files {first}", "events {first}", "tag {first}", "experiments", "compute list",
    "compute show local", "compute check", "status", "server status", "gc", "gc -v", "settings", "doctor", "version",
    "completion bash",
)  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_answers_in_words_and_in_json(past: Past, line: str) -> None:
    words = line.format(first=past.first, second=past.second).split()
    done = past.shell(*words)
    assert done.code == 0, done.err
    assert done.out
    assert "\x1b" not in done.out
    document = past.shell(*words, "--json")
    assert document.code == 0
    assert isinstance(document.json, dict)
    assert document.err == ""


@pytest.mark.parametrize("line", ["", "submit", "compute", "compute list", "server run", "runs"])
def test_help_is_there(shell: Shell, line: str) -> None:
    done = shell(*line.split(), "--help")
    assert done.code == 0
    assert "Usage: windlass" in done.out
    assert max(len(text) for text in done.out.splitlines()) <= 80


def test_runs_can_be_found(past: Past) -> None:
    def found(*filters: str) -> list[str]:
        return [run["id"] for run in past.shell("runs", "-e", "commands", *filters, "--json").json["runs"]]

    assert found() == [past.second, past.first]
    assert found("--sort", "metric.loss") == [past.first, past.second]
    assert found("--where", "metric.loss>0.5") == [past.second]
    assert found("-t", "value=1.0") == [past.first]
    assert found("-s", "failed") == []
    assert found("-n", "1") == [past.second]
    assert found("--search", past.first[-8:]) == [past.first]


def test_a_run_by_its_short_id(past: Past) -> None:
    assert past.shell("show", past.first[-8:], "--json").json["id"] == past.first


def test_metrics_and_files_come_back(past: Past, tmp_path: Path) -> None:
    metrics = past.shell("metrics", past.first, "--json").json["metrics"]
    assert [point["v"] for point in metrics["loss"]["values"]] == [1.0, 0.5, 1 / 3]
    csv = past.shell("metrics", past.first, "--csv").out.splitlines()
    assert len(csv) == 4
    assert past.shell("logs", past.first).out == "trained 1.0\n"
    assert past.shell("download", past.first, "-p", "outputs", "-o", str(tmp_path / "here")).code == 0
    assert (tmp_path / "here" / "outputs" / "model.txt").read_text() == "weights"


def test_compare_tells_the_difference(past: Past) -> None:
    out = past.shell("compare", past.first, past.second).out
    assert "* loss" in out
    assert "  outputs/model.txt" in out
    document = past.shell("compare", past.first, past.second, "--json").json
    rows = {row["name"]: row for part in ("parameters", "metrics", "files") for row in document[part]}
    assert rows["argument 1"]["values"] == ["1.0", "2.0"]
    assert rows["outputs/model.txt"]["differs"] is False


def test_tags_can_be_changed(past: Past) -> None:
    assert past.shell("tag", past.first, "best=yes", "reviewed").out == "best=yes, reviewed, value=1.0\n"
    assert past.shell("tag", past.first, "-r", "best", "-r", "reviewed").out == "value=1.0\n"


def test_slots_can_be_changed(past: Past) -> None:
    before = past.shell("compute", "show", "local", "--json").json["slots"]
    assert past.shell("compute", "update", "local", "--slots", str(before + 1), "--json").json["slots"] == before + 1
    assert past.shell("compute", "update", "local", "--slots", str(before)).code == 0


def test_settings_can_be_changed(past: Past) -> None:
    assert past.shell("settings", "keep_logs_days=90", "--json").json["keep_logs_days"] == 90
    assert past.shell("settings", "keep_logs_days=null", "--json").json["keep_logs_days"] is None
    refused = past.shell("settings", "colour=blue")
    assert refused.code == 2
    assert "There is no setting colour" in refused.err and "windlass settings" in refused.err


def test_the_last_lines_of_a_log(past: Past, project: Path) -> None:
    run = past.shell.submit(project, "for i in range(100): print(i)")
    assert past.shell("logs", "-n", "2", run["id"]).out == "98\n99\n"


def test_an_ended_run_cannot_be_canceled_any_more(past: Past) -> None:
    done = past.shell("cancel", past.first)
    assert (done.code, done.out) == (0, f"{past.first[-8:]}  had ended already: Completed\n")


@pytest.mark.parametrize("width", [80, 50])
@pytest.mark.parametrize("line", ["runs -e commands", "metrics {first}", "files {first}", "events {first}"])
def test_tables_fit_the_terminal(past: Past, line: str, width: int) -> None:
    words = line.format(first=past.first).split()
    terminal = Terminal(past.shell, *words, cwd=past.folder, env={"COLUMNS": str(width)})
    assert terminal.end() == 0
    assert max(len(text) for text in terminal.text.splitlines()) <= width
    assert words[0] != "runs" or past.first[-8:] in terminal.text


def test_in_a_pipe_nothing_is_cut(past: Past) -> None:
    out = past.shell("runs", "-e", "commands").out
    assert "\u2026" not in out
    assert [NAME in line for line in out.splitlines()] == [False, True, True]


def test_colours_are_for_terminals_only(past: Past) -> None:
    def shown(**env: str | None) -> Terminal:
        terminal = Terminal(past.shell, "runs", "-e", "commands", cwd=past.folder, env=env)
        assert terminal.end() == 0
        return terminal

    coloured = shown()
    assert "\x1b[32mCompleted" in coloured.seen
    assert max(len(line) for line in coloured.text.splitlines()) <= 80
    assert "\x1b" not in shown(NO_COLOR="1").seen
    assert "\x1b" not in shown(TERM="dumb").seen


def test_completion_knows_commands_and_options(shell: Shell) -> None:
    def complete(words: str, at: str) -> list[str]:
        env: dict[str, str | None] = {"_WINDLASS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": at}
        return shell(env=env).out.split()

    assert "plain,submit" in complete("windlass su", "1")
    assert "plain,--follow" in complete("windlass logs --f", "2")
    assert complete("windlass server st", "2") == ["plain,start", "plain,stop", "plain,status"]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: Shell, shell_name: str) -> None:
    out = shell("completion", shell_name).out
    assert "_WINDLASS_COMPLETE" in out
    assert "windlass" in out


def test_a_project_has_its_own_workspace(shell: Shell, project: Path) -> None:
    (project / ".azureml").mkdir()
    config: dict[str, Any] = {"subscription_id": "s", "resource_group": "r", "workspace_name": "vision"}
    (project / ".azureml" / "config.json").write_text(json.dumps(config))
    (project / "train.py").write_text("print('hi')")
    assert shell("submit", "-q", "train.py", cwd=project).code == 0
    assert len(shell("runs", "--json", cwd=project).json["runs"]) == 1
    assert len(shell("--workspace", "vision", "runs", "--json").json["runs"]) == 1
    assert shell("runs", "--workspace", "nowhere").code == 3
