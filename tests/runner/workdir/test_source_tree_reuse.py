"""A run finds exactly its snapshot, whatever earlier runs did to the tree that was made over for it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from ..conftest import Hosts
from ..pipe import Host, wait_for

MANY = {f"data/{number // 100}/{number}.txt": b"%d" % number for number in range(1500)}
LIST = """
import os, sys, json
found = {}
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        seen = os.lstat(path)
        found[path[2:]] = [open(path).read(), seen.st_mode & 0o777, seen.st_nlink, seen.st_ino]
json.dump(found, open("outputs/found.json", "w"))
"""
HARM = """
import os, shutil
def rewrite(path):
    before = os.stat(path)
    with open(path, "r+") as file:
        file.write("X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
rewrite("data/0/1.txt")
os.unlink("data/0/2.txt")
os.chmod("data/0/3.txt", 0o777)
os.link("data/0/4.txt", "outputs/linked.txt")
os.replace("data/0/5.txt", "data/0/6.txt")
os.unlink("data/0/7.txt"); os.symlink("/etc/passwd", "data/0/7.txt")
os.unlink("data/0/8.txt"); os.mkdir("data/0/8.txt"); open("data/0/8.txt/inside", "w").close()
shutil.rmtree("data/1"); os.symlink("2", "data/1")
os.chmod("data/3", 0o500)
open("data/2/extra.txt", "w").write("more")
os.mkdir("more"); open("more/extra.txt", "w").write("more")
open("outputs/big.bin", "wb").write(bytes(1 << 20))
"""


def run(host: Host, job: str, script: str, files: dict[str, bytes]) -> None:
    """Its files are older than a tick of the clock when the script begins, however quick the disk is."""
    asked = (job, ["{python}", "train.py"], {**files, "train.py": script.encode()})
    host.start(*asked, hold=True)
    wait_for(lambda: "ready" in host.event_names(job))
    time.sleep(0.05)
    host.start(*asked)
    assert host.wait(job)["exit_code"] == 0, host.read(job)


def listed(host: Host, job: str, files: dict[str, bytes]) -> dict[str, int]:
    """Run a script that lists its folder, which must hold the snapshot and nothing else; inode by path."""
    run(host, job, LIST, files)
    found = json.loads(host.read(job, "source/outputs/found.json", limit=4 << 20))
    del found["train.py"]
    assert {path: content.encode() for path, (content, *_) in found.items()} == files
    assert all((mode, links) == (0o644, 1) for _, mode, links, _ in found.values())
    return {path: inode for path, (*_, inode) in found.items()}


def spares(host: Host) -> list[Path]:
    return list((host.root / "spares").iterdir())


def test_what_a_script_did_to_its_files_is_not_met_by_the_next(host: Host) -> None:
    run(host, "first.1", HARM, MANY)
    before = {path: (host.folder("first.1") / "source" / path).stat().st_ino for path in MANY if "data/9" in path}
    host.clean("first.1")
    [spare] = spares(host)
    assert not list(spare.rglob("big.bin")) and not list(spare.rglob("extra.txt")), "what it made is not kept"
    after = listed(host, "second.1", MANY)
    assert not spares(host)
    assert any(after[path] == inode for path, inode in before.items()), "the tree was made over"


def test_what_a_script_has_put_in_the_place_of_its_folder_is_not_touched(host: Host, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious.txt").touch()
    move = f"import os; os.rename('../source', '../x'); os.symlink('{tmp_path}/elsewhere', '../source')"
    run(host, "first.1", move, MANY)
    assert (host.root / "placed" / "first.1").exists()
    host.clean("first.1")
    assert (tmp_path / "elsewhere" / "precious.txt").exists()
    assert not spares(host)
    listed(host, "second.1", MANY)


def test_another_snapshot_finds_its_own_files(host: Host) -> None:
    run(host, "first.1", "", MANY)
    host.clean("first.1")
    other = {path: data for path, data in MANY.items() if not path.startswith("data/4/")}
    other["data/4"] = b"a file that was a folder"
    other["data/5/500.txt/inside"] = b"and the other way round"
    del other["data/5/500.txt"]
    other["data/6/600.txt"] = b"changed"
    listed(host, "second.1", other)


def test_small_and_strange_snapshots_make_do_without(host: Host) -> None:
    few = dict(list(MANY.items())[:20])
    run(host, "few.1", "", few)
    host.clean("few.1")
    assert not spares(host)
    run(host, "many.1", "", MANY)
    host.clean("many.1")
    listed(host, "few.2", few)
    listed(host, "strange.1", {path: data + b"!" for path, data in MANY.items()})
    assert len(spares(host)) == 1


def test_only_some_are_kept(host: Host) -> None:
    for job in (f"job.{number}" for number in range(6)):
        run(host, job, "", {path: data + job.encode() for path, data in MANY.items()})
        host.clean(job)
    wait_for(lambda: len(spares(host)) == 4)
    assert not list((host.root / "placed").iterdir())


def test_a_tree_of_another_boot_is_not_trusted(host: Host) -> None:
    run(host, "first.1", "", MANY)
    host.clean("first.1")
    [spare] = spares(host)
    path = spare / "source" / "data" / "0" / "0.txt"
    path.write_bytes(b"?")
    seen = path.stat()
    index = json.loads((spare / "index.json").read_text())
    index["files"]["data/0/0.txt"][2:] = [seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]
    (spare / "index.json").write_text(json.dumps({**index, "boot_id": "another"}))
    listed(host, "second.1", MANY)


def throw_away(root: Path, name: str, run: object) -> Path:
    """Put into the trash what could be a run's folder."""
    folder = root / "trash" / f"{name}.1"
    (folder / "door").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run))
    return folder


@pytest.mark.parametrize(
    "run",
    [{"container": {"image": "x"}}, {"container": "x"}, {"container": {"image": "x"}, "job": "../x", "nonce": "n"}],
    ids=["no name", "no container", "no job id"],
)
def test_what_cannot_be_cleared_away_is_in_nobodys_way(hosts: Hosts, root: Path, run: dict[str, object]) -> None:
    """Whatever order they are met in."""
    odd = [throw_away(root, f"odd{number}", run) for number in range(8)]
    plain = [throw_away(root, f"plain{number}", {}) for number in range(8)]
    hosts()
    wait_for(lambda: not any(folder.exists() for folder in plain))
    wait_for(lambda: all((folder / "trouble.json").exists() for folder in odd))


# A machine without any file system in memory: one of its own, with little in it, in the place of /dev.
WITHOUT_MEMORY = """#!/bin/sh
exec unshare --mount sh -c '
mount -t tmpfs none /mnt && touch /mnt/null /mnt/urandom &&
mount --bind /dev/null /mnt/null && mount --bind /dev/urandom /mnt/urandom &&
mount --rbind /mnt /dev && exec "$0" "$@"' "{python}" "$@"
"""


def test_secrets_that_no_memory_held_are_not_looked_for(hosts: Hosts, root: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(WITHOUT_MEMORY.format(python=sys.executable))
    python.chmod(0o755)
    run = {"container": {"image": "x"}, "job": "a.1", "nonce": "n", "secrets": ["db"]}
    folder = throw_away(root, "a", run)
    (folder / "door").rmdir()  # there was no container
    hosts(python=str(python), env={"XDG_RUNTIME_DIR": ""})
    wait_for(lambda: not folder.exists())
