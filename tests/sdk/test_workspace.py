"""Workspaces, experiments and targets of the SDK."""

from __future__ import annotations

import json
import os
import pickle
import urllib.request
from pathlib import Path

import pytest

import windlass
from windlass import ComputeTarget, ComputeTargetException, Experiment, UserErrorException, Workspace
from windlass.client.exceptions import NotProvided
from windlass.core.errors import AlreadyExists, NotFound


def test_without_a_file_it_is_the_default_one(ws: Workspace) -> None:
    assert (ws.name, ws.location, ws.sku) == ("default", "local", "Basic")
    assert ws.get_details()["name"] == "default"
    assert ws == Workspace.from_config()
    assert repr(ws).startswith("Workspace.create(name='default'")


def test_a_workspace_that_a_project_names_is_made(ws: Workspace) -> None:
    name = f"ml-{os.urandom(4).hex()}"
    Path(".azureml").mkdir()
    Path(".azureml/config.json").write_text(
        json.dumps({"subscription_id": "sub-1", "resource_group": "group-1", "workspace_name": name})
    )
    found = Workspace.from_config()
    assert (found.name, found.subscription_id, found.resource_group) == (name, "sub-1", "group-1")
    assert set(found.compute_targets) == {"local", "docker"}
    Path("deep/er").mkdir(parents=True)
    os.chdir("deep/er")
    assert Workspace.from_config() == found


def test_written_and_found(ws: Workspace, tmp_path: Path) -> None:
    made = Workspace.create(f"w-{os.urandom(4).hex()}", subscription_id="s", resource_group="g", location="here")
    made.write_config(str(tmp_path))
    assert (tmp_path / ".azureml" / "config.json").is_file()
    assert Workspace.from_config(str(tmp_path)) == made
    made.write_config(str(tmp_path), "other")
    assert Workspace.from_config(str(tmp_path / ".azureml" / "other.json")).location == "here"
    with pytest.raises(AlreadyExists):
        Workspace.create(made.name)
    assert Workspace.create(made.name, exist_ok=True) == made
    assert Workspace.get(made.name) == made
    assert made.name in Workspace.list("s")
    assert made.name not in Workspace.list("other")


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_broken_config_is_answered_in_two_lines(ws: Workspace, text: str) -> None:
    Path(".azureml").mkdir()
    Path(".azureml/config.json").write_text(text)
    with pytest.raises(UserErrorException) as caught:
        Workspace.from_config()
    assert len(caught.value.text.splitlines()) == 2


def test_a_path_without_a_config(ws: Workspace, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="The workspace configuration file config.json, could not be found in"):
        Workspace.from_config(str(tmp_path))


def test_names_that_cannot_be(ws: Workspace) -> None:
    with pytest.raises(UserErrorException, match="A workspace's name"):
        Workspace.get("../x")
    for name in ("", "-x", "a b", "x" * 300, "a/b"):
        with pytest.raises(UserErrorException, match="Experiment name must be between 1 and 255 characters long"):
            Experiment(ws, name)


def test_what_is_not_provided_says_so(ws: Workspace) -> None:
    attempts = [
        lambda: ws.datastores,
        lambda: ws.datasets,
        lambda: ws.webservices,
        lambda: ws.service_context,
        ws.get_default_datastore,
        ws.get_mlflow_tracking_uri,
        ws.delete,
        lambda: Experiment(ws, "tagged").remove_tags(["k"]),
    ]
    for attempt in attempts:
        with pytest.raises(NotProvided) as caught:
            attempt()  # type: ignore[no-untyped-call]
        assert caught.value.hint


def test_setup_is_an_older_word_for_from_config(ws: Workspace) -> None:
    assert Workspace.setup() == Workspace.from_config()


def test_targets(ws: Workspace) -> None:
    target = ComputeTarget(ws, "local")
    assert (target.name, target.type, target.provisioning_state) == ("local", "local", "Succeeded")
    assert ws.compute_targets["local"].name == "local"
    assert "name=local, " in repr(target)
    assert target.serialize()["name"] == "local"
    target.refresh_state()
    for name in ("cpu-cluster", "../x", "a\r\nb", "\u00e9"):
        with pytest.raises(ComputeTargetException) as caught:
            ComputeTarget(ws, name)
        assert caught.value.message == (
            f"ComputeTargetNotFound: Compute Target with name {name} not found in provided workspace"
        )


def test_experiments(ws: Workspace) -> None:
    name = f"exp-{os.urandom(4).hex()}"
    made = Experiment(ws, name)
    assert (made.name, made.workspace, made.archived_time) == (name, ws, None)
    assert ws.experiments[name] == made
    assert Experiment(ws, name).id == made.id
    assert repr(made) == f"Experiment(Name: {name},\nWorkspace: default)"
    assert f"<td>{name}</td>" in made._repr_html_()
    made.tag("k", "v")
    made.set_tags({"l": "m"})
    assert Experiment(ws, name).tags == {"k": "v", "l": "m"}
    assert [e.name for e in Experiment.list(ws, name, tags={"k": "v"})] == [name]
    assert Experiment.list(ws, name, tags={"k": "other"}) == []
    made.tag("k", "changed")
    assert made.tags == {"k": "changed", "l": "m"}
    assert list(made.get_runs()) == []


def test_archived_and_deleted(ws: Workspace) -> None:
    name = f"exp-{os.urandom(4).hex()}"
    made = Experiment(ws, name)
    made.archive()
    assert made.archived_time is not None
    assert name not in ws.experiments
    assert [e.name for e in Experiment.list(ws, name, view_type="ArchivedOnly")] == [name]
    made.reactivate()
    assert name in ws.experiments
    with pytest.raises(NotProvided):
        made.reactivate("other")
    Experiment.delete(ws, made.id)
    assert name not in ws.experiments
    with pytest.raises(NotFound):
        Experiment.delete(ws, made.id)


def test_it_keeps_to_its_server(ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of WINDLASS_HOME concerns only workspaces that are created afterwards."""
    experiment = Experiment(ws, "keeps")
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "another"))
    run = experiment.start_logging(snapshot_directory=None)
    run.log("loss", 1.0)
    run.complete()
    assert run.get_metrics() == {"loss": 1.0}
    assert not (tmp_path / "another").exists()


def test_it_travels_to_other_processes(ws: Workspace) -> None:
    assert pickle.loads(pickle.dumps(ws)).get_details() == ws.get_details()  # noqa: S301 - our own bytes


def test_a_workspace_that_is_named_is_made_on_the_private_server_and_not_on_a_shared_one(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [Workspace("s", "g", "named-one"), Workspace.get("named-two", subscription_id="s", resource_group="g")]
    assert [each.name for each in made] == ["named-one", "named-two"]
    address = ws._session.address
    monkeypatch.setenv("WINDLASS_URL", address.url)
    monkeypatch.setenv("WINDLASS_TOKEN", address.token)
    assert Workspace.get("named-two").resource_group == "g"
    for name in ("WorkspaceException", "ProjectSystemException"):
        with pytest.raises(getattr(windlass, name), match="named-three"):
            Workspace.get("named-three")


def test_what_a_notebook_shows_links_to_pages_of_the_studio(exp: Experiment) -> None:
    workspace = exp.workspace
    for shown in (workspace, exp, ComputeTarget(workspace, "local")):
        url = shown.get_portal_url()
        assert f'<a href="{url}" target="_blank" rel="noopener">' in shown._repr_html_()
        with urllib.request.urlopen(url) as answer:
            assert answer.headers["content-type"].startswith("text/html")
