"""`windlass compute attach`: what is asked of the server and of the person, and what is said. The server is canned."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.boxes import BOX, IDENTITY, KEY, PRINT, PROBED, free, sent, server
from tests.cli.fake import FakeSession, W, windlass
from windlass.cli.compute import credentials, waiting
from windlass.core.errors import AlreadyExists, CredentialsNeeded, LoginRefused

ADDRESS = ("-a", "10.0.0.7", "-u", "jane")


PROBE = f"POST {W}/probe"
KINDS = f"GET {W}/kinds"
AT_TERMINAL = [KINDS, f"GET {W}/targets/box"]  # the name is free


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder and a home without keys, agents and projects."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return tmp_path


@pytest.fixture
def password(tmp_path: Path) -> str:
    (tmp_path / "pw").write_text("hunter2\n")
    return str(tmp_path / "pw")


def attach(session: FakeSession, *words: str) -> int:
    return windlass(session, "compute", "attach", "ssh", "box", *ADDRESS, *words)


# attach


def asked(session: FakeSession) -> list[str]:
    return [what for what, _, _ in session.asked]


def test_what_is_sent(password: str) -> None:
    session = free()
    assert attach(session, "--password-file", password, "--pin", PRINT) == 0
    config = {"address": "10.0.0.7", "username": "jane"}
    assert sent(session, PROBE) == {"kind": "ssh", "config": config}
    assert sent(session) == {
        "name": "box",
        "kind": "ssh",
        "config": config,
        "credentials": {"password": "hunter2"},
        "pin": KEY,
        "pin_confirmed": True,
        "slots": None,
        "exist_ok": False,
    }
    assert asked(session) == [KINDS, PROBE, f"POST {W}/targets"]


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("-p", "2222"), {"port": 2222}),
        (("--docker", "--base-image", "python:3.11"), {"docker": True, "base_image": "python:3.11"}),
        (("--jump", "gate", "--python", "/opt/py/bin/python3"), {"jump": "gate", "python": "/opt/py/bin/python3"}),
        (("--root", "/data/windlass"), {"root": "/data/windlass"}),
        (("--use-agent",), {"login": "agent"}),
        (("-k",), {"login": "workspace-key"}),
    ],
)
def test_settings_are_sent_along(words: tuple[str, ...], config: dict[str, Any]) -> None:
    session = free()
    assert attach(session, "--yes", *words) == 0
    assert sent(session)["config"] == {"address": "10.0.0.7", "username": "jane", **config}


def test_slots_and_update_are_sent_along() -> None:
    session = server()
    assert attach(session, "--yes", "--slots", "3", "--update") == 0
    assert (sent(session)["slots"], sent(session)["exist_ok"]) == (3, True)


def test_a_taken_name_is_refused_before_a_person_is_asked(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "--ask-password") == 6
    assert asked(session) == AT_TERMINAL and typed == [] and "add --update" in capsys.readouterr().err


def test_a_script_may_repeat_its_line(password: str) -> None:
    session = server()
    assert attach(session, "--password-file", password, "--yes") == 0
    assert sent(session)["exist_ok"] is False, "the server finds out whether it is the same"


def test_what_it_says(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attach(free(), "--password-file", password, "--yes") == 0
    said = capsys.readouterr()
    assert said.out == (
        "Attached box  jane@10.0.0.7\n"
        "  cores   8\n"
        "  memory  16.0 GB\n"
        "  gpus    A100, A100\n"
        "  python  3.11.2\n"
        "missing  Git is not installed there.\n"
        "         sudo apt-get install git\n"
        "Run something there: windlass submit -c box train.py\n"
    )
    assert said.err == f"10.0.0.7:22 has the host key\n  {PRINT} (ssh-ed25519)\n"
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_a_long_name_is_said_to_be_long(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    long = server(**{f"POST {W}/targets": {**BOX, "name": "a-name-of-17-char"}})
    line = ("compute", "attach", "ssh", "a-name-of-17-char", *ADDRESS, "--password-file", password, "--yes")
    assert windlass(long, *line) == 0
    assert "longer than the 16 characters" in capsys.readouterr().err


def test_in_json_it_says_one_document(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attach(free(), "--password-file", password, "--yes", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {**BOX, "files": []} and said.err == ""


# is that the machine?


def test_with_nobody_to_ask_it_refuses_with_the_line_to_type(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = free()
    assert attach(session, "--password-file", password) == 2
    said = capsys.readouterr().err
    assert f"add: --pin {PRINT}" in said
    assert asked(session) == [KINDS, PROBE], "nothing more is sent"


@pytest.mark.parametrize("words", [("--yes",), ("--pin", "accept"), ("--host-key", "accept")])
def test_a_machine_may_be_taken_unseen(password: str, words: tuple[str, ...]) -> None:
    session = free()
    assert attach(session, "--password-file", password, *words) == 0
    assert sent(session)["pin_confirmed"] is False


@pytest.mark.parametrize("wanted", [PRINT, PRINT + "=", KEY, KEY + " root@box"])
def test_the_right_fingerprint_or_key_needs_no_question(password: str, wanted: str) -> None:
    session = free()
    assert attach(session, "--password-file", password, "--host-key", wanted) == 0
    assert sent(session)["pin_confirmed"] is True


@pytest.mark.parametrize("wanted", ["SHA256:other", "ssh-ed25519 AAAAother", "yes"])
def test_another_machine_gets_nothing(password: str, wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = free()
    assert attach(session, "--password-file", password, "--pin", wanted) == 6
    assert "not the one that was given" in capsys.readouterr().err
    assert asked(session) == [KINDS, PROBE]


# what lets us in


def test_a_password_comes_from_a_file_or_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    session = free()
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\nmore\n"))
    assert attach(session, "--password-stdin", "--yes") == 0
    assert sent(session)["credentials"] == {"password": "from stdin"}


def test_a_private_key_goes_along_with_its_passphrase(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN\nKEY-----\n")
    (tmp_path / "phrase").write_text("open sesame\n")
    session = free()
    assert attach(session, "--private-key-file", "key", "--passphrase-file", "phrase", "--yes") == 0
    assert sent(session)["credentials"] == {"private_key": "-----BEGIN\nKEY-----\n", "passphrase": "open sesame"}


NEEDED = CredentialsNeeded("jane@10.0.0.7 needs a password.", "Or log in with -k.", details={"fields": ["password"]})


def test_with_nothing_at_all_it_says_what_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    assert attach(free(**{f"POST {W}/targets": NEEDED}), "--yes") == 2
    said = capsys.readouterr().err
    assert "Add --password-file FILE or --password-stdin. Or log in with -k." in said


def needing(*fields: str) -> Any:
    """Answers of a server that needs these fields, one after the other."""

    def answer(body: Any, query: Any) -> Any:
        missing = [field for field in fields if field not in body["credentials"]]
        if missing:
            raise CredentialsNeeded(f"It needs the {missing[0]}.", details={"fields": missing[:1]})
        return BOX

    return answer


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes a person sit at a terminal, who types `secret`; returns the prompts."""
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return "secret"

    monkeypatch.setattr(credentials, "can_ask", lambda: True)
    monkeypatch.setattr(credentials, "ask_secret", ask)
    return prompts


