"""Saved run configurations: by name, with who changed them last."""

from __future__ import annotations

import pytest

from windlass.core.entities import EnvironmentSpec, Resources, RunSpec
from windlass.core.errors import NotFound
from windlass.store import Store

SPEC = RunSpec(
    script="train.py",
    arguments=("--alpha", "0.1"),
    target="gpu",
    environment=EnvironmentSpec(pip=("numpy",)),
    environment_variables={"A": "ä"},
    resources=Resources(gpus=1),
)


def test_it_is_saved_replaced_and_removed(store: Store) -> None:
    saved = store.run_configurations.put("default", "big", SPEC, "jane")
    assert saved == store.run_configurations.get("default", "big")
    assert (saved.content, saved.changed_by) == (SPEC, "jane")
    store.run_configurations.put("default", "any", RunSpec(command=("true",)), "jane")
    changed = store.run_configurations.put("default", "big", RunSpec(script="other.py"), "tom")
    assert (changed.content.script, changed.changed_by) == ("other.py", "tom")
    assert changed.changed_at >= saved.changed_at
    assert [each.name for each in store.run_configurations.list("default")] == ["any", "big"]
    store.run_configurations.remove("default", "big", "tom")
    assert [each.name for each in store.run_configurations.list("default")] == ["any"]
    acts = [(entry.act, entry.object, entry.principal) for entry in reversed(store.audit.list("default"))]
    assert acts == [
        ("run_configuration.put", "big", "jane"),
        ("run_configuration.put", "any", "jane"),
        ("run_configuration.put", "big", "tom"),
        ("run_configuration.remove", "big", "tom"),
    ]


def test_each_workspace_has_its_own(store: Store) -> None:
    store.workspaces.create("second")
    store.run_configurations.put("default", "big", SPEC, "jane")
    assert store.run_configurations.list("second") == []
    with pytest.raises(NotFound, match="no run configuration big"):
        store.run_configurations.get("second", "big")
    with pytest.raises(NotFound):
        store.run_configurations.remove("second", "big", "jane")
    with pytest.raises(NotFound, match="no workspace"):
        store.run_configurations.put("third", "big", SPEC, "jane")
