"""The command lines and files of Azure ML Workbench, with `windlass` in place of `az ml`, on real machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Result, Shell, Terminal
from tests.hosts.host import Host
from tests.hosts.network import Network


@pytest.fixture
def machine(network: Network) -> Host:
    return network.host("remotevm")


def attach(shell: Shell, machine: Host, project: Path, *more: str, kind: str = "remote") -> Result:
    where = ("--name", "remotevm", "--address", machine.address, "--username", machine.user, "--host-key", "accept")
    return shell("computetarget", "attach", kind, *where, *more, cwd=project)


def test_a_remote_machine_from_attach_to_detach(shell: Shell, machine: Host, project: Path) -> None:
    done = attach(shell, machine, project, "--password", machine.password)
    assert done.code == 0
    assert done.out == (
        "Successfully created the following files:\n"
        "remotevm.compute: contains connection and configuration information for a remote execution target\n"
        "remotevm.runconfig: set of run options used when executing within the Azure ML Workbench application\n"
    )
    assert "warning: a secret on a command line" in done.err and "SHA256:" in done.err
    assert machine.password not in done.out + done.err
    files = {path.name: path.read_text() for path in (project / "aml_config").iterdir()}
    assert set(files) == {"remotevm.compute", "remotevm.runconfig"}
    assert machine.password not in "".join(files.values())
    assert "userManagedEnvironment: true" in files["remotevm.compute"]
    ran = shell("experiment", "submit", "-c", "remotevm", "train.py", "--alpha", "1", cwd=project)
    assert (ran.code, ran.out) == (0, "hello from remotevm ['--alpha', '1']\n")
    listed = shell("computetarget", "list").out.splitlines()
    assert "Name=remotevm : Type=remote" in listed and "Name=local : Type=local" in listed
    assert "Name=remotevm : Type=remote" in shell("computetarget", "show", "-n", "remotevm").out
    gone = shell("computetarget", "detach", "-n", "remotevm", cwd=project)
    assert gone.out == "Detached remotevm.\nRemoved aml_config/remotevm.compute\n"
    assert "Name=remotevm" not in shell("computetarget", "list").out


def test_a_machine_with_docker_is_to_be_prepared(shell: Shell, machine: Host, project: Path) -> None:
    done = attach(shell, machine, project, "-w", machine.password, kind="remotedocker")
    assert done.out.endswith(
        "\n\nBefore running against remotevm, you need to prepare it with your project's environment by running:\n"
        "windlass experiment prepare -c remotevm\n"
    )
    assert "type: remotedocker" in (project / "aml_config" / "remotevm.compute").read_text()
    assert (
        "CondaDependenciesFile: aml_config/conda_dependencies.yml"
        in (project / "aml_config" / "remotevm.runconfig").read_text()
    )


def test_the_same_by_az_of_each_generation(shell: Shell, machine: Host, project: Path) -> None:
    where = ("-n", "remotevm", "-a", machine.address, "-u", machine.user, "--host-key", "accept")
    done = shell("$", "az", "ml", "computetarget", "attach", "remote", *where, "-w", machine.password, cwd=project)
    assert done.code == 0 and done.out.startswith("Successfully created the following files:\n")
    ran = shell("az", "ml", "experiment", "submit", "-c", "remotevm", "train.py", "1", cwd=project)
    assert (ran.code, ran.out) == (0, "hello from remotevm ['1']\n")
    assert shell("az", "ml", "computetarget", "detach", "-n", "remotevm", cwd=project).code == 0
    v1 = ("computetarget", "attach", "remote", *where, "-p", machine.password, "-g", "rg", "-w", "default")
    assert shell("az", "ml", *v1, cwd=project).code == 0
    assert shell("az", "ml", "compute", "detach", "-n", "remotevm", "-y", cwd=project).code == 0
    v2 = ("--address", machine.address, "--admin-username", machine.user, "--admin-password", machine.password)
    made = shell("az", "ml", "compute", "attach", "-n", "remotevm", "-t", "virtualmachine", *v2, cwd=project)
    assert made.code == 0 and made.json["type"] == "virtualmachine", made.err
    assert machine.password not in made.out + made.err
    sent = shell("az", "ml", "run", "submit-script", "--ct", "remotevm", "train.py", cwd=project)
    assert sent.code == 0 and "hello from remotevm []" in sent.out


@pytest.mark.parametrize("flag", ["-k", "--use-azureml-ssh-key"])
def test_with_the_workspaces_key_the_public_half_is_reported_and_then_appended(
    shell: Shell, machine: Host, project: Path, flag: str
) -> None:
    done = attach(shell, machine, project, flag)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "Public key:" and lines[1].startswith("ssh-ed25519 ")
    assert "Please append the public key in ~/.ssh/authorized_keys file" in lines[2]
    keys = machine.home / ".ssh" / "authorized_keys"
    keys.write_text(keys.read_text() + lines[1] + "\n")
    assert shell("experiment", "submit", "-c", "remotevm", "train.py", cwd=project).code == 0


def test_without_a_password_one_is_asked_for_twice(shell: Shell, machine: Host, project: Path) -> None:
    line = ("computetarget", "attach", "remote", "-n", "remotevm", "-a", f"{machine.address}:22", "-u", machine.user)
    terminal = Terminal(shell, *line, cwd=project)
    terminal.wait_for("Enter password:")
    terminal.press(machine.password + "\n")
    terminal.wait_for("Re-enter the password for confirmation:")
    terminal.press(machine.password + "\n")
    terminal.wait_for("Is that the machine?")
    terminal.press("y\n")
    assert terminal.end() == 0
    assert machine.password not in terminal.text and "warning" not in terminal.text
    terminal = Terminal(shell, *line, cwd=project)
    terminal.wait_for("Enter password:")
    terminal.press("one\n")
    terminal.wait_for("Re-enter")
    terminal.press("other\n")
    assert terminal.end() == 2 and "Entered passwords don't match." in terminal.text


def test_what_the_files_say_decides_how_a_run_lives(shell: Shell, machine: Host, project: Path) -> None:
    assert attach(shell, machine, project, "--password", machine.password).code == 0
    (project / "train.py").write_text(
        "import os, sys\n"
        "share = os.environ['AZUREML_NATIVE_SHARE_DIRECTORY']\n"
        "print(sys.executable, os.environ['EXAMPLE_ENV_VAR1'], os.path.isdir(share))\n"
    )
    compute = project / "aml_config" / "remotevm.compute"
    compute.write_text(compute.read_text().replace("pythonLocation: python3", "pythonLocation: /usr/bin/python3"))
    (project / "aml_config" / "mine.runconfig").write_text(
        'ArgumentVector:\n- "$file"\nTarget: remotevm\nFramework: Python\nEnvironmentVariables:\n'
        '    "EXAMPLE_ENV_VAR1": "Example Value1"\n'
    )
    ran = shell("experiment", "submit", "--run-configuration", "mine", "train.py", cwd=project)
    assert ran.out == "/usr/bin/python3 Example Value1 True\n"
    assert shell("submit", "-q", "-c", "mine", "--env", "EXAMPLE_ENV_VAR1=x", "train.py", cwd=project).out == (
        "/usr/bin/python3 x True\n"
    )


def test_a_project_from_elsewhere_says_what_to_attach(shell: Shell, project: Path) -> None:
    (project / "aml_config").mkdir()
    (project / "aml_config" / "theirs.compute").write_text("type: remote\naddress: gpu.lab:2222\nusername: jane\n")
    (project / "aml_config" / "theirs.runconfig").write_text("Target: theirs\nFramework: Python\n")
    done = shell("submit", "-c", "theirs", "train.py", cwd=project)
    assert done.code == 125
    assert "windlass compute attach ssh theirs --address gpu.lab:2222 --username jane\n" in done.err


def test_run_configurations_come_and_go(shell: Shell, project: Path) -> None:
    for group in ("runconfiguration", "runconfigurations"):
        made = shell(group, "create", "-n", "mine", "-t", "local", cwd=project)
        assert (made.code, made.out) == (0, "Wrote .azureml/mine.runconfig\n")
        assert shell(group, "list", cwd=project).out == "mine\n"
        assert shell(group, "create", "-n", "mine", "-t", "local", cwd=project).code == 6
        assert shell("submit", "-q", "-c", "mine", "train.py", cwd=project).out.startswith("hello from")
        assert shell(group, "delete", "-n", "mine", cwd=project).out == "Deleted mine.\n"
        assert shell(group, "list", "--json", cwd=project).json == {"run_configurations": []}
    assert shell("runconfiguration", "delete", "-n", "mine", cwd=project).code == 3
    assert shell("runconfiguration", "create", "-n", "../x", "-t", "local", cwd=project).code == 2


def test_runs_are_looked_after(shell: Shell, project: Path) -> None:
    (project / "train.py").write_text("import time\ntime.sleep(600)\n")
    started = shell("experiment", "submit", "-t", "local", "--async", "train.py", cwd=project)
    assert started.out.startswith("RunId:")
    run = started.out.strip().removeprefix("RunId:")
    assert shell("experiment", "status", "-r", run).code == 0
    assert shell("experiment", "cancel", "-r", run).code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("computetarget", "attach", "cluster", "-n", "hdi", "-a", "h", "-u", "u", "-w", "x"), 2, "HDInsight"),
        (("computetarget", "attach", "remote", "-n", "vm", "-a", "-oX", "-u", "u", "-k"), 2, "An address is"),
        (("computetarget", "attach", "remote", "-n", "vm", "-a", "h:0", "-u", "u", "-k"), 2, "1 to 65535"),
        (("computetarget", "attach", "remote", "-n", "vm", "-a", "h", "-u", "u"), 2, "there is no terminal to ask"),
        (
            ("computetarget", "attach", "remotedocker", "-n", "vm", "-a", "h:2222", "-u", "u"),
            2,
            "Add --private-key-file FILE or -k; or with a password: windlass compute attach ssh vm --address h:2222 "
            "--username u --docker --password-file FILE (or --password-stdin)\n",
        ),
        (("computetarget", "attach", "remote", "-n", "vm", "-a", "h", "-u", "u", "-w"), 2, "requires an argument"),
        (("computetarget", "detach", "-n", "nowhere"), 3, "no target nowhere"),
        (("experiment", "submit", "train.py"), 125, "--run-configuration"),
        (("experiment", "submit", "-c", "local", "-p", "nowhere", "train.py"), 125, "no project nowhere"),
    ],
)
def test_mistakes(shell: Shell, project: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = shell(*words, cwd=project)
    assert done.code == code
    assert said in done.err and "Traceback" not in done.err


def test_everything_answers_in_json(shell: Shell, machine: Host, project: Path) -> None:
    done = attach(shell, machine, project, "--password", machine.password, "--json")
    assert json.loads(done.out)["files"] == ["aml_config/remotevm.compute", "aml_config/remotevm.runconfig"]
    assert {"name": "remotevm", "type": "remote"} in shell("computetarget", "list", "-o", "json").json
    assert shell("computetarget", "show", "-n", "remotevm", "--json").json["type"] == "remote"
    assert shell("computetarget", "detach", "-n", "remotevm", "--json", cwd=project).json["left"] == []
