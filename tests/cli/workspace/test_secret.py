"""`windlass secret` and `windlass audit`, against a real server."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import FakeSession, windlass
from tests.cli.shell import Result, Shell, Terminal, using

CANARY = "the-canary-sings"
W = "/workspaces/default"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with using(tmp_path_factory.mktemp("secret") / "home") as found:
        yield found


def given(shell: Shell, value: bytes, *arguments: str) -> Result:
    """Called with this on standard input."""
    with tempfile.TemporaryFile() as file:
        file.write(value)
        file.seek(0)
        return shell(*arguments, stdin=file)


def names(shell: Shell) -> dict[str, str]:
    return {s["name"]: s["granted_to"] for s in shell("secret", "list", "--json").json["secrets"]}


def value_of(shell: Shell, folder: Path, name: str) -> str:
    """As a run has it; outputs are not masked."""
    script = f"""
import os
from windlass import Run
os.makedirs("outputs", exist_ok=True)
with open("outputs/value", "w", newline="") as file:
    file.write(Run.get_context().get_secret({name!r}))
"""
    run = shell.submit(folder, script, "--secret", name)
    assert run["state"] == "Completed", run
    target = folder / "down"
    assert shell("download", run["id"], "-o", str(target)).code == 0
    [found] = target.rglob("value")
    with open(found, newline="") as file:
        return file.read()


def test_what_a_value_is_may_be_said(shell: Shell) -> None:
    assert given(shell, b"{}", "secret", "set", "typed", "--content-type", "application/json").code == 0
    heading, *rows = shell("secret", "list").out.splitlines()
    assert "TYPE" in heading and any("application/json" in row for row in rows if row.startswith("typed "))
    refused = given(shell, b"{}", "secret", "set", "typed", "--content-type", "x" * 256)
    assert refused.code == 2 and "content_type" in refused.err
    assert shell("secret", "delete", "typed").code == 0


def test_what_comes_in_is_what_a_run_gets(shell: Shell, project: Path) -> None:
    done = given(shell, f"{CANARY}\n".encode(), "secret", "set", "by-stdin")
    assert done == (0, "by-stdin is set (version 1), for all runs.\n", "")
    assert value_of(shell, project, "by-stdin") == CANARY
    (project / "key").write_bytes(b"-----BEGIN-----\n\xc3\xa9\n-----END-----\n")
    done = shell("secret", "set", "by-file", "--from-file", str(project / "key"), "--granted-to", "named-runs")
    assert done.out == "by-file is set (version 1), for runs that name it.\n"
    (project / "down").rename(project / "before")
    assert value_of(shell, project, "by-file") == "-----BEGIN-----\né\n-----END-----\n"


def test_at_a_terminal_it_is_asked_for_and_not_shown(shell: Shell, project: Path) -> None:
    terminal = Terminal(shell, "secret", "set", "by-prompt", cwd=project)
    terminal.wait_for("Value of by-prompt: ")
    terminal.press(f"{CANARY}\n")
    terminal.wait_for("Again: ")
    terminal.press(f"{CANARY}\n")
    assert terminal.end() == 0
    assert "by-prompt is set" in terminal.text and CANARY not in terminal.text
    assert value_of(shell, project, "by-prompt") == CANARY


def test_a_slip_of_the_finger_sets_nothing(shell: Shell, project: Path) -> None:
    terminal = Terminal(shell, "secret", "set", "slip", cwd=project)
    terminal.wait_for("Value of slip: ")
    terminal.press("one\n")
    terminal.wait_for("Again: ")
    terminal.press("two\n")
    assert terminal.end() == 2
    assert "two different values" in terminal.text and "slip" not in names(shell)


def test_ctrl_c_at_the_prompt(shell: Shell, project: Path) -> None:
    terminal = Terminal(shell, "secret", "set", "left", cwd=project)
    terminal.wait_for("Value of left: ")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text and "left" not in names(shell)


def test_a_value_is_never_an_argument(shell: Shell) -> None:
    done = shell("secret", "set", "argument", CANARY)
    assert done.code == 2 and "argument" not in names(shell)
    assert shell("secret", "set", "argument", "--value", CANARY).code == 2


@pytest.mark.parametrize(
    "value, code, word",
    [(b"", 2, "No value"), (b"\n", 2, "No value"), (b"\xff\xfe", 2, "not text"), (b"x" * 70_000, 8, "65,536")],
)
def test_what_cannot_be_a_value(shell: Shell, value: bytes, code: int, word: str) -> None:
    done = given(shell, value, "secret", "set", "bad")
    assert done.code == code and word in done.err and len(done.err.splitlines()) <= 2
    assert "bad" not in names(shell)


def test_files_that_cannot_be_read(shell: Shell, tmp_path: Path) -> None:
    assert shell("secret", "set", "bad", "--from-file", str(tmp_path / "nothing")).code == 3
    assert "cannot be read" in shell("secret", "set", "bad", "--from-file", str(tmp_path)).err
    assert shell("secret", "set", "bad", stdin=subprocess.DEVNULL).code == 2


@pytest.mark.parametrize("name", ["a/b", "target/gpu/password", "a b", "x" * 128, "é", "../x"])
def test_names_that_are_none(shell: Shell, name: str) -> None:
    for line in (["set", name, "--from-file", "/dev/null"], ["grant", name, "runs"], ["delete", name]):
        done = shell("secret", *line)
        assert done.code == 2 and "secret's name" in done.err, line


def test_short_values_come_with_a_word(shell: Shell) -> None:
    done = given(shell, b"abc", "secret", "set", "pin", "--granted-to", "nobody")
    assert done.code == 0 and "too short to be masked" in done.err
    assert given(shell, b"abc", "secret", "set", "pin", "--json").json["is_masked"] is False
    assert names(shell)["pin"] == "nobody"


def test_granted_deleted_and_rotated(shell: Shell) -> None:
    for name in ("one", "two"):
        assert given(shell, CANARY.encode(), "secret", "set", name).code == 0
    assert shell("secret", "grant", "one", "nobody").out == "one is for nobody now.\n"
    assert names(shell)["one"] == "nobody" and names(shell)["two"] == "runs"
    assert shell("secret", "grant", "one", "everybody").code == 2
    rotated = shell("secret", "rotate-key")
    assert rotated.code == 0 and "sealed with the new key" in rotated.out
    assert shell("secret", "delete", "one", "two").out == "one is deleted.\ntwo is deleted.\n"
    assert not {"one", "two"} & set(names(shell))
    gone = shell("secret", "delete", "one")
    assert gone.code == 3 and "no secret one" in gone.err


def test_a_run_that_names_what_it_cannot_have_is_not_submitted(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print(1)")
    given(shell, CANARY.encode(), "secret", "set", "closed", "--granted-to", "nobody")
    missing = shell("submit", "--secret", "nothing", "train.py", cwd=project)
    assert missing.code == 125 and "no secret nothing" in missing.err and "windlass secret set nothing" in missing.err
    closed = shell("submit", "--secret", "closed", "train.py", cwd=project)
    assert closed.code == 125 and "granted to nobody" in closed.err
    assert shell("submit", "--secret", "a/b", "train.py", cwd=project).code == 125


def test_a_plan_names_the_secrets(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print(1)")
    given(shell, CANARY.encode(), "secret", "set", "shown", "--granted-to", "named-runs")
    plan = shell("submit", "--dry-run", "--secret", "shown", "train.py", cwd=project)
    [line] = [line for line in plan.out.splitlines() if line.startswith("secrets ")]
    assert "shown" in line.split() and CANARY not in plan.out


def test_the_audit_tells_who_used_what(shell: Shell, project: Path) -> None:
    given(shell, CANARY.encode(), "secret", "set", "told", "--granted-to", "named-runs")
    run = shell.submit(project, "print(1)", "--secret", "told")["id"]
    entries = shell("audit", "--json", "-n", "1000").json["entries"]
    [used] = [e for e in entries if (e["act"], e["object"]) == ("secret.use", "told")]
    assert used["details"] == {"version": 1, "run": run, "attempt": 1}
    shown = shell("audit", "-n", "5")
    assert shown.code == 0 and max(map(len, shown.out.splitlines())) <= 80 and len(shown.out.splitlines()) == 6
    proved = shell("audit", "--verify")
    assert proved.code == 0 and "none changed" in proved.out and max(map(len, proved.out.splitlines())) <= 80
    assert shell("audit", "--verify", "--json").json["is_whole"] is True


def test_everything_fits_eighty_columns(shell: Shell, project: Path) -> None:
    given(shell, CANARY.encode(), "secret", "set", "x" * 70)
    for line in (["secret", "list"], ["audit"], ["secret", "--help"], ["secret", "set", "--help"], ["audit", "--help"]):
        terminal = Terminal(shell, *line, cwd=project)
        assert terminal.end() == 0 and max(map(len, terminal.text.splitlines())) <= 80, line
        assert line != ["secret", "list"] or "x" * 70 in terminal.text


CHAIN: dict[str, Any] = {"is_whole": False, "count": 4, "digest": "ab" * 32, "broken_at": 5}
ENTRY: dict[str, Any] = {
    "number": 5, "at": "2026-01-31T12:00:03.000000Z", "principal": "ann", "act": "secret.use", "object": "x\x1b[31m",
    "details": {"run": "demo_1"}, "digest": "ab",
}  # fmt: skip


def test_a_broken_chain_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession({f"GET {W}/audit/chain": CHAIN})
    assert windlass(session, "audit", "--verify") == 1
    assert "Row 5 is not what was written" in capsys.readouterr().out


def test_as_many_pages_as_needed(capsys: pytest.CaptureFixture[str]) -> None:
    pages = [{"entries": [ENTRY] * 1000, "next": 7}, {"entries": [ENTRY] * 200, "next": None}]
    session = FakeSession({f"GET {W}/audit": lambda body, query: pages.pop(0)})
    assert windlass(session, "audit", "-n", "1500", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 1200
    assert [query for _, _, query in session.asked] == [{"limit": 1000, "before": None}, {"limit": 500, "before": 7}]


def test_what_a_rotation_could_not_open_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"key_id": "k", "resealed": 2, "refused": ["default/b"], "refused_elsewhere": 0}
    session = FakeSession({f"POST {W}/keys/rotate": answer})
    assert windlass(session, "secret", "rotate-key") == 1
    assert "default/b does not open" in capsys.readouterr().out
    session = FakeSession({f"POST {W}/keys/rotate": {**answer, "refused": [], "refused_elsewhere": 2}})
    assert windlass(session, "secret", "rotate-key") == 1
    assert "2 secrets of other workspaces did not open" in capsys.readouterr().out


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession({f"GET {W}/audit": {"entries": [ENTRY], "next": None}})
    assert windlass(session, "audit") == 0
    assert "\x1b" not in capsys.readouterr().out
