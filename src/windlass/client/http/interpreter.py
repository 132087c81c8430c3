"""The Python interpreter that starts the server: the one that windlass is installed in, with all its packages.

Another Python can import `windlass` from a folder that `windlass python` or `windlass azureml enable` made for it. That
Python may be older and lack the server's packages; a file in the folder names the interpreter that has them.
"""

from __future__ import annotations

import os
import sys

FILE = "windlass-python"


def command() -> list[str]:
    """The start of its command line; `-m MODULE` follows. With -E another Python ignores the PYTHON* variables, which
    are for the calling one.
    """
    import windlass

    folder = os.path.dirname(os.path.dirname(os.path.abspath(windlass.__file__)))
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return [file.read().rstrip("\n"), "-E"]
    except OSError:
        return [sys.executable]
