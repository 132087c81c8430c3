"""What git knows about a source folder becomes properties of its runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from windlass.client.submit import git_info
from windlass.client.submit.git_info import DirtyCheck


def git(folder: Path, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env={**os.environ, **identity}, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "sub").mkdir()
    (root / "sub" / "train.py").write_text("1")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "x")
    git(root, "remote", "add", "origin", "https://user:secret@example.org/team/repo.git")
    return root


def told(folder: Path, is_dirty: bool | None = None) -> dict[str, str]:
    found = git_info.find(str(folder))
    assert found is not None
    return git_info.properties(found, is_dirty)


def test_branch_commit_and_origin_without_password(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert told(repository / "sub", True) == {
        "azureml.git.repository_uri": "https://example.org/team/repo.git",
        "mlflow.source.git.repoURL": "https://example.org/team/repo.git",
        "azureml.git.branch": "main",
        "mlflow.source.git.branch": "main",
        "azureml.git.commit": commit,
        "mlflow.source.git.commit": commit,
        "azureml.git.dirty": "True",
    }


def test_packed_references(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    assert told(repository)["azureml.git.commit"] == git(repository, "rev-parse", "HEAD")


def test_a_commit_without_a_branch(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "--detach")
    found = told(repository)
    assert found["azureml.git.commit"] == commit
    assert "azureml.git.branch" not in found


def test_another_work_tree(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    found = told(tmp_path / "tree")
    assert found["azureml.git.branch"] == "side"
    assert found["azureml.git.commit"] == git(repository, "rev-parse", "side")
    assert found["azureml.git.repository_uri"] == "https://example.org/team/repo.git"


def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert told(tmp_path) == {"azureml.git.branch": "main", "mlflow.source.git.branch": "main"}


def test_no_repository(tmp_path: Path) -> None:
    assert git_info.find(str(tmp_path)) is None


@pytest.mark.parametrize("is_dirty", [False, True])
def test_changes_that_are_not_committed(repository: Path, is_dirty: bool) -> None:
    if is_dirty:
        (repository / "sub" / "train.py").write_text("22")
    found = git_info.find(str(repository))
    assert found is not None
    answers = {DirtyCheck(found).result() for _ in range(10)}
    assert answers <= {is_dirty, None}  # None: this machine was too slow to say


def test_without_git_it_is_not_known(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = git_info.find(str(repository))
    assert found is not None
    monkeypatch.setenv("PATH", "")
    assert DirtyCheck(found).result() is None
