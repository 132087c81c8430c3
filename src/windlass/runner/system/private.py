"""Check that no other account of the machine can write a folder, or put another one in its place.

Checked whenever a host starts. On machines that are reached by SSH, bootstrap.py checks it too, before anything is
executed there: this text is sent in front of its own, so it is spelled for a Python that is too old for the runner.
"""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import FrozenSet, Optional

MOST_LINKS = 40


class NotPrivate(Exception):
    """A folder is not private; the message names it and the reason."""


def check_private(path: str) -> None:
    """Raise NotPrivate if another account could write the folder, or change where its path leads.

    As sshd's StrictModes does it, for each folder on the way, links followed: it belongs to this account or to root,
    and no other account may write there. In one with the sticky bit, as /tmp, others can rename only what is theirs.
    """
    trusted = trusted_owners()
    here, links = "/", 0
    waiting = split(os.path.abspath(path))
    check_folder(here, os.stat(here), trusted)
    while waiting:
        name = waiting.pop()
        if name == "..":
            here = os.path.dirname(here)
            continue
        below = os.path.join(here, name)
        seen = os.lstat(below)
        if stat.S_ISLNK(seen.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise NotPrivate("%s leads through too many links" % path)
            check_owner(below, seen, trusted)
            target = os.readlink(below)
            here = "/" if os.path.isabs(target) else here
            waiting += split(target)
        else:
            check_folder(below, seen, trusted)
            here = below
    seen = os.stat(here)
    if seen.st_uid != os.getuid():
        raise NotPrivate("%s does not belong to the account that the runner uses" % here)
    if seen.st_mode & 0o022:
        raise NotPrivate("%s may be written by others" % here)


def split(path: str) -> "list[str]":
    """The parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def check_folder(path: str, seen: os.stat_result, trusted: "FrozenSet[int]") -> None:
    check_owner(path, seen, trusted)
    is_sticky = seen.st_mode & stat.S_ISVTX
    is_open = seen.st_mode & 0o002 or (seen.st_mode & 0o020 and not is_own_group(seen))
    if is_open and not is_sticky:
        raise NotPrivate("%s may be written by others" % path)


def check_owner(path: str, seen: os.stat_result, trusted: "FrozenSet[int]") -> None:
    if seen.st_uid not in trusted:
        raise NotPrivate("%s belongs to others (user id %d)" % (path, seen.st_uid))


def trusted_owners() -> "FrozenSet[int]":
    """This account and root. In a user namespace without root, root's folders have the overflow id as their owner."""
    return frozenset(each for each in (0, os.getuid(), unmapped_owner()) if each is not None)


def unmapped_owner() -> "Optional[int]":
    try:
        with open("/proc/self/uid_map") as ids:
            firsts = [int(line.split()[0]) for line in ids]
        with open("/proc/sys/kernel/overflowuid") as overflow:
            return None if 0 in firsts else int(overflow.read())
    except (OSError, ValueError, IndexError):
        return None


def is_own_group(seen: os.stat_result) -> bool:
    """Whether its group has no member but this account: many systems give each account one of the same name."""
    import grp
    import pwd

    try:
        account, group = pwd.getpwuid(os.getuid()), grp.getgrgid(seen.st_gid)
    except KeyError:
        return False
    return (
        group.gr_gid == account.pw_gid
        and group.gr_name == account.pw_name
        and not set(group.gr_mem) - {account.pw_name}
    )
