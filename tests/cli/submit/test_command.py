"""`windlass submit`, from the command line to the script's exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_scripts(shell: Shell, project: Path, code: int) -> None:
    (project / "train.py").write_text(f"import sys; print('working'); sys.exit({code})")
    done = shell("submit", "train.py", cwd=project)
    assert (done.code, done.out) == (code, "working\n")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("signal", "code"), [("SIGKILL", 137), ("SIGTERM", 143), ("SIGSEGV", 139)])
def test_a_script_killed_by_a_signal(shell: Shell, project: Path, signal: str, code: int) -> None:
    (project / "train.py").write_text(f"import os, signal; os.kill(os.getpid(), signal.{signal})")
    assert shell("submit", "-q", "train.py", cwd=project).code == code


def test_a_script_that_takes_too_long(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import time; print('on'); time.sleep(600)")
    done = shell("submit", "--timeout", "5s", "train.py", cwd=project)
    assert (done.code, done.out) == (124, "on\n")
    assert "time limit" in done.err


def test_an_environment_that_cannot_be_built(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print('never')")
    (project / "requirements.txt").write_text("--no-index\nno-such-package==1.0\n")
    done = shell("submit", "--env-file", "requirements.txt", "train.py", cwd=project)
    assert done.code == 125
    assert "no-such-package" in done.out
    assert "Failed: the environment could not be built" in done.err
    shown = Terminal(shell, "show", "@last", cwd=project)
    assert shown.end() == 0
    assert max(len(line) for line in shown.text.splitlines() if "/" not in line) <= 80


def test_every_byte_arrives(shell: Shell, project: Path) -> None:
    data = bytes(range(256)) * 300 + b"no newline at the end"
    (project / "train.py").write_text(
        "import sys\ndata = bytes(range(256)) * 300 + b'no newline at the end'\n"
        "sys.stdout.buffer.write(data[:1000]); sys.stdout.flush()\n"
        "sys.stderr.buffer.write(data[1000:1001]); sys.stderr.flush()\nsys.stdout.buffer.write(data[1001:])"
    )
    done = shell.raw("submit", "-q", "train.py", cwd=project)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_arguments_after_the_script_are_the_scripts(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import sys, json; print(json.dumps(sys.argv[1:]))")
    given = ["--alpha", "0.1", "-e", "x", "--json", "--help", "--", "", "two words", "$(id)", "'\"\\", "ü\n", "-q"]
    done = shell("submit", "-q", "train.py", *given, cwd=project)
    assert json.loads(done.out) == given


def test_what_was_asked_for_is_in_the_record(shell: Shell, project: Path) -> None:
    run = shell.submit(
        project,
        "import os; print(os.environ['COLOUR'])",
        *("-e", "my-exp", "-n", "first try", "-t", "team=vision", "-t", "draft"),
        *("--env", "COLOUR=a=b", "--priority", "3", "--timeout", "15m"),
        *("--retries", "2", "--retry-on", "node-loss,exit:75"),
    )
    found = shell("show", run["id"], "--json").json
    assert (found["experiment"], found["name"], found["tags"]) == (
        "my-exp",
        "first try",
        {"team": "vision", "draft": ""},
    )
    assert found["spec"]["environment_variables"] == {"COLOUR": "a=b"}
    assert (found["spec"]["priority"], found["spec"]["max_run_duration_seconds"]) == (3, 900)
    assert found["spec"]["retries"] == {"count": 2, "on": ["node-loss", "exit:75"], "evictions": 3}
    assert shell("logs", run["id"]).out == "a=b\n"


def test_a_run_that_is_tried_again_shows_how_its_attempts_ended(shell: Shell, project: Path) -> None:
    script = "import os, sys; sys.exit(75 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    run = shell.submit(project, script, "--retry-on", "exit:75")
    assert (run["state"], run["attempt"], run["spec"]["retries"]["count"]) == ("Completed", 2, 1)
    assert "2 (1: exit code 75)" in shell("show", run["id"]).out
    assert "exit code 75; attempt 2 of at most 5 waits" in shell("events", run["id"]).out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--retries", "101"), "from 0 to 100"),
        (("--retries", "-1"), "from 0 to 100"),
        (("--retries", "1", "--retry-on", "often"), "node-loss, failure or exit:CODE"),
        (("--retries", "1", "--retry-on", ","), "is not a list like node-loss,exit:75"),
    ],
)
def test_retries_that_make_no_sense_are_refused(
    shell: Shell, project: Path, options: tuple[str, ...], says: str
) -> None:
    (project / "train.py").write_text("")
    done = shell("submit", *options, "train.py", cwd=project)
    assert done.code != 0
    assert says in " ".join(done.err.split())


def test_json_leaves_stdout_to_the_document(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print('log line')")
    done = shell("submit", "--json", "train.py", cwd=project)
    assert done.json["state"] == "Completed"
    assert "log line" in done.err


def test_detach_prints_the_id_at_once(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import time; time.sleep(0.5); print('later')")
    done = shell("submit", "-d", "train.py", cwd=project)
    assert done.code == 0
    assert done.err == ""
    run_id = done.out.strip()
    assert run_id.startswith("project_")
    assert shell("logs", "-f", run_id).out == "later\n"


def test_the_folder_goes_along_and_the_experiment_is_named_after_it(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "my été project!"
    (folder / "sub").mkdir(parents=True)
    (folder / "data.txt").write_text("42")
    (folder / "sub" / "train.py").write_text("print(open('data.txt').read())")
    done = shell("submit", "--json", "sub/train.py", cwd=folder)
    assert done.json["experiment"] == "my-t-project"
    assert "42" in done.err
    from_elsewhere = shell("submit", "-q", "--source-directory", str(folder), "sub/train.py", cwd=tmp_path)
    assert from_elsewhere.out == "42\n"


def test_a_script_elsewhere_goes_with_its_own_folder(shell: Shell, project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("import os; print(sorted(os.listdir()))")
    (tmp_path / "other").mkdir()
    for script in (str(project / "train.py"), "../project/train.py"):
        assert "'train.py'" in shell("submit", "-q", script, cwd=tmp_path / "other").out


def test_the_active_environment_is_used(shell: Shell, project: Path, tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nMARK=here exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (project / "train.py").write_text("import os; print(os.environ.get('MARK'))")
    assert shell("submit", "-q", "train.py", cwd=project, env={"VIRTUAL_ENV": str(tmp_path / "venv")}).out == "here\n"
    assert shell("submit", "-q", "--python", str(python), "train.py", cwd=project).out == "here\n"


def test_a_dry_run_runs_nothing(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("print('never')")
    done = shell("submit", "--dry-run", "-e", "dry-one", "train.py", "--alpha", "1", cwd=project)
    assert done.code == 0
    assert "train.py" in done.out
    assert "never" not in done.out
    plan = shell("submit", "--dry-run", "--json", "-e", "dry-one", "train.py", cwd=project).json
    assert (plan["target"], plan["kind"]) == ("local", "local")
    assert "dry-one" not in [e["name"] for e in shell("experiments", "--json").json["experiments"]]


def test_an_image_makes_a_container(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("")
    done = shell("submit", "--dry-run", "--image", "team/torch:2.5", "train.py", cwd=project)
    assert "container    team/torch:2.5;" in done.out and "the interpreter python3" in done.out
    done = shell(
        "submit", "--dry-run", "--pip", "six", "--image", "team/torch:2.5", "-c", "docker", "train.py", cwd=project
    )
    assert "(docker)" in done.out and "pip six" in done.out and "team/torch:2.5" in done.out
    refused = shell("submit", "--dry-run", "--image", "--privileged", "train.py", cwd=project)
    assert refused.code == 125 and "Not the name of an image" in refused.err


def test_a_reader_that_leaves_does_not_stop_the_run(shell: Shell, project: Path) -> None:
    import subprocess

    from tests.cli.shell import COMMAND

    go = project.parent / "go"
    (project / "train.py").write_text(
        "import os, sys, time\nfor i in range(50):\n    print(i, flush=True)\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
    )
    process = subprocess.Popen(
        [*COMMAND, "submit", "train.py", str(go)],
        cwd=project,
        env=shell.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    go.touch()
    err = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 141
    assert "Traceback" not in err
    run_id = err.split()[1]
    assert shell("logs", "-f", run_id).out.endswith("49\n")
    assert shell("show", run_id, "--json").json["state"] == "Completed"


SLOW = "import time; print('ready', flush=True); time.sleep(600)"


def state_after(shell: Shell, run_id: str, state: str) -> str:
    """A script's first words may be here before the word that it has begun."""
    found = state
    while found == state:
        found = shell("show", run_id, "--json").json["state"]
    return found


