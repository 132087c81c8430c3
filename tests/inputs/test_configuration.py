"""Group I, files: run configurations, conda files and databases that are broken, hostile, or from another time."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.inputs.command import complains, humble
from windlass import RunConfiguration
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.core.errors import WindlassError

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)
HOSTILE = {
    "I1 laughs": LAUGHS,
    "I1 merge": "base: &b {x: 1}\nchild:\n  <<: *b\n",
    "I1 object": "script: !!python/object/apply:os.system ['touch CANARY']\n",
    "I1 new": "!!python/object/new:subprocess.Popen [['touch', 'CANARY']]\n",
    "I1 module": "x: !!python/module:os\n",
    "I1 name": "x: !!python/name:os.system\n",
    "I1 tag": "x: !custom 1\n",
    "environment that is not there": "environment: nothing.yml\n",
    "environment that is a folder": "environment: .\n",
    "I1 directive": "%YAML 1.1\n%TAG ! tag:x\n---\nx: !y 1\n",
    "I2 tabs": "script: train.py\nenvironment:\n\tpython: 1\n",
    "I2 same key": "script: a.py\nscript: b.py\n",
    "I2 same key inside": "environment:\n  python: {a: 1, a: 2}\n",
    "several documents": "script: a.py\n---\nscript: b.py\n",
    "deep lists": "x: " + "[" * 10_000 + "]" * 10_000,
    "deep maps": "\n".join(" " * i + "a:" for i in range(1000)),
    "not closed": "x: [1, 2\ny: 'z\n",
    "list": "- a\n- b\n",
    "text": "just words\n",
    "number": "5\n",
    "NUL": "x: a\0b\n",
    "escape": 'x: "\\q"\n',
    "JSON": "{broken",
    "wrong kind": "environment: 5\n",
    "wrong kind inside": "environment:\n  python: [1, 2]\n",
    "list as target": "target: [local]\n",
    "text as arguments": "arguments: {a: b}\n",
    "text as nodes": "nodeCount: many\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_run_configurations_that_cannot_be_meant(folder: Path, text: str) -> None:
    """Refused with the file's name, or harmless; nothing is run, and nothing is waited for."""
    canary = folder / "canary"
    (folder / ".azureml").mkdir()
    path = folder / ".azureml" / "mine.runconfig"
    path.write_text(text.replace("CANARY", str(canary)))
    started = time.process_time()
    try:
        RunConfiguration.load(str(folder), "mine")
    except WindlassError as e:
        assert len(e.message.splitlines()) <= 2 and ("mine.runconfig" in e.message or "target" in e.message)
    else:
        assert text.startswith(("arguments", "nodeCount", "environment:\n  python: [")), "that was understood?"
    assert time.process_time() - started < 5
    assert not canary.exists()


def test_i2_line_ends_and_marks_of_other_systems_are_read(folder: Path) -> None:
    for number, content in enumerate(
        (b"\xef\xbb\xbfscript: train.py\r\ntarget: local\r\n", b"script: train.py\rtarget: local\r")
    ):
        path = folder / f"{number}.runconfig"
        path.write_bytes(content)
        found = RunConfiguration.load(str(path))
        assert (found.script, found.target) == ("train.py", "local")


@pytest.mark.parametrize("content", [b"\xff\xfe", "script: x".encode("utf-16"), b"script: \xe9"])
def test_i2_what_is_not_utf_8_is_refused(folder: Path, content: bytes) -> None:
    (folder / "mine.runconfig").write_bytes(content)
    with pytest.raises(WindlassError, match=r"mine\.runconfig"):
        RunConfiguration.load(str(folder / "mine.runconfig"))


def test_files_that_are_no_files(folder: Path) -> None:
    (folder / "loop.runconfig").symlink_to("loop.runconfig")
    (folder / "folder.runconfig").mkdir()
    os.mkfifo(folder / "pipe.runconfig")
    for name in ("loop.runconfig", "folder.runconfig", "pipe.runconfig", "nothing.runconfig"):
        with pytest.raises(WindlassError):
            RunConfiguration.load(str(folder / name))
        with pytest.raises(WindlassError):
            CondaDependencies(str(folder / name))


CONDA = {
    "I3 file": "dependencies:\n- pip:\n  - file:///etc/passwd\n",
    "I3 index": "dependencies:\n- pip:\n  - --index-url http://example.org\n  - --extra-index-url=file:///\n",
    "I3 editable": "dependencies:\n- pip:\n  - -e .\n  - -r /etc/passwd\n",
    "I3 shell": "dependencies:\n- pip:\n  - 'numpy; touch CANARY'\n  - $(touch CANARY)\n",
    "unknown key": "packages: [x]\n",
    "wrong kind": "dependencies: numpy\n",
    "number": "dependencies: [1]\n",
    "null": "dependencies: [null]\n",
    "two pips": "dependencies:\n- pip: [a]\n- conda: [b]\n",
    "pip as text": "dependencies:\n- pip: numpy\n",
    "channels as text": "channels: x\ndependencies: []\n",
    "empty": "",
    "I1 object": "dependencies: !!python/object/apply:os.system ['touch CANARY']\n",
    "I1 laughs": LAUGHS,
}


