"""`windlass compute attach`: what is asked of the server and of the person, and what is said. The server is canned."""

from __future__ import annotations

import io
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.boxes import BOX, KEY, PRINT, PUBLIC, SEEN, sent, server
from tests.cli.fake import FakeSession, W, windlass
from windlass.cli import asking, credentials
from windlass.core.errors import AlreadyExists, LoginRefused

ADDRESS = ("-a", "10.0.0.7", "-u", "jane")


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


def test_what_is_sent(password: str) -> None:
    session = server()
    assert attach(session, "--password-file", password, "--host-key", PRINT) == 0
    assert sent(session, f"POST {W}/identify") == {
        "kind": "ssh",
        "config": {"address": "10.0.0.7", "username": "jane", "login": "password"},
    }
    body = sent(session)
    assert body["credentials"] == {"password": "hunter2"}
    assert (body["name"], body["kind"], body["slots"], body["exist_ok"]) == ("box", "ssh", None, False)
    assert (body["config"]["host_key"], body["config"]["host_key_confirmed"]) == (KEY, True)


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("-p", "2222"), {"port": 2222}),
        (("--docker", "--base-image", "python:3.11"), {"docker": True, "base_image": "python:3.11"}),
        (("--jump", "gate", "--python", "/opt/py/bin/python3"), {"jump": "gate", "python": "/opt/py/bin/python3"}),
        (("--root", "/data/windlass"), {"root": "/data/windlass"}),
    ],
)
def test_settings_are_sent_along(password: str, words: tuple[str, ...], config: dict[str, Any]) -> None:
    session = server()
    assert attach(session, "--password-file", password, "--yes", *words) == 0
    assert config.items() <= sent(session)["config"].items()


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("box.lab:2222", "box.lab", 2222), ("[::1]:2222", "::1", 2222), ("[2001:db8::7]", "2001:db8::7", None)],
)
def test_an_address_may_have_its_port(password: str, address: str, host: str, port: int | None) -> None:
    session = server()
    line = ("compute", "attach", "ssh", "box", "-a", address, "-u", "jane", "--password-file", password, "-y")
    assert windlass(session, *line) == 0
    assert (sent(session)["config"]["address"], sent(session)["config"].get("port")) == (host, port)