def test_ctrl_c_then_enter_leaves_the_run_running(shell: Shell, project: Path) -> None:
    go = project.parent / "go"
    (project / "train.py").write_text(
        "import os, sys, time\nprint('ready', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.02)\nprint('done')"
    )
    terminal = Terminal(shell, "submit", "train.py", str(go), cwd=project)
    terminal.wait_for("ready")
    terminal.press("\x03")
    terminal.wait_for("Ctrl-C cancels it, Enter leaves it running.")
    terminal.press("\r")
    assert terminal.end() == 130
    assert "The run goes on.  Follow: windlass logs -f" in terminal.text
    assert "Traceback" not in terminal.text
    run_id = terminal.text.split()[1]
    go.touch()
    assert shell("logs", "-f", run_id).out == "ready\ndone\n"
    assert shell("show", run_id, "--json").json["state"] == "Completed"


def test_ctrl_c_twice_cancels_the_run(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text(SLOW)
    terminal = Terminal(shell, "submit", "train.py", cwd=project)
    terminal.wait_for("ready")
    terminal.press("\x03")
    terminal.wait_for("Ctrl-C cancels it")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "Canceled after" in terminal.text
    assert shell("show", terminal.text.split()[1], "--json").json["state"] == "Canceled"


def test_an_interrupt_without_a_terminal_leaves_the_run_running(shell: Shell, project: Path) -> None:
    import signal
    import subprocess

    from tests.cli.shell import COMMAND

    (project / "train.py").write_text(SLOW)
    process = subprocess.Popen(
        [*COMMAND, "submit", "train.py"],
        cwd=project,
        env=shell.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"The run goes on." in err
    run_id = err.decode().split()[1]
    assert state_after(shell, run_id, "Starting") == "Running"
    assert shell("cancel", run_id).code == 0
    assert shell("logs", "-f", run_id).out == "ready\n"
    assert shell("show", run_id, "--json").json["state"] == "Canceled"


def test_a_terminal_gets_only_harmless_sequences(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text(r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2Jplain'); print('50%\r100%')")
    terminal = Terminal(shell, "submit", "-q", "train.py", cwd=project)
    assert terminal.end() == 0
    assert terminal.seen == "\x1b[31mred\x1b[0m plain\r\n50%\r100%\r\n"
    raw = Terminal(shell, "logs", "--raw", "@last", cwd=project)
    assert raw.end() == 0
    assert "\x1b]0;title\x07\x1b[2J" in raw.seen


def test_a_server_that_is_killed_comes_back(fresh: Shell, project: Path) -> None:
    import os
    import signal
    import subprocess

    from tests.cli.shell import COMMAND

    (project / "train.py").write_text(
        "import os, time\nprint('one', flush=True)\n"
        "while not os.path.exists(os.environ['GO']): time.sleep(0.02)\nprint('two', flush=True)"
    )
    go = project.parent / "go"
    process = subprocess.Popen(
        [*COMMAND, "submit", "-q", "--env", f"GO={go}", "train.py"],
        cwd=project,
        env=fresh.environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    os.kill(fresh.status()["pid"], signal.SIGKILL)
    go.touch()
    assert process.stdout.read() == b"two\n"
    process.stdout.close()
    assert process.wait(60) == 0
