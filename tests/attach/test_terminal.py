"""Attaching machines from the terminal: prompts, host keys, what is said, and that runs go there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import Result, Shell, Terminal
from tests.hosts.host import Host
from tests.hosts.network import Network


@pytest.fixture
def machine(network: Network) -> Host:
    return network.host("gpu-box")


def line(machine: Host, *more: str, name: str = "box") -> tuple[str, ...]:
    return ("compute", "attach", "ssh", name, "-a", machine.address, "-u", machine.user, *more)


def fingerprint(machine: Host) -> str:
    key = machine.folder / "host.pub"
    key.write_text(machine.host_key + "\n")
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    return shown.stdout.split()[1]


def by_file(shell: Shell, machine: Host, folder: Path, *more: str, name: str = "box") -> Result:
    file = folder / "password"
    file.write_text(machine.password + "\n")
    return shell(*line(machine, "--password-file", str(file), *more, name=name), cwd=folder)


def names(shell: Shell) -> list[str]:
    return [target["name"] for target in shell("compute", "list", "--json").json["targets"] if target["attached_by"]]


def submitted(shell: Shell, project: Path, target: str = "box") -> Result:
    return shell("submit", "-q", "-c", target, "train.py", "--alpha", "1", cwd=project)


def test_a_person_compares_the_fingerprint_and_types_the_password(shell: Shell, machine: Host, project: Path) -> None:
    terminal = Terminal(shell, *line(machine, "--ask-password"), cwd=project)
    terminal.wait_for("Is that the machine?")
    assert fingerprint(machine) in terminal.text
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in terminal.text
    terminal.press("y\n")
    terminal.wait_for("Password of ada@")
    terminal.press(machine.password + "\n")
    assert terminal.end() == 0
    said = terminal.text
    assert f"Attached box  ada@{machine.address}" in said
    assert "cores" in said and "python" in said and "Run something there: windlass submit -c box train.py" in said
    assert machine.password not in said
    assert all(len(row) <= 80 for row in said.splitlines())
    target = shell("compute", "show", "box", "--json").json
    assert target["pin_confirmed"] is True and target["pin_shown_as"] == fingerprint(machine)
    assert submitted(shell, project).out == "hello from gpu-box ['--alpha', '1']\n"


def test_a_no_attaches_nothing_and_sends_no_password(shell: Shell, machine: Host, project: Path) -> None:
    terminal = Terminal(shell, *line(machine, "--ask-password"), cwd=project)
    terminal.wait_for("Is that the machine?")
    terminal.press("\n")
    assert terminal.end() == 6
    assert names(shell) == [] and "Password" not in terminal.text
    assert "Failed password" not in machine.log and "Accepted" not in machine.log


@pytest.mark.parametrize("prompt", ["Password of ada@", "Is that the machine?"])
def test_ctrl_c_at_a_prompt_leaves_nothing(shell: Shell, machine: Host, project: Path, prompt: str) -> None:
    terminal = Terminal(shell, *line(machine, "--ask-password"), cwd=project)
    terminal.wait_for("Is that the machine?")
    if prompt != "Is that the machine?":
        terminal.press("y\n")
        terminal.wait_for(prompt)
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text and names(shell) == []


def test_a_key_with_a_passphrase_is_asked_for_it(shell: Shell, network: Network, project: Path) -> None:
    key = project / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "sesame", "-f", key], check=True)
    machine = network.host("keys-only", authorized=(Path(f"{key}.pub").read_text().strip(),), takes_passwords=False)
    known = ("--pin", fingerprint(machine))
    terminal = Terminal(shell, *line(machine, "--private-key-file", str(key), *known), cwd=project)
    terminal.wait_for("Passphrase of ")
    terminal.press("sesame\n")
    assert terminal.end() == 0
    key.unlink()  # from here on the key store has it
    assert submitted(shell, project).code == 0


def test_what_is_wrong_is_said_and_nothing_is_kept(shell: Shell, machine: Host, project: Path) -> None:
    (project / "wrong").write_text("wrong\n")
    done = shell(*line(machine, "--password-file", "wrong", "--yes"), cwd=project)
    assert done.code == 7
    assert "does not let us in" in done.err and done.err.count("\n") <= 4
    done = shell("compute", "attach", "ssh", "box", "-a", "10.64.0.1", "-p", "1", "-u", "ada", "-k", "-y", cwd=project)
    assert done.code == 7 and "cannot be reached" in done.err
    assert names(shell) == []


def test_a_machine_without_python_is_refused_with_the_line_that_helps(
    shell: Shell, network: Network, project: Path
) -> None:
    bare = network.host("bare", has_python=False)
    done = by_file(shell, bare, project, "--yes")
    assert done.code == 7
    assert "no Python" in done.err and "sudo apt-get install python3" in done.err
    assert names(shell) == []


def test_the_workspaces_key_is_installed_once_and_then_lets_in_by_itself(
    shell: Shell, machine: Host, project: Path
) -> None:
    assert by_file(shell, machine, project, "-k", "--yes").code == 0
    public = shell("compute", "public-key").out.strip()
    installed = (machine.home / ".ssh" / "authorized_keys").read_text()
    assert installed.count(" ".join(public.split()[:2])) == 1
    again = shell(*line(machine, "-k", "--yes", name="again"), cwd=project)
    assert again.code == 0 and public in again.out and "cores" in again.out
    assert submitted(shell, project, "again").code == 0


def test_a_machine_that_lacks_the_workspaces_key_says_so_until_it_has_it(
    shell: Shell, machine: Host, project: Path
) -> None:
    assert shell(*line(machine, "-k", "--yes"), cwd=project).code == 0
    refused = shell("compute", "check", "box")
    assert refused.code == 7 and "does not let us in" in refused.err
    assert "~/.ssh/authorized_keys of ada there: windlass compute public-key" in refused.err
    with open(machine.home / ".ssh" / "authorized_keys", "a") as file:
        file.write(shell("compute", "public-key").out)
    assert shell("compute", "check", "box").out.startswith("box: ok")


def test_a_machine_behind_another_is_reached_through_it(shell: Shell, network: Network, project: Path) -> None:
    gate = network.host("gate")
    inner = network.host("inner", behind=gate)
    assert by_file(shell, gate, project, "--yes", name="gate").code == 0
    done = by_file(shell, inner, project, "--jump", "gate", "--host-key", fingerprint(inner), name="inner")
    assert done.code == 0, done.err
    assert submitted(shell, project, "inner").out.startswith("hello from inner")


def test_a_changed_machine_gets_nothing_until_it_is_trusted(
    shell: Shell, network: Network, machine: Host, project: Path
) -> None:
    assert by_file(shell, machine, project, "--yes").code == 0
    before = fingerprint(machine)
    other = network.replace(machine)
    checked = shell("compute", "check", "box")
    assert checked.code == 7 and "windlass compute trust box" in checked.err
    assert "Accepted" not in other.log and "Failed" not in other.log
    shown = shell("compute", "list").out
    assert "quarantined" in shown
    assert by_file(shell, machine, project, "--update", "--yes").code in (6, 7), "nor is it attached anew by the way"
    terminal = Terminal(shell, "compute", "trust", "box", cwd=project)
    terminal.wait_for("Is that the machine?")
    assert before in terminal.text and fingerprint(other) in terminal.text
    terminal.press("yes\n")
    assert terminal.end() == 0
    assert by_file(shell, other, project, "--update", "--yes").code == 0
    assert submitted(shell, project).code == 0


def test_detached_by_force_its_runs_say_what_was_left(shell: Shell, machine: Host, project: Path) -> None:
    assert by_file(shell, machine, project, "--yes").code == 0
    (project / "train.py").write_text("import time\nprint('there', flush=True)\ntime.sleep(600)\n")
    run = shell("submit", "-d", "-c", "box", "train.py", cwd=project).out.strip()
    for _ in range(200):
        if shell("show", run, "--json").json["state"] == "Running":
            break
    refused = shell("compute", "detach", "box")
    assert refused.code == 6 and "1 run goes on there" in refused.err
    assert shell("compute", "detach", "box", "--force").out.startswith("Detached box.")
    ended = shell("show", run, "--json").json
    assert (ended["state"], ended["reason"]) == ("Failed", "gave_up")
    assert f"ada@{machine.address}" in shell("events", run).out.replace("\n", "")
    assert any(process.name.startswith("python") for process in machine.processes()), "detach destroys nothing"
    assert names(shell) == []
    assert os.listdir(machine.home / ".windlass" / "ssh" / "runs") == [f"{run}.1"], "what is there stays there"


def test_settings_change_and_runs_go_on_there(shell: Shell, machine: Host, project: Path) -> None:
    assert by_file(shell, machine, project, "--yes").code == 0
    assert submitted(shell, project).code == 0
    changed = shell("compute", "update", "box", "--python", "/usr/bin/python3", "--slots", "1")
    assert changed.code == 0 and "/usr/bin/python3" in changed.out
    assert submitted(shell, project).code == 0
