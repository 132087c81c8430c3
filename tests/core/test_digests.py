"""The same files are the same snapshot, the same packages the same environment."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.values import instances
from windlass.core.digests import environment_digest, snapshot_digest
from windlass.core.entities import EnvironmentSpec, SnapshotFile
from windlass.core.names import digest

trees = st.lists(instances(SnapshotFile), max_size=5, unique_by=lambda file: file.path)
environments = instances(EnvironmentSpec)


@given(tree=trees, seed=st.integers())
def test_the_order_of_files_does_not_matter(tree: list[SnapshotFile], seed: int) -> None:
    shuffled = list(tree)
    random.Random(seed).shuffle(shuffled)
    assert snapshot_digest(shuffled) == snapshot_digest(tree) == digest(snapshot_digest(tree))


@given(tree=trees.filter(bool), change=st.sampled_from(["path", "digest", "size", "executable"]))
def test_any_change_of_a_file_is_another_snapshot(tree: list[SnapshotFile], change: str) -> None:
    first = tree[0]
    changed = {
        "path": replace(first, path=first.path + "x"),
        "digest": replace(first, digest=first.digest + "x"),
        "size": replace(first, size=first.size - 1),
        "executable": replace(first, executable=not first.executable),
    }[change]
    assert snapshot_digest([changed, *tree[1:]]) != snapshot_digest(tree)


WHAT_IS_BUILT = {"python_version", "pip", "pip_options", "conda", "channels", "strict", "image", "dockerfile"}


@pytest.mark.parametrize("name", [field.name for field in fields(EnvironmentSpec)])
@given(first=environments, second=environments)
def test_only_what_is_installed_makes_an_environment(
    name: str, first: EnvironmentSpec, second: EnvironmentSpec
) -> None:
    other = replace(first, **{name: getattr(second, name)})
    built_alike = all(getattr(first, part) == getattr(other, part) for part in WHAT_IS_BUILT)
    assert (environment_digest(first) == environment_digest(other)) is built_alike


def test_moving_a_package_from_pip_to_conda_is_another_environment() -> None:
    assert environment_digest(EnvironmentSpec(pip=("numpy",))) != environment_digest(EnvironmentSpec(conda=("numpy",)))


def test_an_interpreter_that_is_there_is_not_built() -> None:
    assert EnvironmentSpec().is_built and not EnvironmentSpec(interpreter="python3").is_built
