"""A machine's folder that other accounts could write, or put another one in the place of, is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.runner.system.private import NotPrivate, check_private

from ..pipe import RUNNER, Host

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")


def refusal(root: Path) -> str:
    """What a host says that does not start."""
    argv = [sys.executable, "-I", "-S", str(RUNNER), "host", "--root", str(root)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o722])
def test_a_parent_that_others_may_write(tmp_path: Path, mode: int, depth: int) -> None:
    root = tmp_path / "parent/user/root"
    root.mkdir(parents=True, mode=0o700)
    if mode == 0o722 and os.getuid() == 0:
        os.chown(tmp_path / "parent", 0, 1)  # not the group that is root's own
    (tmp_path / "parent").chmod(mode)
    place = Path(*root.parts[: len(tmp_path.parts) + depth])
    said = refusal(place)
    assert f"{tmp_path}/parent may be written by others" in said
    assert "chmod go-w" in said
    (tmp_path / "parent").chmod(0o755)
    host = Host(place)
    assert host.close() == 0
    (tmp_path / "parent").chmod(mode)
    assert "may be written" in refusal(place), "it is checked at each start"


def test_in_a_folder_with_the_sticky_bit_only_what_is_ours_counts(tmp_path: Path) -> None:
    (tmp_path / "shared/root").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o1777)
    check_private(str(tmp_path / "shared/root"))
    with pytest.raises(NotPrivate, match="shared may be written by others"):
        check_private(str(tmp_path / "shared"))


@needs_root
def test_what_belongs_to_another_account(tmp_path: Path) -> None:
    root = tmp_path / "theirs/root"
    root.mkdir(parents=True)
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(NotPrivate, match="theirs belongs to others"):
        check_private(str(root))
    os.chown(tmp_path / "theirs", 0, 0)
    os.chown(root, 12345, 12345)
    with pytest.raises(NotPrivate, match="root belongs to others"):
        check_private(str(root))


@pytest.mark.parametrize("target", ["../open/root", "{top}/open/root"])
def test_links_are_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "open/root").mkdir(parents=True)
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe/link").symlink_to(target.format(top=tmp_path))
    check_private(str(tmp_path / "safe/link"))
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotPrivate, match="open may be written by others"):
        check_private(str(tmp_path / "safe/link"))


def test_where_a_link_stands_counts_too(tmp_path: Path) -> None:
    (tmp_path / "safe/root").mkdir(parents=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open/link").symlink_to(tmp_path / "safe/root")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotPrivate, match="open may be written by others"):
        check_private(str(tmp_path / "open/link"))
    (tmp_path / "safe/loop").symlink_to("loop")
    with pytest.raises(NotPrivate, match="too many links"):
        check_private(str(tmp_path / "safe/loop"))


@needs_root
def test_a_link_of_another_account_in_a_folder_with_the_sticky_bit(tmp_path: Path) -> None:
    (tmp_path / "safe/root").mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "shared/link").symlink_to(tmp_path / "safe/root")
    check_private(str(tmp_path / "shared/link"))
    os.lchown(tmp_path / "shared/link", 12345, 12345)
    with pytest.raises(NotPrivate, match="link belongs to others"):
        check_private(str(tmp_path / "shared/link"))


@needs_root
def test_the_group_of_the_account_alone_may_write(tmp_path: Path) -> None:
    """As folders are made where each account has a group of its own, and the umask is 002."""
    (tmp_path / "home/root").mkdir(parents=True)
    (tmp_path / "home").chmod(0o775)
    check_private(str(tmp_path / "home/root"))
    os.chown(tmp_path / "home", 0, 1)
    with pytest.raises(NotPrivate, match="home may be written by others"):
        check_private(str(tmp_path / "home/root"))
