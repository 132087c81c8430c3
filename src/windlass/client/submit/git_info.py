"""Properties of a run from the git repository of its source folder, read from git's files to save starting it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from typing import NamedTuple

from windlass.client.config.file_location import text_of

# How long a submit waits for `git diff`.
_TIMEOUT_SECONDS = 0.05
_HEX = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")
_ORIGIN = re.compile(r"\s*\[\s*remote\s+\"origin\"\s*\]")
_SECTION = re.compile(r"\s*\[")
_URL = re.compile(r"\s*url\s*=\s*(.+?)\s*\Z")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


class Repository(NamedTuple):
    """`root` is the work tree, `own` the folder with its HEAD, `common` the folder that all work trees share."""

    root: str
    own: str
    common: str


class DirtyCheck:
    """Whether the work tree has changes. `git diff` runs in the background while the snapshot is taken."""

    def __init__(self, repository: Repository) -> None:
        self._until = time.monotonic() + _TIMEOUT_SECONDS
        self._pid = 0
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        actions = [nothing, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        arguments = ["git", "-C", repository.root, "diff", "--quiet", "--no-ext-diff", "HEAD", "--"]
        with contextlib.suppress(OSError):  # git is not installed
            self._pid = os.posix_spawnp(
                "git", arguments, {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}, file_actions=actions
            )

    def result(self) -> bool | None:
        """None if git is not installed, failed, or took too long."""
        if not self._pid:
            return None
        ended, status = 0, 0
        with contextlib.suppress(ChildProcessError):  # it was reaped elsewhere in this process
            while not ended and time.monotonic() < self._until:
                ended, status = os.waitpid(self._pid, os.WNOHANG)
                if not ended:
                    time.sleep(0.0005)
            if not ended:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                return None
            return {0: False, 1: True}.get(os.WEXITSTATUS(status)) if os.WIFEXITED(status) else None
        return None


def find(folder: str) -> Repository | None:
    """The repository that a folder is in."""
    root = os.path.abspath(folder)
    while True:
        own = _git_folder(root)
        if own is not None:
            shared = text_of(os.path.join(own, "commondir")).strip()
            return Repository(root, own, os.path.normpath(os.path.join(own, shared)) if shared else own)
        if os.path.dirname(root) == root:
            return None
        root = os.path.dirname(root)


def properties(repository: Repository, is_dirty: bool | None) -> dict[str, str]:
    """Origin, branch, commit and `dirty`, under the names of Azure and of MLflow."""
    head = text_of(os.path.join(repository.own, "HEAD")).strip()
    reference = head[5:] if head.startswith("ref: ") else ""
    facts = {
        ("repository_uri", "repoURL"): _origin(repository),
        ("branch", "branch"): reference[11:] if reference.startswith("refs/heads/") else "",
        ("commit", "commit"): _commit(repository, reference) if reference else head if _HEX.match(head) else "",
    }
    found = {}
    for (azure, mlflow), value in facts.items():
        if value:
            found[f"azureml.git.{azure}"] = value
            found[f"mlflow.source.git.{mlflow}"] = value
    if is_dirty is not None:
        found["azureml.git.dirty"] = str(is_dirty)
    return found


def _git_folder(root: str) -> str | None:
    place = os.path.join(root, ".git")
    if os.path.isfile(os.path.join(place, "HEAD")):
        return place
    pointer = text_of(place).strip()  # work trees and submodules have a file that names the folder
    if pointer.startswith("gitdir:"):
        return os.path.normpath(os.path.join(root, pointer[7:].strip()))
    return None


def _commit(repository: Repository, reference: str) -> str:
    for folder in (repository.own, repository.common):
        commit = text_of(os.path.join(folder, reference)).strip()
        if _HEX.match(commit):
            return commit
    for line in text_of(os.path.join(repository.common, "packed-refs")).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference:
            return commit
    return ""


def _origin(repository: Repository) -> str:
    is_origin = False
    for line in text_of(os.path.join(repository.common, "config")).splitlines():
        if _SECTION.match(line):
            is_origin = bool(_ORIGIN.match(line))
        found = _URL.match(line) if is_origin else None
        if found:
            return _CREDENTIALS.sub("", found.group(1))
    return ""
