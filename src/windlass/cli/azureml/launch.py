"""Replace this process by a Python program with `azureml` and `windlass` on its path."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from windlass.cli.submit.active_python import active

if TYPE_CHECKING:
    from collections.abc import Sequence

_OLDEST = (3, 8)


def start_python(python: str | None, words: Sequence[str]) -> NoReturn:
    """Replace this process by Python with these arguments."""
    replace([choose(python), *words])


def choose(option: str | None = None) -> str:
    """The interpreter that --python or WINDLASS_PYTHON names; else the active environment's; else windlass's own."""
    named = option or os.environ.get("WINDLASS_PYTHON")
    python = _find(named) if named else active() or sys.executable
    check_version(python, _version_by_name(python))
    return python


def replace(command: list[str]) -> NoReturn:
    """Replace this process by a program. PYTHONPATH makes `azureml` importable for it and for all that it starts."""
    from windlass.cli.azureml.import_folder import shared_folder

    folder = shared_folder()
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the program would inherit that
    try:
        os.execv(command[0], command)
    except OSError as e:
        from windlass.core.errors import InvalidRequest

        raise InvalidRequest(f"{command[0]} cannot be started: {e.strerror}.", "--python names another one.") from None


def check_version(python: str, version: tuple[int, int] | None) -> None:
    """Refuse a Python that is too old for `azureml`."""
    if version is not None and version < _OLDEST:
        from windlass.core.errors import SpecNotSupported

        raise SpecNotSupported(
            f"{python} is Python {version[0]}.{version[1]}, and azureml needs 3.8 or newer.",
            "Activate an environment with a newer one, or name it: --python PATH",
        )


def _find(named: str) -> str:
    import shutil

    found = shutil.which(os.path.expanduser(named))
    if found is None:
        from windlass.core.errors import NotFound
        from windlass.core.sanitize import escape

        raise NotFound(f"There is no Python {escape(named)}.", "--python and WINDLASS_PYTHON take a path or a name.")
    return os.path.abspath(found)


def _version_by_name(python: str) -> tuple[int, int] | None:
    """The version in the file's name, such as python3.6; None if there is none. Starting Python would take longer."""
    name = os.path.basename(os.path.realpath(python))
    major, dot, minor = name[len("python") :].partition(".")
    if not name.startswith("python") or not (dot and major.isdigit() and minor.isdigit()):
        return None
    return int(major), int(minor)
