"""A run finds nothing of the one whose emptied folder it was given."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..pipe import Host, wait_for

HARM = """
import os
run = os.environ["WINDLASS_RUN_FOLDER"]
for folder in ("user_logs", "metrics", "calls", "uploads", "source", "source/outputs", "source/logs", "claim", "."):
    for name in (".hidden", "left.txt"):
        open(os.path.join(run, folder, name), "w").write("left")
    os.makedirs(os.path.join(run, folder, "deep/er"))
    os.symlink("/etc", os.path.join(run, folder, "link"))
os.rename(run + "/uploads", run + "/moved"); os.symlink("moved", run + "/uploads")
os.chmod(run + "/source/logs", 0o500)
os.chmod(run + "/metrics", 0o777)
"""
LIST = """
import json, os
run = os.environ["WINDLASS_RUN_FOLDER"]
found = {}
for top, folders, names in os.walk(run):
    for name in folders + names:
        path = os.path.join(top, name)
        if name == "usage.jsonl":  # which is there or not, as long as the listing takes
            continue
        found[os.path.relpath(path, run)] = oct(os.lstat(path).st_mode)
print(json.dumps(found))
"""


def listed(host: Host, job: str) -> dict[str, str]:
    host.python(job, LIST)
    assert host.wait(job)["exit_code"] == 0, host.read(job)
    found: dict[str, str] = json.loads(host.read(job))
    return found


def blanks(host: Host) -> list[Path]:
    return list((host.root / "blanks").iterdir())


def test_nothing_is_left(host: Host) -> None:
    new = listed(host, "new.1")
    host.python("harm.1", HARM)
    assert host.wait("harm.1")["exit_code"] == 0, host.read("harm.1")
    host.clean("harm.1")
    [blank] = blanks(host)
    inode = blank.stat().st_ino
    assert not [path for path in blank.rglob("*") if path.is_symlink() or not path.is_dir()]
    assert listed(host, "next.1") == new
    assert host.folder("next.1").stat().st_ino == inode, "it was given the emptied folder"
    assert not blanks(host)


def test_only_some_are_kept(host: Host) -> None:
    for number in range(10):
        host.start(f"job{number}.1", ["true"])
        host.wait(f"job{number}.1")
    for number in range(10):
        host.ask("clean", job=f"job{number}.1")
    wait_for(lambda: not os.listdir(host.root / "trash"))
    assert len(blanks(host)) == 8
