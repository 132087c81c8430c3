"""Bootstrap of a machine that is reached by SSH: put the runner there, then exec its host.

Sent as text to `python3 -I -S -c 'f=open(0,"rb",0);exec(f.readline())'`, so that only Python needs to be installed. It
gets `f` (standard input, unbuffered) with one line of JSON and then the runner's bytes. It is not imported: the text of
system/private.py comes first, then this one. Both use old syntax, so that a Python too old for the runner can say so.
"""

import errno
import hashlib
import json
import os
import shutil
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from windlass.runner.system.private import NotPrivate, check_private

CANNOT = 3  # exit code: the machine cannot be used as it is
LEAST = (3, 8)
FULL = (errno.ENOSPC, errno.EDQUOT)


def main(f: "BinaryIO") -> None:
    order = json.loads(f.readline().decode("ascii"))
    python = find_python()
    root = os.path.abspath(os.path.expanduser(order["root"]))
    os.umask(0o077)
    try:
        path = place(root, order["digest"], zlib.decompress(read_exactly(f, order["size"])))
    except OSError as e:
        what = "no-space" if e.errno in FULL else "cannot-write"
        raise cannot(what, "%s: %s" % (e.filename or root, e.strerror)) from None
    os.execv(python, [python, "-I", "-S", path, "host", "--root", root])


def find_python() -> str:
    if sys.version_info[:2] >= LEAST:
        return sys.executable
    for minor in range(30, LEAST[1] - 1, -1):
        found = shutil.which("python3.%d" % minor)
        if found:
            return found
    raise cannot("old-python", "%d.%d" % sys.version_info[:2])


def read_exactly(f: "BinaryIO", size: int) -> bytes:
    pieces = []
    while size:
        piece = f.read(min(size, 1 << 16))
        if not piece:
            sys.exit(1)  # the connection was closed
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def place(root: str, digest: str, data: bytes) -> str:
    os.makedirs(root, 0o700, exist_ok=True)
    check_owned(root)
    path = "%s/runner-%s.pyz" % (root, digest[:16])
    if is_whole(path, digest):
        return path
    aside = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        os.rename(aside, path)
    except OSError:
        if os.path.exists(aside):
            os.unlink(aside)  # a partial file takes space
        raise
    return path


def check_owned(root: str) -> None:
    """Refuse a folder that other accounts can write."""
    if os.path.islink(root):
        raise cannot("cannot-write", "%s is a link; --root should name the folder itself" % root)
    try:
        check_private(root)
    except NotPrivate as e:
        raise cannot("not-private", str(e)) from None


def is_whole(path: str, digest: str) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def cannot(what: str, detail: str) -> SystemExit:
    """Print the reason; the server translates it (drivers/openssh/diagnostics.py)."""
    sys.stderr.write("windlass-arrival %s %s\n" % (what, detail.replace("\n", " ")))
    sys.stderr.flush()
    return SystemExit(CANNOT)


main(globals()["f"])
