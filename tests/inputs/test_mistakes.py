"""What users do wrong every day, each answered in one or two lines: what happened, to what, what to do next."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.inputs.command import complains, humble
from tests.inputs.liar import lying


@pytest.fixture
def script(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text("print('never')")
    return path


def test_a_script_that_is_missing(shell: Shell, script: Path, folder: Path) -> None:
    complains(shell("submit", "trian.py", cwd=folder), 125, "no script trian.py", "Did you mean train.py?")
    complains(shell("submit", "sub/train.py", cwd=folder), 125, "no script sub/train.py")
    complains(shell("submit", "", cwd=folder), 125)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("data.csv", b"a,b\n", "not a script of Python or of a shell"),
        ("tool", b"\x7fELF\0\0\0", "tool is not a script: it holds binary data"),
        ("train.py", b"\x7fELF\0\0\0", "binary data"),
        ("train.ipynb", b"{}", "not a script of Python or of a shell"),
    ],
)
def test_a_script_that_is_not_python(shell: Shell, folder: Path, name: str, content: bytes, word: str) -> None:
    (folder / name).write_bytes(content)
    complains(shell("submit", name, cwd=folder), 125, name, word)


def test_a_script_without_permission(shell: Shell, script: Path, folder: Path) -> None:
    script.chmod(0)
    complains(shell("submit", "train.py", cwd=folder, preexec=humble), 125, "train.py", "permission", "chmod")


def test_a_neighbour_without_permission(shell: Shell, script: Path, folder: Path) -> None:
    (folder / "secret.bin").touch(0o000)
    done = shell("submit", "train.py", cwd=folder, preexec=humble)
    complains(done, 125, "secret.bin", "Permission denied", ".amlignore")


def test_a_folder_without_permission(shell: Shell, script: Path, folder: Path) -> None:
    (folder / "closed").mkdir(0o000)
    done = shell("submit", "train.py", cwd=folder, preexec=humble)
    complains(done, 125, "closed", "Permission denied", ".amlignore")


def test_an_ignore_file_without_permission(shell: Shell, script: Path, folder: Path) -> None:
    (folder / ".amlignore").touch(0o000)
    complains(shell("submit", "train.py", cwd=folder, preexec=humble), 125, ".amlignore", "Permission denied")


def test_a_home_without_permission(fresh: Shell, script: Path, folder: Path) -> None:
    fresh.home.mkdir(0o500)
    for line, code in ((["runs"], 5), (["submit", "train.py"], 125), (["server", "start"], 5)):
        complains(fresh(*line, cwd=folder, preexec=humble), code, str(fresh.home), "Permission denied")


def test_an_unknown_target(shell: Shell, script: Path, folder: Path) -> None:
    complains(shell("submit", "-c", "gpu-farm", "train.py", cwd=folder), 125, "gpu-farm", "local")
    complains(shell("compute", "show", "gpu-farm"), 3, "gpu-farm")


def test_a_server_that_cannot_be_reached(shell: Shell, script: Path, folder: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"  # nobody listens
        complains(shell("--url", url, "runs"), 5, url, "does not answer")
        complains(shell("--url", url, "submit", "train.py", cwd=folder), 125, url, "does not answer")
    for url in ("http://host.invalid:1", "ftp://x", "nonsense", "http://", "http://[::1", "http://127.0.0.1:99999"):
        done = shell("--url", url, "runs")
        assert done.code in (2, 5), done
        complains(done, done.code, "http" if "http" in url else url)


def test_a_port_that_is_taken(fresh: Shell) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = str(sock.getsockname()[1])
        complains(fresh("server", "run", "--port", port), 125, f"Port {port}", "--port")
    complains(fresh("server", "run", "--port", "0"), 2, "--port")
    complains(fresh("server", "run", "--host", "192.0.2.1"), 125, "192.0.2.1")
    complains(fresh("server", "run", "--host", "0.0.0.0"), 125, "tls_certificate")


def test_the_port_of_last_time_is_no_promise(fresh: Shell) -> None:
    """Somebody else has it now: the server takes another, and says so to those who ask."""
    fresh.home.mkdir(mode=0o700)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        (fresh.home / "port").write_text(str(sock.getsockname()[1]))
        assert fresh("runs").code == 0
    for nonsense in ("x", "99999999"):
        assert fresh("server", "stop").code == 0
        (fresh.home / "port").write_text(nonsense)
        assert fresh("runs").code == 0


BROKEN = [b"{broken", b"[]", b"\xff\xfe", b'{"colour": "red"}', b'{"port": 99999}', b'{"database": "mysql://x"}']


@pytest.mark.parametrize("content", BROKEN)
def test_settings_that_are_corrupted(fresh: Shell, content: bytes) -> None:
    fresh.home.mkdir(mode=0o700)
    (fresh.home / "settings.json").write_bytes(content)
    complains(fresh("runs"), 5)
    complains(fresh("server", "run"), 125)


@pytest.mark.parametrize(
    "content", [b"{broken", b"", b"[]", b"\xff", b"null", b'{"workspace_name": 5}', b'{"workspace_name": "../x"}']
)
def test_a_projects_configuration_that_is_corrupted(shell: Shell, script: Path, folder: Path, content: bytes) -> None:
    (folder / ".azureml").mkdir()
    (folder / ".azureml" / "config.json").write_bytes(content)
    for line, code in ((["runs"], 2), (["submit", "train.py"], 125)):
        complains(shell(*line, cwd=folder), code, "workspace" if b"workspace" in content else "config.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{broken",
        b"null",
        b"[]",
        b'{"pid": 1, "url": "http://127.0.0.1:1", "version": "1"}',
        b'{"pid": "x"}',
        b'{"pid": -1, "url": "x", "version": []}',
        b"\xff",
    ],
)
def test_a_servers_note_that_is_corrupted(fresh: Shell, content: bytes) -> None:
    """It is only a note: whoever finds no server behind it starts one."""
    fresh.home.mkdir(mode=0o700)
    (fresh.home / "server.json").write_bytes(content)
    assert fresh("runs").code == 0


def test_a_token_that_is_corrupted(fresh: Shell) -> None:
    assert fresh("runs").code == 0
    token = fresh.home / "token"
    right = token.read_text()
    try:
        for wrong, code in (("", 4), ("wrong", 4), ("é", 5), ("a\nb", 2), ("x" * 1000, 4)):
            token.write_text(wrong)
            complains(fresh("runs"), code, "token")
        token.unlink()
        complains(fresh("runs"), 5, "token")
    finally:
        token.write_text(right)
    assert fresh("runs").code == 0


def test_a_key_that_is_corrupted(fresh: Shell) -> None:
    (fresh.home / "files").mkdir(mode=0o700, parents=True)
    (fresh.home / "files" / "run-token.key").write_text("not hexadecimal")
    done = fresh("server", "run")
    complains(done, 125, "run-token.key", "damaged")
    assert fresh("runs").code == 5


RUN = {
    "id": "inputs_1_a", "workspace": "default", "experiment": "inputs", "number": 1, "type": "azureml.scriptrun",
    "state": "Completed", "status": "Completed", "created_at": "2026-01-01T00:00:00.000000Z", "name": "", "tags": {},
}  # fmt: skip
OTHER_TIMES: dict[str, Any] = {
    "newer": {**RUN, "state": "Hibernating", "status": "Hibernating", "reason": "cosmic", "orbit": {"a": [1]}},
    "older": RUN,
    "much older": {"id": "inputs_1_a"},
    "other kinds": {**RUN, "state": None, "tags": None, "created_at": 5, "number": "one"},
    "nothing": None,
    "a list": [],
}


@pytest.mark.parametrize("view", OTHER_TIMES.values(), ids=OTHER_TIMES)
def test_i9_a_server_of_another_time(shell: Shell, view: Any) -> None:
    """What it says is shown as far as it is understood, or it is said in two lines that it is not."""
    answers = {
        "/health": {"status": "ok", "version": "99.0.0", "api": 7, "more": True},
        "/runs": {"runs": [view], "next": None},
        "/runs/inputs_1_a": view,
        "/metrics": {"metrics": {}},
        "/files": {"files": []},
    }
    with lying(answers) as url:
        for line in (["runs"], ["show", "inputs_1_a"], ["status"], ["metrics", "inputs_1_a"], ["runs", "--json"]):
            done = shell("--url", url, *line, env={"WINDLASS_TOKEN": "x"})
            assert "Traceback" not in done.err, (line, done)
            assert done.code in (0, 1) and len(done.err.splitlines()) <= 2, (line, done)