def test_what_the_server_needs_is_asked_for_at_a_terminal(typed: list[str]) -> None:
    session = free(**{f"POST {W}/targets": needing("password", "passphrase")})
    assert attach(session, "--yes") == 0
    assert typed == ["Password of jane@10.0.0.7: ", "Passphrase of the private key: "]
    assert session.asked[-1][1]["credentials"] == {"password": "secret", "passphrase": "secret"}


def test_a_person_is_asked_for_a_secret_after_the_machine_is_confirmed(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(credentials, "confirm", lambda question: bool(typed))
    session = free()
    assert attach(session, "--ask-password") == 6
    assert typed == [] and asked(session) == [*AT_TERMINAL, PROBE], "nothing is asked for or sent"
    said = capsys.readouterr().err
    assert f"Compare it there: {IDENTITY['how_to_compare']}" in said
    monkeypatch.setattr(credentials, "confirm", lambda question: question == "Is that the machine?")
    session = free()
    assert attach(session, "--ask-password") == 0
    assert typed == ["Password of jane@10.0.0.7: "]
    assert (sent(session)["credentials"], sent(session)["pin_confirmed"]) == ({"password": "secret"}, True)


def test_a_secret_that_was_refused_is_not_asked_for_again(typed: list[str]) -> None:
    session = free(**{f"POST {W}/targets": CredentialsNeeded("Another one.", details={"fields": ["password"]})})
    assert attach(session, "--yes") == 2
    assert len(typed) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--password-file", "none"), "no file none"),
        (("--private-key-file", "none"), "no file none"),
        (("--password-file", "/dev/null"), "The password is empty"),
        (("--password-stdin",), "The password is empty"),
        (("--private-key-file", "/dev/null"), "The private key is empty"),
        (("--private-key-file", "."), "cannot be read"),
        (("--password-stdin", "--ask-password"), "several places"),
        (("--password-stdin", "--passphrase-stdin"), "Standard input can have only one of password and passphrase."),
        (("--use-agent", "-k"), "Login is set twice"),
        (("-p", "0"), "0 is not in the range"),
        (("-p", "22;id"), "not a valid integer"),
        (("--password", "x"), "No such option"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = free()
    assert attach(session, *words, "--yes") in (2, 3)
    assert said in capsys.readouterr().err and asked(session) == [KINDS]


def test_without_a_terminal_no_secret_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    session = free()
    assert attach(session, "--ask-password", "--yes") == 2
    assert "Add --password-file FILE or --password-stdin" in capsys.readouterr().err and asked(session) == [KINDS]


def test_notes_of_the_server_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    note = "The workspace's public key belongs into ~/.ssh/authorized_keys of jane:\nssh-ed25519 AAAA\x1b"
    assert attach(free(**{f"POST {W}/targets": {**BOX, "notes": [note]}}), "-k", "--yes") == 0
    said = capsys.readouterr().out
    assert "authorized_keys of jane:\nssh-ed25519 AAAA" in said and "\x1b" not in said


def test_whoever_does_not_wait_is_told_that_it_may_be_attached(
    password: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    session = free(**{f"POST {W}/targets": interrupted})
    assert attach(session, "--password-file", password, "--yes") == 130
    assert "box may be attached all the same: windlass compute list" in capsys.readouterr().err


def test_who_waits_for_a_machine_is_told_so(
    password: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any) -> Any:
        time.sleep(0.3)
        monkeypatch.setattr(waiting, "_DELAY_SECONDS", 60)  # what follows is quick, however busy this machine is
        return PROBED

    monkeypatch.setattr(waiting, "_DELAY_SECONDS", 0.05)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert attach(free(**{PROBE: slow}), "--password-file", password, "--yes") == 0
    said = capsys.readouterr().err
    assert "Connecting to box ..." in said and "Waiting" not in said, "what is quick is not announced"


@pytest.mark.parametrize(
    ("error", "code"),
    [(LoginRefused("box does not let us in", "Check"), 7), (AlreadyExists("There is a target box", "--update"), 6)],
)
def test_refusals_have_their_exit_codes(
    password: str, error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attach(free(**{f"POST {W}/targets": error}), "--password-file", password, "--yes") == code
    said = capsys.readouterr().err
    assert "error: " in said and "hunter2" not in said


def test_files_are_written_where_a_project_has_them(password: str, elsewhere: Path) -> None:
    (elsewhere / "aml_config").mkdir()
    assert attach(free(), "--password-file", password, "--yes") == 0
    assert sorted(path.name for path in (elsewhere / "aml_config").iterdir()) == ["box.compute", "box.runconfig"]
    assert "hunter2" not in (elsewhere / "aml_config" / "box.compute").read_text()


def test_files_are_written_where_they_are_asked_for(password: str, elsewhere: Path) -> None:
    assert attach(free(), "--password-file", password, "--yes", "--write-files") == 0
    assert (elsewhere / ".azureml" / "box.runconfig").is_file()
    (elsewhere / "aml_config").mkdir()
    assert attach(free(), "--password-file", password, "--yes", "--no-write-files") == 0
    assert not list((elsewhere / "aml_config").iterdir())
