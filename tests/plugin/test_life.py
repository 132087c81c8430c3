"""Kinds of another package live their whole life by the command line, the SDK and HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from windlass.testing import wait_until

SCRIPT = "import sys; print('in', sys.argv[1])\n"


class FarmShell(Shell):
    """The command where the package of this folder is installed; its server has it too."""

    def __init__(self, home: Path, farm: Path) -> None:
        super().__init__(home)
        self._farm = farm

    def environment(self, **changes: str | None) -> dict[str, str]:
        return super().environment(**{"PYTHONPATH": str(self._farm), **changes})

    def python(self, code: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=self.environment(), cwd=self.home.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def http(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        assert self("compute", "list").code == 0  # which starts a server, if none runs
        status = self.status()
        token = self("server", "token").out.strip()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"{status['url']}/api/v1/workspaces/default{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)


@pytest.fixture
def shell(farm: Path, tmp_path: Path) -> Iterator[FarmShell]:
    found = FarmShell(tmp_path / "home", farm)
    yield found
    found("server", "stop")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.fixture
def shed(tmp_path: Path) -> Path:
    folder = tmp_path / "shed"
    folder.mkdir()
    (folder / "seal").write_text("red\n")
    (folder / "token").write_text("sesame\n")
    return folder


def test_a_shed_by_the_command_line(shell: FarmShell, shed: Path, project: Path, tmp_path: Path) -> None:
    shown = shell("compute", "attach", "shed", "--help").out
    assert "-f, --folder" in shown and "--token-file" in shown and "What opens it." in shown
    attach = ("compute", "attach", "shed", "yard", "--folder", str(shed))
    refused = shell(*attach, "--pin", "SEAL:blue", "--token-file", str(shed / "token"))
    assert refused.code == 6 and "SEAL:red" in refused.err
    missing = shell(*attach, "--pin", "SEAL:red", "--token-file", str(shed / "seal"))
    assert missing.code == 7 and "does not open with this token" in missing.err
    attached = shell(*attach, "--pin", "SEAL:red", "--token-file", str(shed / "token"))
    assert attached.code == 0, attached.err
    assert f"shed {shed}" in shell("compute", "list").out
    assert shell("submit", "-q", "-c", "yard", "train.py", "yard", cwd=project).out == "in yard\n"
    assert shell("compute", "update", "yard", "--lamps", "3").code == 0
    assert shell("compute", "show", "yard", "--json").json["config"]["lamps"] == 3
    (shed / "seal").write_text("blue\n")
    assert shell("compute", "check", "yard").code != 0
    (shed / "seal").write_text("red\n")
    assert shell("compute", "detach", "yard").code == 0
    assert "yard" not in shell("compute", "list").out and (shed / "token").exists()


def test_a_shed_by_the_sdk(shell: FarmShell, shed: Path, project: Path) -> None:
    printed = shell.python(f"""
from windlass import ComputeTarget, Experiment, KindAttachConfiguration, ScriptRunConfig, Workspace
ws = Workspace.from_config()
config = KindAttachConfiguration("shed", {{"folder": {str(shed)!r}}}, {{"token": "sesame"}})
target = ComputeTarget.attach(ws, "yard", config)
target.wait_for_completion()
target.update_settings(lamps=2)
source = ScriptRunConfig({str(project)!r}, script="train.py", arguments=["yard"], compute_target=target)
run = Experiment(ws, "farm").submit(source)
run.wait_for_completion(show_output=True)
print(run.get_status(), ComputeTarget(ws, "yard").probe()["identity"]["shown_as"])
target.detach()
print([name for name in ws.compute_targets])
""")
    assert "in yard\n" in printed and "Completed SEAL:red\n" in printed and "yard']" not in printed


def test_a_shed_by_http(shell: FarmShell, shed: Path) -> None:
    body = {"name": "yard", "kind": "shed", "config": {"folder": str(shed)}, "credentials": {"token": "sesame"}}
    assert shell.http("POST", "/probe", {"kind": "shed", "config": body["config"]})[1]["identity"]["pin"] == "red"
    status, made = shell.http("POST", "/targets", body)
    assert (status, made["pin"], made["pin_shown_as"]) == (201, "red", "SEAL:red")
    assert shell.http("POST", "/targets/yard/check")[1]["ok"]
    (shed / "seal").write_text("blue\n")
    assert shell.http("POST", "/targets/yard/check")[0] >= 400
    assert "seal" in str(shell.http("GET", "/targets/yard")[1]["quarantine"])
    assert shell.http("POST", "/targets/yard/trust", {"pin": "blue"})[1]["quarantine"] is None
    assert shell.http("POST", "/targets/yard/check")[1]["ok"]
    assert shell.http("PATCH", "/targets/yard", {"config": {"keeper": "jane"}})[1]["config"]["keeper"] == "jane"
    assert shell.http("PATCH", "/targets/yard", {"config": {"folder": "/"}})[0] == 400
    assert shell.http("DELETE", "/targets/yard")[0] == 200


def test_a_barn_by_the_command_line(shell: FarmShell, project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "barn"
    assert "--stalls" in shell("compute", "create", "barn", "--help").out
    made = shell("compute", "create", "barn", "big", "--folder", str(folder), "--stalls", "3")
    assert made.code == 0, made.err
    shown = shell("compute", "show", "big").out
    assert "Succeeded" in shown and "big-2" in shown and "idle" in shown
    assert shell("submit", "-q", "-c", "big", "train.py", "big", cwd=project).out == "in big\n"
    assert shell("compute", "update", "big", "--stalls", "1").code == 0
    assert [node["id"] for node in shell("compute", "show", "big", "--json").json["nodes"]] == ["big-0"]
    assert "delete" in shell("compute", "detach", "big").err
    assert shell("compute", "delete", "big").code == 0
    assert not folder.exists() and "big" not in shell("compute", "list").out


def test_a_barn_by_the_sdk(shell: FarmShell, tmp_path: Path) -> None:
    printed = shell.python(f"""
from windlass import ComputeTarget, KindProvisioningConfiguration, Workspace
config = KindProvisioningConfiguration("barn", {{"folder": {str(tmp_path / "barn")!r}}})
target = ComputeTarget.create(Workspace.from_config(), "big", config)
target.wait_for_completion(show_output=True)
print(target.provisioning_state, [node["id"] for node in target.nodes()])
target.delete()
target.wait_for_completion(is_delete_operation=True)
""")
    assert "Succeeded ['big-0', 'big-1']\n" in printed and not (tmp_path / "barn").exists()


def test_a_barn_by_http(shell: FarmShell, tmp_path: Path) -> None:
    body = {"name": "big", "kind": "barn", "config": {"folder": str(tmp_path / "barn")}}
    status, made = shell.http("POST", "/targets", body)
    assert (status, made["provisioning_state"]) == (201, "Creating")
    wait_until(lambda: shell.http("GET", "/targets/big")[1]["provisioning_state"] == "Succeeded", "it is built")
    assert [node["id"] for node in shell.http("GET", "/targets/big/nodes")[1]["nodes"]] == ["big-0", "big-1"]
    bad = {**body, "name": "lost", "config": {"folder": str(tmp_path / "nowhere" / "barn")}}
    assert shell.http("POST", "/targets", bad)[0] == 201
    wait_until(lambda: shell.http("GET", "/targets/lost")[1]["provisioning_state"] == "Failed", "it cannot be built")
    assert "There is no folder" in shell("compute", "show", "lost").out
    assert shell.http("DELETE", "/targets/big")[0] == 200
    wait_until(lambda: shell.http("GET", "/targets/big")[0] == 404, "it is deleted")
