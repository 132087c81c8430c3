"""Commands that must succeed, also inside the namespaces of another process."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run(*argv: str | Path, stdin: str | None = None) -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}: {done.stderr or done.stdout}"
    return done.stdout


def inside(pid: int, *argv: str | Path, stdin: str | None = None) -> str:
    """In that process's network. (`ip netns exec` would also remount /sys, which daemons do not like.)"""
    return run("nsenter", f"--net=/proc/{pid}/ns/net", *argv, stdin=stdin)


def ip(pid: int, *lines: str) -> None:
    """Several ip commands at once, in that process's network."""
    inside(pid, "ip", "-batch", "-", stdin="\n".join(lines) + "\n")
