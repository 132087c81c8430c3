"""The key vault of a workspace, as old code uses it: set here, read in a run."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path

import pytest

from tests.sdk.conftest import Project
from windlass import Experiment, RunConfiguration, ScriptRunConfig, UserErrorException, Workspace
from windlass.client.http import embedded_server
from windlass.client.workspace.keyvault import Keyvault
from windlass.core.errors import Denied, InvalidRequest, NotFound

CANARY = "the-canary-sings"


@pytest.fixture
def own(ws: Workspace) -> Workspace:
    """A workspace whose secrets no other test sees."""
    return Workspace.create(f"vault-{os.urandom(4).hex()}")


@pytest.fixture
def keyvault(own: Workspace) -> Keyvault:
    return own.get_default_keyvault()


def run_of(workspace: Workspace, folder: str, *secrets: str) -> ScriptRunConfig:
    config = RunConfiguration()
    config.environment.python.user_managed_dependencies = True
    config.environment.python.interpreter_path = sys.executable
    config.secrets = list(secrets)
    return ScriptRunConfig(folder, "train.py", run_config=config)


def test_set_read_listed_and_deleted(keyvault: Keyvault) -> None:
    keyvault.set_secret(name="db-password", value=CANARY)
    keyvault.set_secrets({"a": "first", "b": "é\n second"})
    assert keyvault.get_secret(name="db-password") == CANARY
    assert keyvault.get_secrets(secrets=["a", "b", "nothing"]) == {"a": "first", "b": "é\n second", "nothing": None}
    assert keyvault.list_secrets() == [{"name": "a"}, {"name": "b"}, {"name": "db-password"}]
    keyvault.set_secret("a", "changed")
    assert keyvault.get_secret("a") == "changed"
    keyvault.delete_secret(name="a")
    keyvault.delete_secrets(["b", "db-password"])
    assert keyvault.list_secrets() == []
    assert CANARY not in repr(keyvault)


class ContentType(str, Enum):  # noqa: UP042
    """As Azure's own."""

    not_provided = "application/NotProvided"
    password = "application/vnd.ms-password"


def test_a_secret_has_a_content_type(keyvault: Keyvault) -> None:
    keyvault.set_secret("config", '{"a": 1}', content_type="application/json")
    keyvault.set_secret("typed", CANARY, ContentType.password)
    for name, content_type in (("plain", None), ("unknown", ContentType.not_provided)):
        keyvault.set_secret(name, CANARY, content_type)
    names = ["config", "plain", "typed", "unknown"]
    assert [keyvault.get_secret_content_type(name) for name in names] == [
        "application/json",
        "application/NotProvided",
        "application/vnd.ms-password",
        "application/NotProvided",
    ]
    assert keyvault.list_secrets() == [{"name": name} for name in names]
    keyvault.set_secret("config", "other")
    assert keyvault.get_secret_content_type("config") == "application/NotProvided", "it belongs to a version"
    keyvault.delete_secrets(names)


def test_what_is_not_there(keyvault: Keyvault) -> None:
    for act in (keyvault.get_secret, keyvault.delete_secret, keyvault.get_secret_content_type):
        with pytest.raises(NotFound, match="no secret nothing"):
            act("nothing")


def test_what_cannot_be_a_secret(keyvault: Keyvault) -> None:
    for name in ("a/b", "", "target/gpu/password", "x" * 128):
        with pytest.raises(InvalidRequest, match="secret's name"):
            keyvault.set_secret(name, CANARY)
        with pytest.raises(InvalidRequest):
            keyvault.get_secret(name)
    for value in (5, None, b"bytes"):
        with pytest.raises(UserErrorException, match="is text"):
            keyvault.set_secret("a", value)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="is empty"):
        keyvault.set_secret("a", "")
    for content_type in ("", "two\nlines", "x" * 256):
        with pytest.raises(InvalidRequest, match="content_type"):
            keyvault.set_secret("a", CANARY, content_type)
    assert keyvault.list_secrets() == []