@pytest.mark.parametrize("text", CONDA.values(), ids=CONDA)
def test_i3_conda_files_that_cannot_be_meant(shell: Shell, folder: Path, text: str) -> None:
    """What is only strange is taken as it is, for the installer to judge: a plan of it runs nothing."""
    canary = folder / "canary"
    (folder / "train.py").write_text("")
    (folder / "env.yml").write_text(text.replace("CANARY", str(canary)))
    done = shell("submit", "--dry-run", "--env-file", "env.yml", "train.py", cwd=folder)
    if done.code:
        complains(done, 125)
    else:
        assert "Traceback" not in done.err and done.out
    assert not canary.exists()


def test_i3_ten_thousand_packages(shell: Shell, folder: Path) -> None:
    (folder / "train.py").write_text("")
    (folder / "requirements.txt").write_text("".join(f"package-{i}==1.0\n" for i in range(10_000)))
    done = shell("submit", "--dry-run", "--env-file", "requirements.txt", "train.py", cwd=folder)
    assert done.code == 0 and "package-9999==1.0" in done.out


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"numpy\0", b"\xef\xbb\xbfnumpy\r\n", b"#" * 1_000_000])
def test_i3_requirements_of_any_content(shell: Shell, folder: Path, content: bytes) -> None:
    (folder / "train.py").write_text("")
    (folder / "requirements.txt").write_bytes(content)
    done = shell("submit", "--dry-run", "--env-file", "requirements.txt", "train.py", cwd=folder)
    if done.code:
        complains(done, 125)
    assert "Traceback" not in done.err and "root:" not in done.out


def made(shell: Shell) -> Path:
    """The database of a home that was used and is at rest."""
    assert shell("runs").code == 0
    assert shell("server", "stop").code == 0
    return shell.home / "windlass.sqlite"


DAMAGE: dict[str, Callable[[Path], object]] = {
    "I4 nonsense": lambda path: path.write_bytes(b"this is no database" * 1000),
    "I4 overwritten": lambda path: path.write_bytes(
        path.read_bytes()[:4096] + os.urandom(len(path.read_bytes()) - 4096)
    ),
    "I4 cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 3]),
    "I4 other tables": lambda path: _execute(path, "DROP TABLE runs", "CREATE TABLE runs (x)"),
    "I4 newer": lambda path: _execute(path, "INSERT INTO schema_versions (version, applied_at) VALUES (99, 0)"),
    "I4 folder": lambda path: _make_a_folder(path),
}


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize("damage", DAMAGE)
def test_i4_a_database_that_is_not_ours_any_more(fresh: Shell, damage: str) -> None:
    """It is said which file and what to do; nothing is repaired, thrown away or begun anew."""
    path = made(fresh)
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)
    DAMAGE[damage](path)
    before = path.read_bytes() if path.is_file() else b""
    complains(fresh("runs"), 5, "version 99" if damage == "I4 newer" else "database")
    complains(fresh("server", "run"), 125)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_i4_a_database_that_is_read_only(fresh: Shell) -> None:
    path = made(fresh)
    path.chmod(0o400)
    complains(fresh("runs", preexec=humble), 5, "windlass.sqlite")
    path.chmod(0o600)
    assert fresh("runs").code == 0


def test_i4_an_empty_file_is_a_new_database(fresh: Shell) -> None:
    fresh.home.mkdir(mode=0o700)
    (fresh.home / "windlass.sqlite").touch()
    assert fresh("runs").code == 0


def test_i4_a_database_that_is_not_there(fresh: Shell) -> None:
    for url in ("postgresql://127.0.0.1:1/x", "postgresql://user:secret@127.0.0.1:1/x", "mysql://x", "sqlite://x", "x"):
        done = fresh("server", "run", "--database", url)
        complains(done, 125)
        assert "secret" not in done.err


def test_i6_two_servers_in_one_home(fresh: Shell) -> None:
    """The second one says whose it is and goes; the first does not notice."""
    assert fresh("server", "start").code == 0
    first = fresh.status()
    for _ in range(2):
        complains(fresh("server", "run"), 125, "in use", str(first["pid"]))
    (fresh.home / "server.json").rename(fresh.home / "lost.json")
    complains(fresh("runs"), 5, str(first["pid"]))
    (fresh.home / "lost.json").rename(fresh.home / "server.json")
    assert fresh.status()["pid"] == first["pid"]
    assert fresh("runs").code == 0


def test_i6_twenty_at_once_start_one(fresh: Shell) -> None:
    command = [sys.executable, "-c", "from windlass import Workspace; print(Workspace.from_config().name)"]
    many = [
        subprocess.Popen(
            command, env=fresh.environment(), cwd=fresh.home.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(20)
    ]
    for each in many:
        out, err = each.communicate(timeout=120)
        assert (each.returncode, out) == (0, b"default\n"), err
    log = (fresh.home / "server.log").read_text()
    assert log.count("listening url=") == 1
