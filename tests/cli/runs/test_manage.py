"""`windlass run`, lists of one's own runs, and what members see, against a real server."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell, Terminal

PARENT = "from windlass import Run\nwith Run.get_context().child_run('c') as child: child.log('x', 1)"


@pytest.fixture
def run(shell: Shell, project: Path) -> str:
    """The id of a run that has ended."""
    return str(shell.submit(project, "print('done')", "-e", project.parent.name, "-n", "base")["id"])


def ids(shell: Shell, *filters: str, **more: Any) -> list[str]:
    return [each["id"] for each in shell("runs", "--json", *filters, **more).json["runs"]]


def test_archived_runs_are_left_out_of_lists(shell: Shell, run: str) -> None:
    assert shell("run", "archive", run).out == f"{run[-8:]}  archived\n"
    assert run not in ids(shell)
    assert run in ids(shell, "--archived") and run in ids(shell, "--all")
    assert "Archived" in shell("show", run).out
    assert shell("rerun", "-q", run).out == "done\n"
    assert shell("run", "unarchive", run).code == 0
    assert run in ids(shell) and run not in ids(shell, "--archived")


def test_a_run_is_deleted_with_all_it_has(shell: Shell, run: str, project: Path) -> None:
    asked = Terminal(shell, "run", "delete", run, cwd=project)
    asked.wait_for(f"Delete run {run[-8:]}, with logs, metrics and files?")
    asked.press("n\n")
    assert asked.end() == 6
    assert "the run stays" in " ".join(asked.text.split())
    refused = shell("run", "delete", run)
    assert (refused.code, "add --yes" in refused.err) == (2, True)
    assert shell("run", "delete", "--yes", run).out == f"{run[-8:]}  deleted\n"
    assert shell("show", run).code == 3
    assert run not in ids(shell, "--all")


def test_children_are_deleted_only_on_request(shell: Shell, project: Path) -> None:
    run = shell.submit(project, PARENT)["id"]
    refused = shell("run", "delete", "-y", run)
    assert refused.code == 6
    assert "there is 1 run below it" in refused.err and f"windlass run delete --children {run[-8:]}" in refused.err
    assert shell("run", "delete", "-y", "--children", "--json", run).json == {"deleted": [run]}
    assert run not in ids(shell, "--all")


def test_a_run_that_has_not_ended_is_not_deleted(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import time; time.sleep(600)")
    run = shell("submit", "-d", "train.py", cwd=project).out.strip()
    refused = shell("run", "delete", "-y", run)
    assert (refused.code, f"windlass cancel {run[-8:]}" in refused.err) == (6, True)
    shell("cancel", run)
    shell("wait", run)
    assert shell("run", "delete", "-y", run).code == 0


def test_names_and_notes(shell: Shell, run: str) -> None:
    assert shell("run", "rename", run, "wide layers").out == f"{run[-8:]} is named wide layers\n"
    assert shell("run", "rename", run, "").out == f"{run[-8:]} has no name\n"
    assert "No note. Write one" in shell("run", "note", run).err
    assert shell("run", "note", run, "too", "slow").out == f"{run[-8:]}  noted\n"
    assert shell("run", "note", run).out == "too slow\n"
    with subprocess.Popen(["printf", "two\\nlines\\n"], stdout=subprocess.PIPE) as said:
        assert shell("run", "note", run, "-", stdin=said.stdout).code == 0
    assert shell("run", "note", run, "--json").json == {"run": run, "note": "two\nlines"}
    assert shell("run", "note", run, "").out == f"{run[-8:]}  the note is removed\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("run train.py", "`windlass submit train.py` runs a script."),
        ("run list", "`windlass runs` lists runs."),
        ("run cancel", "`windlass cancel RUN`"),
        ("archive", "windlass run archive"),
        ("delete", "`windlass run delete RUN`"),
        ("resubmit", "`windlass rerun RUN`"),
    ],
)
def test_what_others_call_it(shell: Shell, line: str, hint: str) -> None:
    done = shell(*line.split())
    assert (done.code, hint in done.err) == (2, True)


def test_lists_by_time_and_text(shell: Shell, project: Path, run: str) -> None:
    (project / "other.py").write_text("pass")
    assert (
        shell("submit", "-q", "-e", project.parent.name, "-t", "stage=final", "other.py", "--rate=7", cwd=project).code
        == 0
    )
    other = ids(shell, "-n", "1")[0]
    here = ("-e", project.parent.name)
    assert ids(shell, *here, "--search", "rate=7") == ids(shell, *here, "--search", "final") == [other]
    assert ids(shell, *here, "--since", "1h", "--mine") == [other, run]
    assert ids(shell, *here, "--until", "1h") == []
    assert shell("runs", *here, "--until", "1h").out == "No such runs. All of them: windlass runs --all\n"
    assert shell("runs", "--since", "soon").code == 2


def test_members_see_who_submitted_what(fresh: Shell, project: Path) -> None:
    fresh.start_server()
    assert fresh.submit(project, "print('by the owner')")["submitted_by"] == "owner"
    alone = fresh("runs").out
    assert "BY" not in alone.splitlines()[0].split()
    url = fresh.status()["url"]
    tokens = {name: fresh("token", "create", name, "--role", role, "--json").json["token"]
              for name, role in (("ann", "contributor"), ("rob", "reader"))}  # fmt: skip

    def as_member(name: str, *line: str) -> Any:
        return fresh(*line, cwd=project, env={"WINDLASS_URL": url, "WINDLASS_TOKEN": tokens[name]})

    (project / "train.py").write_text("print('by ann')")
    assert as_member("ann", "submit", "-q", "train.py").code == 0
    listed = as_member("ann", "runs").out.splitlines()
    assert "BY" in listed[0].split() and "ann" in listed[1].split() and "owner" in listed[2].split()
    (own,) = as_member("ann", "runs", "--mine", "--json").json["runs"]
    assert own["submitted_by"] == "ann"
    assert [run["submitted_by"] for run in as_member("rob", "runs", "--by", "owner", "--json").json["runs"]] == [
        "owner"
    ]
    for name, role in (("ann", "contributor"), ("rob", "reader")):
        shown = as_member(name, "status")
        assert (shown.code, shown.err) == (0, "")
        assert f"{name} ({role})" in shown.out and "0 active, 0 waiting" in shown.out and "local" in shown.out
    others = fresh("runs", "--by", "owner", "--json").json["runs"][0]["id"]
    for command in (("delete", "-y"), ("archive",), ("note",)):
        refused = as_member("ann", "run", *command, others, *(["text"] if command == ("note",) else []))
        assert (refused.code, "you may change only your own" in refused.err) == (4, True), command
    assert as_member("rob", "run", "delete", "-y", own["id"]).code == 4
    assert as_member("ann", "run", "delete", "-y", own["id"]).code == 0
