"""`windlass token`, against a real server: what an owner types, and what members can do with what they get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fake import FakeSession, windlass
from tests.cli.shell import Result, Shell, using

VALUE = re.compile(r"wl_[\w-]{43}\n\Z")
T = "/workspaces/default/tokens"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with using(tmp_path_factory.mktemp("token") / "home") as found:
        yield found


def as_member(shell: Shell, token: str, *arguments: str, cwd: Path | None = None) -> Result:
    """Called on a computer that has the server's address and that token, and nothing else of it."""
    env = {"WINDLASS_URL": shell.status()["url"], "WINDLASS_TOKEN": token, "WINDLASS_HOME": str(shell.home) + "-else"}
    return shell(*arguments, env=env, cwd=cwd)


def test_a_member_works_with_a_token_until_it_is_revoked(shell: Shell, project: Path) -> None:
    made = shell("token", "create", "ann@example.org", "--role", "contributor", "--days", "30")
    assert made.code == 0 and VALUE.match(made.out)
    assert re.match(r"ann@example\.org is a contributor until \d{4}-\d\d-\d\d\. ", made.err)
    assert "WINDLASS_TOKEN" in made.err and all(len(line) <= 80 for line in made.err.splitlines())
    token = made.out.strip()
    (project / "train.py").write_text("print('hello')")
    run = as_member(shell, token, "submit", "--json", "train.py", cwd=project)
    assert run.code == 0 and (run.json["state"], run.json["submitted_by"]) == ("Completed", "ann@example.org")
    assert as_member(shell, token, "token", "list").code == 4
    assert shell("token", "revoke", "ann@example.org") == (0, "The token of ann@example.org is revoked.\n", "")
    refused = as_member(shell, token, "runs")
    assert refused.code == 4 and "revoked" in refused.err and len(refused.err.splitlines()) <= 2
    audit = shell("audit").out
    assert "token.create" in audit and "role contributor" in audit and "token.revoke" in audit


def test_a_member_asks_for_the_server_that_is_named(shell: Shell, tmp_path: Path) -> None:
    """And nothing happens to the private server of the member's own home."""
    token = shell("token", "create", "kim", "--role", "reader").out.strip()
    url = shell.status()["url"]
    with using(tmp_path / "private") as private:
        assert private("server", "start").code == 0
        pid = private.status()["pid"]
        env: dict[str, str | None] = {"WINDLASS_URL": url, "WINDLASS_TOKEN": token}
        told = private("server", "status", "--json", env=env)
        assert (told.code, told.json["running"], told.json["url"]) == (0, True, url)
        assert url in private("server", "status", env=env).out
        assert private("server", "token", env=env).out == f"{token}\n"
        none = private("server", "token", env={"WINDLASS_URL": url})
        assert none.code == 4 and "WINDLASS_TOKEN" in none.err
        for verb in ("stop", "start", "restart"):
            refused = private("server", verb, env=env)
            assert (refused.code, refused.out) == (2, "") and url in refused.err
        assert private.status()["pid"] == pid
        assert private("--home", str(private.home), "server", "stop", env=env).code == 0
        assert private.status()["running"] is False
        gone = private("server", "status", env={"WINDLASS_URL": "http://127.0.0.1:1"})
        assert gone.code == 5 and "http://127.0.0.1:1 does not answer" in gone.out
    assert shell.status()["url"] == url
    assert shell("token", "revoke", "kim").code == 0


def test_the_doctor_of_a_member(shell: Shell, tmp_path: Path) -> None:
    def server_check(token: str | None) -> dict[str, str]:
        env: dict[str, str | None] = {"WINDLASS_URL": shell.status()["url"], "WINDLASS_TOKEN": token}
        checks = Shell(tmp_path / "member")("doctor", "--json", env=env, cwd=tmp_path).json["checks"]
        [found] = [check for check in checks if check["check"] == "server"]
        return dict(found)

    token = shell("token", "create", "lee", "--role", "reader").out.strip()
    assert (server_check(token)["state"], server_check(token)["fix"]) == ("good", "")
    for wrong, message in (("wl_wrong", "does not accept the token"), (None, "needs a token")):
        found = server_check(wrong)
        assert found["state"] == "bad" and message in found["message"] and "WINDLASS_TOKEN" in found["fix"]
    assert shell("token", "revoke", "lee").code == 0


