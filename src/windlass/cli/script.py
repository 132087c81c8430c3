"""The script that is to be submitted: where it is, in which folder, and whether it is one that Python can run."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from windlass.core.errors import Denied, InvalidRequest, NotFound
from windlass.core.sanitize import shown

_PYTHON_LINE = re.compile(rb"#!.*\bpython")
_ENDINGS = (".py", ".pyw", ".pyz")
_LOOK = 1024


class Script(NamedTuple):
    """`folder` is what becomes the snapshot and the script's working directory; `path` is relative to it."""

    folder: str
    path: str


def locate(script: str | None, folder: str | None) -> Script:
    """Find the script: inside the folder that was named, else inside the current one, else in its own folder. Without
    one, its path is empty: the run configuration may name it.
    """
    if script is None:
        return Script(_inside(folder, "").folder if folder is not None else _current_folder(), "")
    if folder is not None:
        found = _inside(folder, script)
    else:
        here = _current_folder()
        whole = os.path.join(here, script)
        relative = os.path.relpath(whole, here)
        outside = relative.startswith(os.pardir + os.sep) or relative == os.pardir
        found = Script(os.path.dirname(whole), os.path.basename(whole)) if outside else Script(here, relative)
    _check(os.path.join(found.folder, found.path), script)
    return found


def missing() -> Exception:
    """What click says of an argument that must be there. Nobody else lets a command line without one through."""
    import click

    where = click.get_current_context(silent=True)
    return click.MissingParameter(ctx=where, param_hint="'SCRIPT'", param_type="argument")


def experiment_name(folder: str) -> str:
    """The folder's name, made into a valid one."""
    name = re.sub(r"[^a-zA-Z0-9_\-]+", "-", os.path.basename(os.path.abspath(folder)))
    return name.strip("-_")[:100] or "default"


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise NotFound("The current folder does not exist any more.", "Go to one that does.") from None


def _inside(folder: str, script: str) -> Script:
    whole = os.path.abspath(folder)
    if not os.path.isdir(whole):
        raise NotFound(f"There is no folder {shown(folder)}.", "--source-directory names the folder to submit.")
    path = os.path.join(whole, script)
    if not os.path.lexists(path) and os.path.lexists(script):
        path = os.path.abspath(script)
    relative = os.path.relpath(path, whole)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        raise InvalidRequest(f"The script {shown(script)} is not inside {shown(folder)}.")
    return Script(whole, relative)


def _check(path: str, script: str) -> None:
    try:
        about = os.stat(path)
        if stat.S_ISDIR(about.st_mode):
            raise InvalidRequest(
                f"{shown(script)} is a folder, not a script.", "Name the script in it: windlass submit FOLDER/train.py"
            )
        if not stat.S_ISREG(about.st_mode):
            raise InvalidRequest(f"{shown(script)} is not a regular file.")
        with open(path, "rb") as file:
            beginning = file.read(_LOOK)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"There is no script {shown(script)} in {shown(os.path.dirname(path))}.", _similar(path)
        ) from None
    except PermissionError:
        raise Denied(
            f"The script {shown(script)} cannot be read: no permission.",
            f"Give yourself the right to read it: chmod u+r {shown(script)}",
        ) from None
    except (OSError, ValueError) as e:
        raise InvalidRequest(f"The script {shown(script)} cannot be read: {e}") from None
    _check_python(script, beginning)


def _check_python(script: str, beginning: bytes) -> None:
    if script.endswith(_ENDINGS):
        if b"\0" in beginning and not script.endswith(".pyz"):
            raise InvalidRequest(f"{shown(script)} is not a Python script: it holds binary data.")
    elif not _PYTHON_LINE.match(beginning):
        raise InvalidRequest(
            f"{shown(script)} is not a Python script.",
            "A script ends in .py, or begins with a line like #!/usr/bin/env python3.",
        )


def _similar(path: str) -> str:
    """Name a script that may have been meant."""
    from windlass.cli.suggestions import similar

    try:
        there = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".py")]
    except OSError:
        return ""
    near = similar(os.path.basename(path), there)
    return f"Did you mean {shown(near)}?" if near else ""
