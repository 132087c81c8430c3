"""Start permission for instances of a job, for schedulers that may start the same job twice.

`mkdir claim` decides between two processes that see the same folder. Where a scheduler may start a job again on another
file system (a pod that was recreated), the server decides: each instance has a name (the UID of a pod, the id and the
restart count of a queue's job), writes a request into the folder, and executes nothing until the host has written a
permission.

    instances/<name>/waiting     by the instance, rewritten as a heartbeat
    instances/<name>/allowed     by the host: this instance owns the attempt
    instances/<name>/refused     by the host: {"owner": the instance that owns it}
"""

from __future__ import annotations

import os
import re
from typing import List, Optional

from ..workdir.run_folder import Refused, RunFolder, read_json, write_json
from .heartbeat import Heartbeat, Heartbeats

_FOLDER = "instances"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:\-]{0,199}\Z")
_MOST = 100  # instances of one job that are listed


def check_instance(name: object) -> str:
    if not isinstance(name, str) or not _NAME.match(name) or ".." in name:
        raise Refused("invalid", f"Not the name of an instance: {ascii(name)[:80]}")
    return name


class Permission:
    """The permission of one instance, as that instance sees it."""

    def __init__(self, folder: RunFolder, instance: str) -> None:
        self.instance = check_instance(instance)
        self._path = folder.at(f"{_FOLDER}/{instance}")
        os.makedirs(self._path, 0o700, exist_ok=True)
        self.heartbeat = Heartbeat(f"{self._path}/waiting")

    @property
    def is_granted(self) -> bool:
        return os.path.exists(f"{self._path}/allowed")

    @property
    def owner(self) -> Optional[str]:
        """The instance that owns the attempt, if this one was refused."""
        refused = read_json(f"{self._path}/refused")
        return None if refused is None else str(refused.get("owner"))


def waiting(folder: RunFolder, heartbeats: Heartbeats) -> List[str]:
    """The instances that wait for an answer and whose heartbeat is not lost."""
    try:
        names = sorted(os.listdir(folder.at(_FOLDER)))
    except OSError:
        return []
    found = []
    for name in names:
        path = folder.at(f"{_FOLDER}/{name}")
        is_answered = any(os.path.exists(f"{path}/{file}") for file in ("allowed", "refused"))
        is_asking = _NAME.match(name) and not is_answered and os.path.exists(f"{path}/waiting")
        if is_asking and not heartbeats.is_silent(f"{path}/waiting"):
            found.append(name)
    return found[:_MOST]


def allow(folder: RunFolder, instance: str) -> None:
    _answer(folder, instance, "allowed", {})


def refuse(folder: RunFolder, instance: str, owner: str) -> None:
    _answer(folder, instance, "refused", {"owner": check_instance(owner)})


def _answer(folder: RunFolder, instance: str, file: str, content: "dict[str, str]") -> None:
    path = folder.at(f"{_FOLDER}/{check_instance(instance)}")
    if not folder.exists:
        return  # it was cleaned up, and its instances end by themselves
    os.makedirs(path, 0o700, exist_ok=True)
    write_json(f"{path}/{file}", content, durable=True)
