"""The Python of the environment that is active in the shell."""

from __future__ import annotations

import os


def active() -> str | None:
    """The path of the `python` of the activated virtual or conda environment; None if none is active."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        path = os.path.join(folder, "bin", "python") if folder else ""
        if path and os.access(path, os.X_OK):
            return path
    return None
