"""A user's mistake is answered in one or two lines, never with a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.fake import FakeSession, windlass
from tests.cli.shell import COMMAND, Result, Shell, Terminal


def check(done: Result, code: int, *words: str) -> None:
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) <= 2, done.err
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trian.py", ("no script trian.py", "Did you mean train.py?")),
        ("sub", ("is a folder",)),
        ("data.csv", ("not a script of Python or of a shell",)),
        ("binary.py", ("binary data",)),
        ("pipe.py", ("not a regular file",)),
        ("-c nowhere train.py", ("nowhere",)),
        ("-c x;id train.py", ("x;id",)),
        ("-e a/b train.py", ("Experiment name",)),
        ("--env A-B=1 train.py", ("A-B",)),
        ("--env LD_PRELOAD=x train.py", ("reserved",)),
        ("--env =x train.py", ("KEY=VALUE",)),
        ("--python /no/python train.py", ("no Python /no/python",)),
        ("--env-file none.txt train.py", ("no file none.txt",)),
        ("--timeout soon train.py", ("soon",)),
        ("--timeout 0 train.py", ("duration",)),
        ("--priority 1e9 train.py", ("whole number",)),
        ("--priority 5000 train.py", ("5000",)),
        ("--source-directory none train.py", ("no folder none",)),
        ("--source-directory sub ../train.py", ("not inside",)),
        ("--sorce x train.py", ("has no option --sorce", "Options of the script follow the script")),
        ("-e", ("requires an argument",)),
        ("", ("Missing argument",)),
        ("ignored.py", ("ignore file",)),
    ],
)
def test_submit_explains_what_is_wrong(shell: Shell, project: Path, line: str, words: tuple[str, ...]) -> None:
    (project / "train.py").write_text("print('never')")
    (project / "sub").mkdir()
    (project / "data.csv").write_text("a,b\n")
    (project / "binary.py").write_bytes(b"\x7fELF\0\0")
    (project / "ignored.py").write_text("")
    (project / ".amlignore").write_text("ignored.py\npipe.py\n")
    os.mkfifo(project / "pipe.py")
    check(shell("submit", *line.split(" ") if line else (), cwd=project), 125, *words)


def test_a_script_that_cannot_be_read(shell: Shell, project: Path) -> None:
    """A link to itself cannot be read by anybody, not even by root."""
    (project / "train.py").symlink_to("train.py")
    check(shell("submit", "train.py", cwd=project), 125, "cannot be read")


def test_bytes_that_are_not_text(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("")
    check(shell("submit", "train.py", os.fsdecode(b"\xff"), cwd=project), 125, "UTF-8")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("runz", 2, ("Did you mean `windlass run`?",)),
        ("runs --colour", 2, ("No such option",)),
        ("runs -s Sleeping", 2, ("Sleeping",)),
        ("runs --where metric.x~1", 2, ("metric.x~1",)),
        ("runs --sort password", 2, ("password",)),
        ("runs --since tomorrow", 2, ("tomorrow",)),
        ("runs -n 0", 2, ("0",)),
        ("show", 2, ("Missing argument",)),
        ("show nothing-like-this", 3, ("no run nothing-like-this",)),
        ("show demo_1763268000_00000000", 3, ("demo_1763268000_00000000",)),
        ("cancel ../x", 2, ("run id",)),
        ("compute show nowhere", 3, ("nowhere",)),
        ("compute update local --slots 0", 2, ("0",)),
        ("compute lst", 2, ("Did you mean `windlass compute list`?",)),
        ("settings keep_logs_days", 2, ("KEY=VALUE",)),
        ("settings keep_logs_days=soon", 2, ("keep_logs_days",)),
        ("completion powershell", 2, ("powershell",)),
        ("--workspace a/b runs", 2, ("workspace",)),
        ("--url nonsense runs", 2, ("nonsense",)),
    ],
)
def test_commands_explain_what_is_wrong(shell: Shell, line: str, code: int, words: tuple[str, ...]) -> None:
    check(shell(*line.split()), code, *words)


def test_a_server_that_is_not_there(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # nobody listens, and nobody else can
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        check(shell("--url", url, "runs"), 5, url)
        check(shell("submit", "--url", url, "train.py", cwd=project), 125, url)
        assert shell("--url", url, "runs", "--json").json["error"]["code"] == "server_unavailable"


def test_a_wrong_token(shell: Shell) -> None:
    url = shell.status()["url"]
    check(shell("--url", url, "runs", env={"WINDLASS_TOKEN": "wrong"}), 4)


def test_something_that_is_not_our_server(shell: Shell) -> None:
    """It answers, but not as an API of ours does."""
    import http.server
    import threading

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"<html")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as page:
        thread = threading.Thread(target=page.serve_forever)
        thread.start()
        try:
            done = shell("--url", f"http://127.0.0.1:{page.server_port}", "runs")
        finally:
            page.shutdown()
            thread.join()
    check(done, 1)


def unwritable(tmp_path: Path) -> str:
    """A home that cannot be made, for root too."""
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "home")


def test_a_home_that_cannot_be_written(shell: Shell, project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("")
    home = unwritable(tmp_path)
    check(shell("--home", home, "runs"), 5, home)
    check(shell("submit", "--home", home, "train.py", cwd=project), 125, home)
    check(shell("--home", home, "server", "start"), 5, home)
    done = shell("--home", home, "doctor")
    assert done.code == 1
    assert "Traceback" not in done.err + done.out


def test_settings_that_cannot_be_read(fresh: Shell) -> None:
    fresh.home.mkdir(mode=0o700)
    (fresh.home / "settings.json").write_text("{broken")
    check(fresh("runs"), 5, "settings.json")
    done = fresh("doctor")
    assert done.code == 1
    assert f"mv {fresh.home}/settings.json" in done.out


def test_a_project_configuration_that_cannot_be_read(shell: Shell, project: Path) -> None:
    (project / ".azureml").mkdir()
    (project / ".azureml" / "config.json").write_text("{broken")
    (project / "train.py").write_text("")
    check(shell("runs", cwd=project), 2, "config.json")
    check(shell("submit", "train.py", cwd=project), 125, "config.json")


def test_a_port_that_is_taken(fresh: Shell) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = str(sock.getsockname()[1])
        done = fresh("server", "run", "--port", port)
    assert done.code == 125
    assert f"Port {port}" in done.err
    assert "Traceback" not in done.err


def test_a_full_disk_below_stdout(shell: Shell) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "version"], env=shell.environment(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 8
    assert done.stderr.decode().startswith("error: No space left on device")
    assert b"Traceback" not in done.stderr


def test_a_reader_that_leaves(shell: Shell) -> None:
    for command in (["runs", "--all"], ["--help"], ["version"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([*COMMAND, *command], env=shell.environment(), stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("streams", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams(shell: Shell, project: Path, streams: tuple[int, ...]) -> None:
    def close() -> None:
        for stream in streams:
            os.close(stream)

    (project / "train.py").write_text("print('hi')")
    for command, code in ((["runs"], 0), (["submit", "train.py"], 0), (["show", "no-run"], 3)):
        done = shell(*command, cwd=project, preexec=close)
        assert done.code == code
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C", "LANG": "C"}, {"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "1"}, {"TERM": None}]
)
def test_poor_terminals(shell: Shell, project: Path, env: dict[str, str | None]) -> None:
    (project / "train.py").write_text("print('naïve 漢字')")
    assert shell("submit", "-n", "été 漢字", "train.py", cwd=project, env=env).code == 0
    for command in (["runs", "--all"], ["show", "@last"], ["doctor"], ["status"]):
        done = shell(*command, env=env)
        assert done.code == 0
        assert done.err == ""


def test_a_folder_that_was_deleted(shell: Shell, project: Path) -> None:
    def vanish() -> None:
        os.rmdir(project)

    done = shell("submit", "train.py", cwd=project, preexec=vanish)
    check(done, 125, "does not exist any more")
    project.mkdir()
    done = shell("runs", cwd=project, preexec=vanish)
    assert done.code == 0
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", [["logs", "-f", "@last"], ["submit", "train.py"]])
def test_ctrl_c_shows_no_traceback(shell: Shell, project: Path, command: list[str]) -> None:
    (project / "train.py").write_text("import time; print('ready', flush=True); time.sleep(600)")
    run_id = shell("submit", "-d", "train.py", cwd=project).out.strip()
    try:
        terminal = Terminal(shell, *command, cwd=project)
        terminal.wait_for("ready")
        terminal.press("\x03")
        if command[0] == "submit":
            terminal.wait_for("Enter leaves it running")
            terminal.press("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.seen
    finally:
        shell("cancel", run_id)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("experiment clean --all -t x", ("windlass experiment clean is not provided", "`windlass gc`")),
        ("experiment diagnostics -r x", ("`windlass logs RUN`",)),
        ("experiment monitor --tensorboard", ("`windlass logs -f RUN`",)),
        ("experiment return -r x", ("`windlass download RUN`",)),
        ("history list --query x", ("windlass history is not provided", "`windlass runs`")),
        ("model deploy -n x", ("windlass model deploy is not provided", "`windlass model download NAME`")),
    ],
)
def test_commands_of_workbench_that_are_not_there_say_what_to_use(
    capsys: pytest.CaptureFixture[str], line: str, words: tuple[str, ...]
) -> None:
    assert windlass(FakeSession({}), *line.split()) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said
