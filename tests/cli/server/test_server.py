"""The server from the command line: started, found, stopped, in front."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.cli.shell import COMMAND, Shell


def test_the_life_of_a_server(fresh: Shell) -> None:
    stopped = fresh("server", "status")
    assert stopped.code == 5
    assert stopped.out.startswith("The server is not running.")
    assert not fresh.home.exists()
    assert fresh("status").code == 0

    assert fresh("server", "start").code == 0
    first = fresh.status()
    assert first["running"] is True
    assert {"pid", "url", "home", "version", "started_at"} <= set(first)
    assert first["home"] == str(fresh.home)
    os.kill(first["pid"], 0)

    assert fresh("server", "start", "--json").json["pid"] == first["pid"]
    second = fresh("server", "restart", "--json").json
    assert second["pid"] != first["pid"]

    assert "has stopped" in fresh("server", "stop").out
    assert fresh.status()["running"] is False
    again = fresh("server", "stop")
    assert (again.code, again.out) == (0, "The server was not running.\n")


def test_runs_go_on_without_the_server(fresh: Shell, project: Path) -> None:
    go = project.parent / "go"
    (project / "train.py").write_text(
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\nprint('went on'); sys.exit(3)"
    )
    run_id = fresh("submit", "-d", "train.py", str(go), cwd=project).out.strip()
    assert fresh("server", "stop").code == 0
    go.touch()
    assert fresh("logs", "-f", run_id).out == "went on\n"
    assert fresh("show", run_id, "--json").json["exit_code"] == 3


def test_a_server_in_the_foreground(fresh: Shell) -> None:
    process = subprocess.Popen(
        [*COMMAND, "server", "run"],
        cwd=fresh.home.parent,
        env=fresh.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if b"listening" in line:
                break
        assert fresh.status()["pid"] == process.pid
        assert fresh("runs").out.startswith("No runs yet.")
    finally:
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) in (0, -signal.SIGINT)
    assert b"Traceback" not in said
    assert fresh.status()["running"] is False


def test_a_server_that_was_killed_is_started_again(fresh: Shell) -> None:
    assert fresh("server", "start").code == 0
    os.kill(fresh.status()["pid"], signal.SIGKILL)
    assert fresh("runs").code == 0


def test_the_token_opens_the_api_and_the_page_is_open_to_all(shell: Shell) -> None:
    secret = shell("server", "token").out.strip()
    assert shell("server", "token", "--json").json == {"token": secret}
    url = shell("server", "status", "--json").json["url"]
    with urllib.request.urlopen(f"{url}/workspaces/default/runs/any_1_aaaaaaaa", timeout=60) as page:
        assert page.status == 200
        assert secret not in page.read().decode()
    asked = urllib.request.Request(f"{url}/api/v1/workspaces", headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 200