def test_who_has_a_token_is_listed_without_it(shell: Shell) -> None:
    token = shell("token", "create", "bob", "--role", "reader").out.strip()
    assert as_member(shell, token, "runs").code == 0
    shell("token", "create", "eve", "--role", "owner", "--days", "1")
    done = shell("token", "list")
    heading, *rows = [re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()]
    assert heading == ["MEMBER", "ROLE", "CREATED", "LAST USED", "EXPIRES"]
    assert [(row[0], row[1], row[3] == "never", row[4] == "never") for row in rows] == [
        ("bob", "reader", False, True),
        ("eve", "owner", True, False),
    ]
    assert all(len(line) <= 80 for line in done.out.splitlines()) and token not in done.out
    listed = shell("token", "list", "--json")
    assert [each["name"] for each in listed.json["tokens"]] == ["bob", "eve"] and token not in listed.out
    assert shell("token", "revoke", "bob", "eve", "--json").json == {"revoked": ["bob", "eve"]}
    assert shell("token", "list").out.startswith("Nobody else has a token: windlass token create")


def test_with_json_the_value_is_in_the_document(shell: Shell) -> None:
    made = shell("token", "create", "json", "--role", "owner", "--json")
    assert made.err == "" and VALUE.match(made.json["token"] + "\n")
    assert (made.json["name"], made.json["role"], made.json["expires_at"]) == ("json", "owner", None)
    assert shell("token", "revoke", "json").code == 0


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        (["create", "ann"], 2, "--role"),
        (["create", "ann", "--role", "king"], 2, "king"),
        (["create", "ann", "--role", "admin"], 2, "admin"),
        (["create", "ann", "--role", "reader", "--days", "0"], 2, "--days"),
        (["create", "a b", "--role", "reader"], 2, "member's name"),
        (["create", "../x", "--role", "reader"], 2, "member's name"),
        (["create", "owner", "--role", "reader"], 6, "server's own token"),
        (["revoke", "nobody"], 3, "no token of nobody"),
        (["revoke", "owner"], 6, "it stays"),
        (["revoke", "a/b"], 2, "member's name"),
        (["revoke"], 2, "NAME"),
    ],
)
def test_mistakes_are_told(shell: Shell, line: list[str], code: int, word: str) -> None:
    done = shell("token", *line)
    assert (done.code, done.out) == (code, "") and word in done.err, done


def test_a_name_that_is_taken_comes_with_the_line_that_frees_it(shell: Shell) -> None:
    assert shell("token", "create", "twice", "--role", "reader").code == 0
    again = shell("token", "create", "twice", "--role", "owner")
    assert (again.code, again.out) == (6, "") and "windlass token revoke twice" in again.err


def test_an_expired_token_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    past = "2026-01-31T12:00:00.000000Z"
    token = {"name": "ann", "role": "reader", "created_at": past, "last_used_at": None, "expires_at": past}
    assert windlass(FakeSession({f"GET {T}": {"tokens": [token]}}), "token", "list") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("never  expired")


def test_a_token_is_asked_for_with_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    """So that an answer that is lost on the way costs nothing."""

    class Keyed(FakeSession):
        keys: list[str] = []

        def call(self, method: str, path: str, body: object = None, query: object = None, key: str = "") -> object:
            self.keys.append(key)
            return super().call(method, path, body, query, key)

    made = {"token": "wl_x", "expires_at": None}
    session = Keyed({f"POST {T}": made})
    assert windlass(session, "token", "create", "ann", "--role", "owner") == 0
    out, err = capsys.readouterr()
    assert out == "wl_x\n" and err.startswith("ann is an owner. ")
    assert len(session.keys[0]) == 32
