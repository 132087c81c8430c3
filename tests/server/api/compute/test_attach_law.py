"""The law of attach: a kind with a backend of its own lives its whole life by HTTP, and needs only its driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.server.fake_kinds import POTS, FakeBackend, kinds
from tests.server.real import RealServer, real_server

__all__ = ["kinds"]

TOKEN = {"token": "s3cret canary"}


@pytest.fixture
def server(kinds: Any, tmp_path: Path) -> Any:
    with real_server(tmp_path / "home") as running:
        yield running


@pytest.fixture
def pot() -> FakeBackend:
    POTS["kitchen"] = FakeBackend()
    return POTS["kitchen"]


def body(name: str = "pot", **changes: Any) -> dict[str, Any]:
    config = {"host": "kitchen", **changes.pop("config", {})}
    return {"name": name, "kind": "teapot", "config": config, "credentials": TOKEN, **changes}


def submit(server: RealServer, target: str, status: int = 201) -> Any:
    spec = {"command": ["true"], "target": target}
    return server.ask("POST", "/runs", {"experiment": "tea", "spec": spec}, status)


def final(server: RealServer, run: str) -> Any:
    return server.until(f"/runs/{run}", lambda found: found["state"] in ("Completed", "Failed", "Canceled"))


def test_the_kind_is_listed_with_its_schemas(server: RealServer) -> None:
    [kind] = [kind for kind in server.ask("GET", "/kinds")["kinds"] if kind["kind"] == "teapot"]
    assert kind["description"].startswith("A pot that is attached by its host and a token.\n\n")
    assert (kind["is_attachable"], kind["is_managed"], kind["has_nodes"]) == (True, False, False)
    assert (kind["title"], kind["is_scalable"], kind["is_this_computer"]) == ("Teapot", False, False)
    assert kind["config_schema"]["properties"]["host"]["cli"]["options"] == ["-H", "--host"]
    assert set(kind["credentials_schema"]["properties"]) == {"token"}
    assert kind["mutable_settings"] == ["tea"] and kind["has_workspace_credential"] is False
    assert server.refused("GET", "/kinds/teapot/workspace-credential", status=422)


def test_its_whole_life(server: RealServer, pot: FakeBackend) -> None:
    probed = server.ask("POST", "/probe", {"kind": "teapot", "config": {"host": "kitchen"}})
    assert (probed["location"], probed["endpoint"]) == ("teapot://kitchen", "kitchen")
    assert probed["identity"]["shown_as"] == "<certificate-1>" and probed["identity"]["what"] == "certificate"

    attached = server.ask("POST", "/targets", body(pin="certificate-1", pin_confirmed=True), 201)
    assert (attached["location"], attached["pin_shown_as"]) == ("teapot://kitchen", "<certificate-1>")
    assert (attached["pin_confirmed"], attached["slots"], attached["is_attached"]) == (True, 4, True)
    assert attached["inventory"] == {"cores": 2, "taste": "green"}

    assert server.ask("POST", "/targets/pot/check")["message"] == "it boils"
    assert final(server, submit(server, "pot")["id"])["state"] == "Completed"
    assert server.refused("GET", "/targets/pot/nodes", status=422)

    changed = server.ask("PATCH", "/targets/pot", {"config": {"tea": "black"}})
    assert (changed["config"]["tea"], changed["inventory"]) == ("black", {"cores": 2})
    assert "tea" in server.refused("PATCH", "/targets/pot", {"config": {"host": "x"}}, 400)["message"]

    pot.certificate = "certificate-2"
    assert server.refused("POST", "/targets/pot/check")["code"] == "target_quarantined"
    assert "another certificate" in server.ask("GET", "/targets/pot")["quarantine"]
    assert server.refused("POST", "/targets", body(exist_ok=True))["hint"].endswith("windlass compute trust pot")
    seen = server.ask("POST", "/targets/pot/probe")["identity"]["pin"]
    assert server.refused("POST", "/targets/pot/trust", {"pin": "certificate-1"})
    trusted = server.ask("POST", "/targets/pot/trust", {"pin": seen, "confirmed": True})
    assert (trusted["quarantine"], trusted["pin"]) == (None, "certificate-2")
    assert server.ask("POST", "/targets/pot/check")["ok"]

    assert server.ask("DELETE", "/targets/pot") == {"name": "pot", "left": []}
    assert server.refused("GET", "/targets/pot", status=404)
    assert server.audit() == [
        "owner target.attach",
        "owner target.change",
        "server target.quarantine",
        "owner target.trust",
        "owner target.detach",
    ]


def test_the_first_identity_is_pinned_and_noted(server: RealServer, pot: FakeBackend) -> None:
    attached = server.ask("POST", "/targets", body(), 201)
    assert attached["notes"] == ["pinned the first certificate that kitchen showed: <certificate-1>"]
    assert (attached["pin"], attached["pin_confirmed"]) == ("certificate-1", False)


def test_missing_and_wrong_credentials_attach_nothing(server: RealServer, pot: FakeBackend) -> None:
    missing = server.refused("POST", "/targets", body(credentials={}), 422)
    assert (missing["code"], missing["details"]) == ("credentials_needed", {"fields": ["token"]})
    assert server.refused("POST", "/targets", body(credentials={"token": "x"}), 502)["code"] == "login_refused"
    assert "credentials.key" in server.refused("POST", "/targets", body(credentials={"key": "x"}), 400)["message"]
    assert "Nothing was sent" in server.refused("POST", "/targets", body(pin="another"))["message"]
    pot.is_away = True
    assert server.refused("POST", "/targets", body(), 503)["code"] == "target_unreachable"
    assert server.audit() == []


def test_attached_anew_with_runs_it_must_stay_what_it_is(server: RealServer, pot: FakeBackend) -> None:
    server.ask("POST", "/targets", body(), 201)
    pot.is_away = True
    run = submit(server, "pot")["id"]
    POTS["garden"] = FakeBackend()
    moved = {"host": "garden", "kitchen": "second"}
    assert server.refused("POST", "/targets", body(config=moved, exist_ok=True))["details"] == {"runs": 1}
    server.ask("POST", "/targets", body(config={"host": "garden"}, exist_ok=True), 201)
    assert final(server, run)["state"] == "Completed"


def test_a_target_that_another_one_needs_stays(server: RealServer, pot: FakeBackend) -> None:
    assert server.refused("POST", "/targets", body(config={"through": "first"}), 404)
    server.ask("POST", "/targets", body("first"), 201)
    assert server.ask("POST", "/targets", body(config={"through": "first"}), 201)["depends_on"] == ["first"]
    assert server.refused("DELETE", "/targets/first")["details"] == {"targets": ["pot"]}
    server.ask("DELETE", "/targets/pot")
    server.ask("DELETE", "/targets/first")


def test_a_kind_without_identity_and_credentials_is_attached_too(server: RealServer) -> None:
    cup = {"name": "mug", "kind": "cup", "config": {}}
    assert server.ask("POST", "/probe", {"kind": "cup", "config": {}})["identity"] is None
    attached = server.ask("POST", "/targets", cup, 201)
    assert (attached["pin"], attached["pin_shown_as"], attached["notes"]) == (None, None, [])
    assert final(server, submit(server, "mug")["id"])["state"] == "Completed"
    assert server.refused("POST", "/targets/mug/trust", {"pin": "x"}, 422)
    assert server.refused("POST", "/targets", {**cup, "credentials": {"token": "x"}}, 400)
    assert server.ask("DELETE", "/targets/mug")["left"] == []


def test_it_is_there_after_a_restart_also_without_its_driver(
    kinds: Any, pot: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_server(tmp_path / "home") as server:
        server.ask("POST", "/targets", body(), 201)
    with real_server(tmp_path / "home") as server:
        assert server.ask("POST", "/targets/pot/check")["ok"]
    del kinds["teapot"]
    with real_server(tmp_path / "home") as server:
        listed = {target["name"]: target for target in server.ask("GET", "/targets")["targets"]}
        assert (listed["pot"]["location"], listed["pot"]["pin_shown_as"]) == ("", "certificate-1")
        assert server.ask("DELETE", "/targets/pot") == {"name": "pot", "left": []}


def test_a_kind_whose_package_is_not_installed_is_in_nobodys_way(kinds: Any, server: RealServer) -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'samovar'", name="samovar")

    kinds["samovar"] = SimpleNamespace(load=fail)
    assert "samovar" not in [kind["kind"] for kind in server.ask("GET", "/kinds")["kinds"]]
    refused = server.refused("POST", "/targets", {"name": "pot", "kind": "samovar", "config": {}}, 422)
    assert "pip install 'windlass[samovar]'" in refused["hint"]
