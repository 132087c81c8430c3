"""Windlass's own folder, where the private server and its data are."""

import os


def home() -> str:
    """WINDLASS_HOME, else ~/.windlass."""
    return os.path.abspath(os.path.expanduser(os.environ.get("WINDLASS_HOME") or "~/.windlass"))
