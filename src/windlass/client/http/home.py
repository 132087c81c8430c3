"""The home folder: the private server and its data."""

import os


def home() -> str:
    """WINDLASS_HOME, else ~/.windlass."""
    return os.path.abspath(os.path.expanduser(os.environ.get("WINDLASS_HOME") or "~/.windlass"))