def test_short_values_come_with_a_warning(keyvault: Keyvault, capsys: pytest.CaptureFixture[str]) -> None:
    keyvault.set_secret("pin", "123")
    assert "too short to be masked" in capsys.readouterr().err
    keyvault.set_secret("long", "1234")
    assert capsys.readouterr().err == ""


SCRIPT = """
import os, subprocess, sys
from windlass import Run
run = Run.get_context()
os.makedirs("outputs", exist_ok=True)
with open("outputs/found", "w") as file:
    file.write(repr(sorted(run.get_secrets(["all", "some", "none"]).items())))
print("all:", run.get_secret("all"))
print("vault:", run.experiment.workspace.get_default_keyvault().get_secret("all"))
"""


def test_a_run_reads_what_it_was_granted(own: Workspace, keyvault: Keyvault, project: Project) -> None:
    keyvault.set_secret("all", CANARY)
    path = f"{own._path}/secrets"
    own._session.call("PUT", f"{path}/some", {"value": "only for some", "granted_to": "named runs"})
    own._session.call("PUT", f"{path}/none", {"value": "for none", "granted_to": "nobody"})
    experiment, folder = Experiment(own, "vault"), project(train=SCRIPT)
    for secrets, some in (((), None), (("some",), "only for some")):
        run = experiment.submit(run_of(own, folder, *secrets))
        run.wait_for_completion()
        expected = [("all", CANARY), ("none", None), ("some", some)]
        assert run._read_file("outputs/found").decode() == repr(sorted(expected))
        stars = "*" * len(CANARY)
        assert run._read_file("user_logs/std_log.txt").decode() == f"all: {stars}\nvault: {stars}\n"
        assert run.get_details()["runDefinition"].get("secrets", []) == list(secrets)


def test_what_a_run_cannot_have_is_refused_when_it_is_submitted(own: Workspace, project: Project) -> None:
    own._session.call("PUT", f"{own._path}/secrets/none", {"value": "for none", "granted_to": "nobody"})
    experiment, folder = Experiment(own, "vault"), project(train="print(1)")
    with pytest.raises(NotFound, match="no secret nothing"):
        experiment.submit(run_of(own, folder, "nothing"))
    with pytest.raises(Denied, match="granted to nobody"):
        experiment.submit(run_of(own, folder, "none"))
    config = run_of(own, folder)
    config.run_config.secrets = "none"  # type: ignore[assignment]
    with pytest.raises(UserErrorException, match="lists the names"):
        experiment.submit(config)
    assert list(experiment.get_runs()) == []


def test_outside_of_a_script_a_run_reads_as_its_owner(own: Workspace, keyvault: Keyvault) -> None:
    keyvault.set_secret("all", CANARY)
    with Experiment(own, "vault").start_logging(snapshot_directory=None) as run:
        assert run.get_secret("all") == CANARY
        assert run.get_secrets(["all", "nothing"]) == {"all": CANARY, "nothing": None}


def test_a_server_elsewhere_hands_out_nothing(
    own: Workspace, keyvault: Keyvault, shared_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyvault.set_secret("all", CANARY)
    address = embedded_server.session().address
    monkeypatch.setenv("WINDLASS_URL", address.url)
    monkeypatch.setenv("WINDLASS_TOKEN", address.token)
    elsewhere = Workspace("", "", own.name).get_default_keyvault()
    assert elsewhere.list_secrets() == [{"name": "all"}]
    with pytest.raises(UserErrorException, match="hands out no value") as refused:
        elsewhere.get_secret("all")
    assert "get_secret" in refused.value.hint
    acts = own._session.call("GET", f"{own._path}/audit")["entries"]
    assert [entry["act"] for entry in acts] == ["secret.set"]


def test_who_may_not_read_the_key_file_opens_nothing(lone_home: Path) -> None:
    keyvault = Workspace.from_config().get_default_keyvault()
    keyvault.set_secret("all", CANARY)
    (lone_home / "keys" / "secrets.key").rename(lone_home / "away")
    with pytest.raises(UserErrorException, match="could not be opened here") as refused:
        keyvault.get_secret("all")
    assert "Traceback" not in str(refused.value)
    (lone_home / "away").rename(lone_home / "keys" / "secrets.key")
    assert keyvault.get_secret("all") == CANARY