def test_what_it_says(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attach(server(), "--password-file", password, "--yes") == 0
    said = capsys.readouterr()
    assert said.out == (
        "Attached box  jane@10.0.0.7\n"
        "  cores   8\n"
        "  memory  16.0 GB\n"
        "  gpus    A100, A100\n"
        "  python  3.11.2\n"
        "missing  Docker is not installed on this machine.\n"
        "         sudo apt-get install docker.io\n"
        "Run something there: windlass submit -c box train.py\n"
    )
    assert PRINT in said.err and "(ssh-ed25519)" in said.err
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_a_long_name_is_said_to_be_long(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    long = server(**{f"POST {W}/targets": {**BOX, "name": "a-name-of-17-char"}})
    line = ("compute", "attach", "ssh", "a-name-of-17-char", *ADDRESS, "--password-file", password, "--yes")
    assert windlass(long, *line) == 0
    assert "longer than the 16 characters" in capsys.readouterr().err


def test_in_json_it_says_one_document(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attach(server(), "--password-file", password, "--yes", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {**BOX, "files": []} and said.err == ""


# is that the machine?


def test_with_nobody_to_ask_it_refuses_with_the_line_to_type(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "--password-file", password) == 2
    said = capsys.readouterr().err
    assert f"add: --host-key {PRINT}" in said
    assert [asked for asked, _, _ in session.asked] == [f"POST {W}/identify"], "nothing more is sent"


@pytest.mark.parametrize("words", [("--yes",), ("--host-key", "accept")])
def test_a_machine_may_be_taken_unseen(password: str, words: tuple[str, ...]) -> None:
    session = server()
    assert attach(session, "--password-file", password, *words) == 0
    assert sent(session)["config"]["host_key_confirmed"] is False


@pytest.mark.parametrize("wanted", [PRINT, PRINT + "=", KEY, KEY + " root@box"])
def test_the_right_fingerprint_or_key_needs_no_question(password: str, wanted: str) -> None:
    session = server()
    assert attach(session, "--password-file", password, "--host-key", wanted) == 0
    assert sent(session)["config"]["host_key_confirmed"] is True


@pytest.mark.parametrize("wanted", ["SHA256:other", "ssh-ed25519 AAAAother", "yes"])
def test_another_machine_gets_nothing(password: str, wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "--password-file", password, "--host-key", wanted) == 6
    assert "not the one that was given" in capsys.readouterr().err
    assert len(session.asked) == 1


# what lets us in


def test_a_password_comes_from_a_file_or_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    session = server()
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin\nmore\n"))
    assert attach(session, "--password-stdin", "--yes") == 0
    assert sent(session)["credentials"] == {"password": "from stdin"}


def make_key(folder: Path, passphrase: str = "") -> str:
    path = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-a", "1", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)
    return str(path)


def test_a_private_key_goes_along_with_its_passphrase(tmp_path: Path) -> None:
    key = make_key(tmp_path, "open sesame")
    (tmp_path / "phrase").write_text("open sesame\n")
    session = server()
    assert attach(session, "--private-key-file", key, "--passphrase-file", str(tmp_path / "phrase"), "--yes") == 0
    assert sent(session)["config"]["login"] == "key"
    assert sent(session)["credentials"] == {"private_key": Path(key).read_text(), "passphrase": "open sesame"}


@pytest.mark.parametrize(("passphrase", "code"), [("", 0), ("locked", 2)])
def test_a_passphrase_is_needed_only_where_there_is_one(
    tmp_path: Path, passphrase: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    session = server()
    assert attach(session, "--private-key-file", make_key(tmp_path, passphrase), "--yes") == code
    assert ("--passphrase-file" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_in_the_older_format_tell_it_too(tmp_path: Path, kind: str) -> None:
    for passphrase in ("", "locked"):
        path = tmp_path / f"{kind}{passphrase}"
        subprocess.run(["ssh-keygen", "-q", "-m", "PEM", "-t", kind, "-N", passphrase, "-f", path], check=True)
        assert credentials.is_locked(path.read_text()) is bool(passphrase)


def test_without_anything_the_users_own_keys_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nobody" / ".ssh").mkdir(parents=True)
    (tmp_path / "nobody" / ".ssh" / "id_ed25519").touch()
    session = server()
    assert attach(session, "--yes") == 0
    assert (sent(session)["config"]["login"], sent(session)["credentials"]) == ("agent", {})
    (tmp_path / "nobody" / ".ssh" / "id_ed25519").unlink()
    monkeypatch.setenv("SSH_AUTH_SOCK", "/some/agent")
    session = server()
    assert attach(session, "--yes") == 0
    assert sent(session)["config"]["login"] == "agent"


def test_with_nothing_at_all_it_says_what_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "--yes") == 2
    assert "--password-file FILE" in capsys.readouterr().err and session.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--password-file", "none"), "no file none"),
        (("--private-key-file", "none"), "no file none"),
        (("--password-file", "/dev/null"), "The password is empty"),
        (("--password-stdin",), "The password is empty"),
        (("--private-key-file", "/dev/null"), "The private key is empty"),
        (("--private-key-file", "."), "cannot be read"),
        (("--password-stdin", "--ask-password"), "several ways"),
        (("--password-stdin", "--use-agent"), "several ways"),
        (("--private-key-file", "x", "--password-stdin"), "several ways"),
        (("-p", "0"), "0 is not in the range"),
        (("-p", "22;id"), "not a valid integer"),
        (("--password", "x"), "No such option"),
    ],
)
def test_mistakes_are_found_before_anybody_is_asked(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = server()
    assert attach(session, *words, "--yes") in (2, 3)
    assert said in capsys.readouterr().err and session.asked == []


@pytest.mark.parametrize(
    ("address", "user"),
    [("-oProxyCommand=x", "jane"), ("jane@box", "jane"), ("0x7f.1", "jane"), ("box", "-l"), ("box", "root;id")],
)
def test_addresses_and_accounts_that_are_none(address: str, user: str) -> None:
    session = server()
    assert windlass(session, "compute", "attach", "ssh", "box", f"--address={address}", f"--username={user}", "-k") == 2
    assert session.asked == []


def test_the_workspaces_key_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "-k", "--yes") == 0
    said = capsys.readouterr()
    assert PUBLIC["public_key"] in said.out and "belongs into ~/.ssh/authorized_keys of jane" in said.err
    assert (sent(session)["config"]["login"], sent(session)["credentials"]) == ("workspace-key", {})


def test_the_workspaces_key_is_installed_by_a_password(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = server()
    assert attach(session, "-k", "--password-file", password, "--yes") == 0
    assert "was put into ~/.ssh/authorized_keys of jane" in capsys.readouterr().err
    assert (sent(session)["config"]["login"], sent(session)["credentials"]) == (
        "workspace-key",
        {"password": "hunter2"},
    )


def test_a_key_that_was_not_installed_is_not_said_to_be(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    refusing = server(**{f"POST {W}/targets": LoginRefused("box does not let us in", "Check")})
    assert attach(refusing, "-k", "--password-file", password, "--yes") == 7
    assert "authorized_keys" not in capsys.readouterr().err


def test_whoever_does_not_wait_is_told_that_it_may_be_attached(
    password: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    session = server(**{f"POST {W}/targets": interrupted})
    assert attach(session, "--password-file", password, "--yes") == 130
    assert "box may be attached all the same: windlass compute list" in capsys.readouterr().err


def test_who_waits_for_a_machine_is_told_so(
    password: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any) -> Any:
        time.sleep(0.3)
        monkeypatch.setattr(asking, "_PATIENCE_SECONDS", 60)  # what follows is quick, however busy this machine is
        return SEEN

    monkeypatch.setattr(asking, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert attach(server(**{f"POST {W}/identify": slow}), "--password-file", password, "--yes") == 0
    said = capsys.readouterr().err
    assert "Asking 10.0.0.7 for its host key ..." in said and "Logging in" not in said, "what is quick needs no word"


@pytest.mark.parametrize(
    ("error", "code"),
    [(LoginRefused("box does not let us in", "Check"), 7), (AlreadyExists("There is a target box", "--update"), 6)],
)
def test_refusals_have_their_exit_codes(
    password: str, error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attach(server(**{f"POST {W}/targets": error}), "--password-file", password, "--yes") == code
    said = capsys.readouterr().err
    assert "error: " in said and "hunter2" not in said


def test_files_are_written_where_a_project_has_them(password: str, elsewhere: Path) -> None:
    (elsewhere / "aml_config").mkdir()
    assert attach(server(), "--password-file", password, "--yes") == 0
    assert sorted(path.name for path in (elsewhere / "aml_config").iterdir()) == ["box.compute", "box.runconfig"]
    assert "hunter2" not in (elsewhere / "aml_config" / "box.compute").read_text()


def test_files_are_written_where_they_are_asked_for(password: str, elsewhere: Path) -> None:
    assert attach(server(), "--password-file", password, "--yes", "--write-files") == 0
    assert (elsewhere / ".azureml" / "box.runconfig").is_file()
    (elsewhere / "aml_config").mkdir()
    assert attach(server(), "--password-file", password, "--yes", "--no-write-files") == 0
    assert not list((elsewhere / "aml_config").iterdir())


@pytest.mark.parametrize(
    ("kind", "hint"), [("docker", "The target docker is always there"), ("kubernetes", "windlass compute attach ssh")]
)
def test_kinds_that_people_ask_for_say_what_to_do_instead(
    kind: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert windlass(server(**{f"GET {W}/kinds": {"kinds": []}}), "compute", "attach", kind, "mine") == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "meant"), [("remote", "ssh"), ("RemoteDocker", "ssh --docker"), ("shs", "ssh")])
def test_a_machine_in_other_words(kind: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(server(**{f"GET {W}/kinds": {"kinds": []}}), "compute", "attach", kind, "mine") == 2
    assert f"Did you mean `windlass compute attach {meant}`?" in capsys.readouterr().err


def test_other_kinds_get_their_options_from_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    schema = {
        "description": "A teapot.",
        "required": ["url"],
        "properties": {
            "url": {"type": "string", "description": "Where it is."},
            "cups": {"type": "integer", "default": 2},
            "is_hot": {"type": "boolean"},
            "leaf": {"anyOf": [{"enum": ["green", "black"], "type": "string"}, {"type": "null"}]},
        },
    }
    kinds = [{"kind": "teapot", "schema": schema, "is_attachable": True}, {"kind": "local", "schema": {}}]
    session = server(**{f"GET {W}/kinds": {"kinds": kinds}})
    line = ("compute", "attach", "teapot", "box", "--url", "u", "--cups", "3", "--is-hot", "true", "--leaf", "green")
    assert windlass(session, *line) == 0
    assert sent(session)["config"] == {"url": "u", "cups": 3, "is_hot": True, "leaf": "green"}
    assert windlass(session, "compute", "attach", "teapot", "box") == 2
    assert windlass(session, "compute", "attach", "local", "box") == 2
    assert windlass(session, "compute", "attach", "spoon", "box") == 2
    assert "has no command spoon" in capsys.readouterr().err
