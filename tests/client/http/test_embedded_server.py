"""The private server is found, or started once by the first client, and replaced only by a newer version."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_server import answer, refusal, serving, unreachable_address
from windlass import __version__
from windlass.client.http import embedded_server
from windlass.client.http.session import Address
from windlass.core.errors import Denied, ServerUnavailable

FAKE = (sys.executable, str(Path(__file__).with_name("fake_windlass_server.py")))


BROKEN = [
    "",
    "{",
    "[]",
    '{"pid": "x"}',
    *(f'{{"pid": {pid}, "url": "http://h", "version": "1"}}' for pid in (10**12, -1, 0)),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home"
    for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINDLASS_HOME", str(folder))
    monkeypatch.setenv("FAKE_VERSION", __version__)
    yield folder
    for pid in starts(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def starts(home: Path) -> list[int]:
    path = home / "starts"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def said(home: Path) -> embedded_server.Server:
    found = embedded_server.read(str(home))
    assert found is not None
    return found


def is_alive(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    return Path(f"/proc/{pid}").exists()


def test_it_is_started_and_then_found(home: Path) -> None:
    first = embedded_server.find_or_start(str(home), FAKE)
    assert (first.token, first.home) == ("the-token", str(home))
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "server.log").stat().st_mode) == 0o600
    assert embedded_server.find_or_start(str(home), FAKE) == first
    assert starts(home) == [said(home).pid]


def test_the_server_outlives_who_started_it(home: Path) -> None:
    program = f"from windlass.client.http.embedded_server import find_or_start; find_or_start({str(home)!r}, {FAKE!r})"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    assert embedded_server.health(said(home)) is not None
    assert os.getsid(said(home).pid) == said(home).pid


def test_twenty_that_start_at_once_share_one(home: Path) -> None:
    found = f"find_or_start({str(home)!r}, {FAKE!r})"
    program = f"from windlass.client.http.embedded_server import find_or_start; print({found}.url)"
    racers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(20)]
    urls = {racer.communicate()[0].strip() for racer in racers}
    assert urls == {said(home).url}
    assert len(starts(home)) == 1


def test_a_server_that_was_killed_is_started_again(home: Path) -> None:
    first = embedded_server.find_or_start(str(home), FAKE)
    os.kill(said(home).pid, signal.SIGKILL)
    while is_alive(starts(home)[0]):
        time.sleep(0.01)
    second = embedded_server.find_or_start(str(home), FAKE)
    assert second.url != first.url
    assert starts(home)[1:] == [said(home).pid]


def test_a_process_that_got_the_id_of_a_dead_server(home: Path) -> None:
    home.mkdir(mode=0o700)
    other = subprocess.Popen(["sleep", "60"])
    try:
        with unreachable_address() as gone:
            (home / "server.json").write_text(json.dumps({"pid": other.pid, "url": gone, "version": "0.1.0"}))
            embedded_server.find_or_start(str(home), FAKE)
        assert starts(home) == [said(home).pid]
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_server_json_is_replaced(home: Path, text: str) -> None:
    home.mkdir(mode=0o700)
    (home / "server.json").write_text(text)
    embedded_server.find_or_start(str(home), FAKE)
    assert said(home).pid == starts(home)[0]


def test_an_older_server_makes_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VERSION", "0.0.9")
    # A server of that version would be taken as old by ourselves, so it is started without us.
    home.mkdir(mode=0o700)
    old = subprocess.Popen([*FAKE, "--home", str(home)])
    while embedded_server.read(str(home)) is None:
        time.sleep(0.01)
    monkeypatch.setenv("FAKE_VERSION", __version__)
    embedded_server.find_or_start(str(home), FAKE)
    assert old.wait() == 0
    assert starts(home) == [old.pid, said(home).pid]
    assert said(home).version == __version__


def test_a_newer_server_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VERSION", "99.0.0")
    embedded_server.find_or_start(str(home), FAKE)
    monkeypatch.setenv("FAKE_VERSION", __version__)
    embedded_server.find_or_start(str(home), FAKE)
    assert starts(home) == [said(home).pid]
    assert said(home).version == "99.0.0"


@pytest.mark.parametrize(
    ("version", "is_older"),
    [("0.0.9", True), (__version__, False), ("99.1", False), ("", True), (__version__ + "+local", False)],
)
def test_versions(version: str, is_older: bool) -> None:
    assert embedded_server.is_older(version) is is_older


def test_a_server_that_cannot_start_is_quoted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILS", "error: the database is newer than this version")
    with pytest.raises(ServerUnavailable) as caught:
        embedded_server.find_or_start(str(home), FAKE)
    assert "error: the database is newer than this version" in caught.value.message
    assert str(home / "server.log") in caught.value.hint
    # What an earlier server said is not quoted.
    monkeypatch.setenv("FAKE_FAILS", "second")
    with pytest.raises(ServerUnavailable) as again:
        embedded_server.find_or_start(str(home), FAKE)
    assert "newer than" not in again.value.message


def test_a_server_that_renamed_its_log_before_it_failed_is_quoted(home: Path) -> None:
    home.mkdir()
    (home / "server.log").write_text("an earlier line\n" * 1000)
    rename = "import os; os.rename('server.log', 'server.log.1')"
    program = rename + "; open('server.log', 'w').write('error: no port\\n'); exit(1)"
    with pytest.raises(ServerUnavailable, match="error: no port"):
        embedded_server.find_or_start(str(home), (sys.executable, "-c", program))


def test_a_home_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerUnavailable) as caught:
        embedded_server.find_or_start(str(tmp_path / "file" / "home"), FAKE)
    assert caught.value.hint == "WINDLASS_HOME names another folder."


def test_a_missing_token_is_said(home: Path) -> None:
    embedded_server.find_or_start(str(home), FAKE)
    (home / "token").unlink()
    with pytest.raises(ServerUnavailable, match="token cannot be read"):
        embedded_server.find_or_start(str(home), FAKE)


def test_a_shared_server_is_used_as_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer({"a": 1})) as server:
        monkeypatch.setenv("WINDLASS_URL", server.url + "/")
        monkeypatch.setenv("WINDLASS_TOKEN", "shared")
        assert embedded_server.session().call("GET", "/x") == {"a": 1}
        assert embedded_server.session().address == Address(server.url, "shared")
    assert server.requests[0].headers["authorization"] == "Bearer shared"
    assert not home.exists()


def test_a_script_in_a_run_finds_the_server_of_now(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_RUN_TOKEN", "of-the-run")
    monkeypatch.setenv("WINDLASS_URL", "http://127.0.0.1:1")
    assert embedded_server.address_for_script() == Address("http://127.0.0.1:1", "of-the-run")
    home.mkdir()
    (home / "server.json").write_text('{"pid": 1, "url": "http://127.0.0.1:2", "version": "1"}')
    assert embedded_server.address_for_script() == Address("http://127.0.0.1:2", "of-the-run")


def test_a_token_that_is_set_after_a_refusal_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(refusal("denied", 401), answer({}), refusal("denied", 401), answer({})) as server:
        monkeypatch.setenv("WINDLASS_URL", server.url)
        monkeypatch.delenv("WINDLASS_TOKEN", raising=False)
        monkeypatch.delenv("WINDLASS_RUN_TOKEN", raising=False)
        with pytest.raises(Denied):
            embedded_server.session().call("GET", "/x")
        monkeypatch.setenv("WINDLASS_TOKEN", "first")
        kept = embedded_server.session()
        kept.call("GET", "/x")
        monkeypatch.setenv("WINDLASS_TOKEN", "second")  # the first one was replaced; an existing session stays
        kept.call("GET", "/x")
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer",
        "Bearer first",
        "Bearer first",
        "Bearer second",
    ]


def test_a_token_for_another_server_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer({}), refusal("denied", 401)) as server:
        monkeypatch.setenv("WINDLASS_URL", server.url)
        monkeypatch.setenv("WINDLASS_TOKEN", "first")
        monkeypatch.delenv("WINDLASS_RUN_TOKEN", raising=False)
        session = embedded_server.session()
        session.call("GET", "/x")
        monkeypatch.setenv("WINDLASS_URL", "http://other.example")
        monkeypatch.setenv("WINDLASS_TOKEN", "of the other")
        with pytest.raises(Denied):
            session.call("GET", "/x")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer first"] * 2
