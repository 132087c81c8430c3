"""The server about itself: health, status, settings, what may go, workspaces, experiments, targets."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.server.serving import API, HOME, Server, serving
from windlass.core.digests import environment_digest
from windlass.core.entities import EnvironmentSpec
from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import CachedEnvironment, EnvironmentCache
from windlass.server.execution.machine_gc import MachineGc
from windlass.store import Item


def test_health_is_open_and_says_little(shared: Server) -> None:
    answer = shared.call("GET", f"{API}/health", token=None)
    assert answer.status == 200 and set(answer.json) == {"status", "version", "api"} and answer.json["api"] == 1


def test_status_counts_runs_and_shows_no_password(server: Server) -> None:
    server.submit()
    status = server.call("GET", f"{API}/status").json
    assert status["pid"] == os.getpid() and status["active_runs"] == 1 and status["queued_runs"] == 0
    assert status["database"] in ("sqlite", "postgresql")


def test_shutdown_stops_the_server_and_leaves_the_runs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    with serving(url, tmp_path) as server:
        run = server.submit()["id"]
        assert server.call("POST", f"{API}/shutdown").status == 202
        deadline = time.monotonic() + 60
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                server.call("GET", f"{API}/health")
    with serving(url, tmp_path) as server:
        assert server.call("GET", f"{HOME}/runs/{run}").json["state"] == "Starting"


def test_settings_are_changed_and_go_back(server: Server) -> None:
    path = f"{API}/settings"
    before = server.call("GET", path).json
    changed = server.call("PATCH", path, {"keep_logs_days": 3, "log_cap_bytes": 1 << 20}).json
    assert changed == {**before, "keep_logs_days": 3, "log_cap_bytes": 1 << 20}
    assert server.call("GET", path).json == changed
    assert server.call("PATCH", path, {"keep_logs_days": None, "log_cap_bytes": None}).json == before


@pytest.mark.parametrize("body", [{}, {"port": 1}, {"home": "/x"}, {"keep_logs_days": -1}, {"log_cap_bytes": "1"}])
def test_settings_that_cannot_be_changed_are_refused(shared: Server, body: dict[str, Any]) -> None:
    assert shared.call("PATCH", f"{API}/settings", body).status == 400


def test_workspaces_are_made_with_this_machine_as_their_targets(server: Server) -> None:
    body = {"name": "team-a", "subscription_id": "s", "resource_group": "g", "location": "here", "tags": {"a": "b"}}
    made = server.call("POST", f"{API}/workspaces", body)
    assert made.status == 201 and made.json["tags"] == {"a": "b"}
    assert server.call("POST", f"{API}/workspaces", body).status == 409
    assert server.call("POST", f"{API}/workspaces", {**body, "exist_ok": True}).status == 201
    names = [workspace["name"] for workspace in server.call("GET", f"{API}/workspaces").json["workspaces"]]
    assert sorted(names) == ["default", "team-a"]
    targets = server.call("GET", f"{API}/workspaces/team-a/targets").json["targets"]
    assert {(target["name"], target["kind"]) for target in targets} == {("local", "local"), ("docker", "docker")}


def test_experiments_live_and_die_when_empty(server: Server) -> None:
    path = f"{HOME}/experiments"
    made = server.call("POST", path, {"name": "trial"}).json
    assert server.call("POST", path, {"name": "trial"}).json["id"] == made["id"]
    changed = server.call("PATCH", f"{path}/trial", {"tags": {"k": "v"}, "archived": True}).json
    assert changed["tags"] == {"k": "v"} and changed["archived_at"]
    assert server.call("PATCH", f"{path}/trial", {"archived": False}).json["archived_at"] is None
    assert server.call("DELETE", f"{path}/trial").status == 204
    assert server.call("GET", f"{path}/trial").status == 404
    server.submit()
    assert server.call("DELETE", f"{path}/demo").status == 409


def test_targets_are_checked(server: Server) -> None:
    health = server.call("POST", f"{HOME}/targets/local/check").json
    assert health == {"ok": True, "message": "fine", "inventory": {"cores": 2}}
    assert server.call("POST", f"{HOME}/targets/nowhere/check").status == 404
    assert server.call("PATCH", f"{HOME}/targets/local", {"slots": 0}).status == 400


def test_kinds_are_listed_with_what_their_targets_need(server: Server) -> None:
    kinds = {kind.pop("kind"): kind for kind in server.call("GET", f"{HOME}/kinds").json["kinds"]}
    assert set(kinds) == {"cluster", "docker", "local", "ssh"}, "kinds for tests are not listed"
    local, ssh = kinds["local"], kinds["ssh"]
    assert (local["is_attachable"], local["is_managed"], local["has_nodes"]) == (False, False, False)
    assert local["credentials_schema"]["properties"] == {} and not local["has_workspace_credential"]
    assert ssh["is_attachable"] and ssh["has_workspace_credential"]
    assert ssh["description"].startswith("A Linux machine that is reached by SSH")
    assert ssh["config_schema"]["properties"]["address"]["cli"]["options"] == ["-a", "--address"]
    assert set(ssh["credentials_schema"]["properties"]) == {"password", "private_key", "passphrase"}
    assert [kinds[name]["is_scalable"] for name in ("cluster", "ssh")] == [True, False]
    for kind in kinds.values():
        assert {"python", "docker", "base_image"} <= set(kind["mutable_settings"])
        assert set(kind["mutable_settings"]) <= set(kind["config_schema"]["properties"])


def test_kinds_say_which_python_code_makes_a_target(server: Server) -> None:
    kinds = {kind["kind"]: kind for kind in server.call("GET", f"{HOME}/kinds").json["kinds"]}
    for kind in kinds.values():
        fields = {*kind["config_schema"]["properties"], *kind["credentials_schema"]["properties"], "pin"}
        python = kind["config_schema"].get("python", {"arguments": {}, "always": []})
        assert {*python["arguments"], *python["always"]} <= fields
    assert kinds["cluster"]["config_schema"]["python"]["class"] == "AmlCompute"
    assert kinds["ssh"]["config_schema"]["python"]["arguments"]["port"] == "ssh_port"


def test_each_invalid_setting_is_named(server: Server) -> None:
    config = {"max_nodes": -1, "vm_size": "Standard_X1", "min_nodes": 0}
    refused = server.call("POST", f"{HOME}/targets", {"name": "grid", "kind": "cluster", "config": config})
    invalid = refused.json["error"]["details"]["invalid"]
    assert refused.status == 400 and set(invalid) == {"config.max_nodes", "config.vm_size"}
    assert invalid["config.vm_size"].startswith("There is no VM size 'Standard_X1'.")


def environment(home: Path, spec: EnvironmentSpec, days: float) -> Path:
    """A built environment as the runner leaves it, last used so many days ago."""
    folder = home / "machine" / "environments" / environment_digest(spec)
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    whole = folder.with_suffix(".json")
    whole.write_text('{"bytes": 1000}')
    past = time.time() - days * 86400
    for path in (folder / "pyvenv.cfg", whole):
        os.utime(path, (past, past))
    return folder


def test_old_environments_go_unless_a_run_needs_them(server: Server) -> None:
    home = server.context.settings.home
    needed, idle, fresh = (EnvironmentSpec(pip=(name,)) for name in ("numpy", "torch", "polars"))
    folders = [environment(home, spec, days) for spec, days in ((needed, 90), (idle, 90), (fresh, 1))]
    server.submit(spec={"script": "train.py", "environment": {"pip": ["numpy"]}})
    shown = server.call("POST", f"{API}/gc", {}).json
    assert [item["id"] for item in shown["items"] if item["kind"] == "environment"] == [folders[1].name]
    assert shown["applied"] is False and shown["bytes"] > 0 and all(folder.exists() for folder in folders)
    applied = server.call("POST", f"{API}/gc", {"apply": True}).json
    assert applied["applied"] is True
    assert [folder.exists() for folder in folders] == [True, False, True]
    assert not folders[1].with_suffix(".json").exists()


def test_what_was_never_built_to_the_end_goes_unless_somebody_builds_it(server: Server) -> None:
    home = server.context.settings.home
    half, young, going_on = (environment(home, EnvironmentSpec(pip=(name,)), 90) for name in ("a", "b", "c"))
    failed = half.with_name("f" * 64 + ".failed")
    gone = half.with_name("e" * 64 + ".lock")
    past = time.time() - 90 * 86400
    for path in (failed, gone, *(folder.with_suffix(".log") for folder in (half, young, going_on))):
        path.touch()
    for folder in (half, young, going_on):
        folder.with_suffix(".json").unlink()
    for path in half.parent.iterdir():
        os.utime(path, (past, past))
    os.utime(young.with_suffix(".log"))
    with open(going_on.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        applied = server.call("POST", f"{API}/gc", {"apply": True}).json
    assert sorted(item["id"] for item in applied["items"]) == sorted([half.name, failed.stem])
    assert applied["bytes"] > 0
    left = sorted(path.name for path in half.parent.iterdir() if path.suffix != ".lock")
    assert left == sorted(name for each in (young, going_on) for name in (each.name, f"{each.name}.log"))


@dataclass
class FarMachine(EnvironmentCache):
    """A machine elsewhere that keeps environments. `is_away`: nobody answers; or not before `answers` is set."""

    has: dict[str, float]  # idle days by digest
    is_away: bool = False
    answers: threading.Event | None = None

    def environments(self) -> list[CachedEnvironment]:
        if self.is_away:
            raise TargetUnreachable("nobody answers")
        if self.answers is not None:
            self.answers.wait(20)
        return [CachedEnvironment(digest, 1000, timedelta(days=days)) for digest, days in self.has.items()]

    def evict(self, digest: str, idle: timedelta) -> bool:
        if self.has[digest] * 86400 < idle.total_seconds():
            return False
        del self.has[digest]
        return True


def test_old_environments_of_other_machines_go_too(server: Server) -> None:
    needed, idle, fresh = (environment_digest(EnvironmentSpec(pip=(name,))) for name in ("numpy", "torch", "polars"))
    box, away = FarMachine({needed: 90, idle: 90, fresh: 1}), FarMachine({idle: 90}, is_away=True)
    server.reconciler.keeping.update(box=box, away=away)
    server.submit(spec={"script": "train.py", "environment": {"pip": ["numpy"]}})
    shown = server.call("POST", f"{API}/gc", {}).json
    [item] = [item for item in shown["items"] if item["kind"] == "environment"]
    assert (item["id"], item["bytes"], item["why"]) == (f"default/box/{idle}", 1000, "not used for 90 days")
    assert len(box.has) == 3 and shown["unanswered"] == ["default/away"]
    server.call("POST", f"{API}/gc", {"apply": True})
    assert set(box.has) == {needed, fresh}


def test_nobody_waits_for_a_machine_that_hangs(server: Server, tmp_path: Path) -> None:
    box, hung = FarMachine({"a" * 64: 90}), FarMachine({"a" * 64: 90}, answers=threading.Event())
    keepers: list[tuple[str, str, EnvironmentCache]] = [("default", "box", box), ("default", "hung", hung)]
    machine_gc = MachineGc(server.store, tmp_path / "machine", FarMachine({}), keepers, ask_seconds=2)
    tuned = server.context.settings.tuned(server.store)
    assert [item.id for item in machine_gc.candidates(tuned)] == [f"default/box/{'a' * 64}"]
    assert machine_gc.unanswered == {"default/hung"}
    assert hung.answers is not None
    hung.answers.set()


def test_what_there_was_no_time_for_is_said(server: Server, tmp_path: Path) -> None:
    box = FarMachine({"a" * 64: 90})
    machine_gc = MachineGc(server.store, tmp_path / "machine", FarMachine({}), [("default", "box", box)], ask_seconds=0)
    items = [Item("environment", f"default/box/{'a' * 64}", 1000, "")]
    assert machine_gc.apply(items, server.context.settings.tuned(server.store)) == 0
    assert machine_gc.unanswered == {"default/box"} and box.has


def test_what_a_run_asks_for_while_others_are_removed_stays(server: Server) -> None:
    spec, home = EnvironmentSpec(pip=("torch",)), server.context.settings.home
    here, box = environment(home, spec, 90), FarMachine({environment_digest(spec): 90})
    own = server.reconciler.own_environment_cache()
    machine_gc = MachineGc(server.store, home / "machine", own, [("default", "box", box)])
    tuned = server.context.settings.tuned(server.store)
    items = machine_gc.candidates(tuned)
    assert len(items) == 2
    server.submit(spec={"script": "train.py", "environment": {"pip": ["torch"]}})
    assert machine_gc.apply(items, tuned) == 0
    assert here.with_suffix(".json").exists() and box.has


def test_what_runs_need_is_read_once_and_not_for_every_environment(server: Server) -> None:
    home = server.context.settings.home
    folders = [environment(home, EnvironmentSpec(pip=(f"idle{number}",)), 90) for number in range(20)]
    for number in range(20):
        server.submit(spec={"script": "train.py", "environment": {"pip": [f"used{number}"]}})
    asked: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "run_specs" in statement:
            asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        server.call("POST", f"{API}/gc", {"apply": True})
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert not any(folder.exists() for folder in folders) and len(asked) < 5


def test_folders_of_ended_runs_go_and_those_of_live_ones_stay(server: Server) -> None:
    runs = server.context.settings.home / "machine" / "runs"
    live = server.submit()["id"]
    folders = [runs / f"{live}.1", runs / "gone_1_ab.1"]
    for folder in folders:
        (folder / "claim").mkdir(parents=True)
        (folder / "claim" / "lock").touch()
        past = time.time() - 30 * 86400
        os.utime(folder, (past, past))
    server.call("POST", f"{API}/gc", {"apply": True})
    assert [folder.exists() for folder in folders] == [True, False]


def test_a_kept_run_keeps_what_it_needs(server: Server) -> None:
    run = server.submit()
    server.call("POST", f"{API}/gc", {"apply": True})
    assert server.call("GET", f"{HOME}/runs/{run['id']}/snapshot/train.py").raw == b"print(1)\n"
