"""The Python that windlass is installed in, with everything that its server needs.

Another Python can import `windlass` from a folder that `windlass python` or `windlass azureml enable` made for it. That
Python may be older and have no packages; a file in the folder names the interpreter that has.
"""

from __future__ import annotations

import os
import sys

FILE = "windlass-python"


def command() -> list[str]:
    """The words that start it; `-m MODULE` follows. Variables for the calling Python are not meant for another one."""
    import windlass

    folder = os.path.dirname(os.path.dirname(os.path.abspath(windlass.__file__)))
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return [file.read().rstrip("\n"), "-E"]
    except OSError:
        return [sys.executable]
