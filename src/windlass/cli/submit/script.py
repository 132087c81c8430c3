"""The script of a submit: a Python or shell script, a module or a command; and its source folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from windlass.core.errors import Denied, InvalidRequest, NotFound
from windlass.core.sanitize import escape

_PYTHON_LINE = re.compile(rb"#!.*\bpython")
_FIRST_LINE = re.compile(rb"#![ \t]*(\S+)[ \t]*([^\n]*)")
_ENDINGS = (".py", ".pyw", ".pyz")
_SHELLS = {".sh": "sh", ".bash": "bash", ".zsh": "zsh", ".ksh": "ksh"}
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_PYTHON = "{python}"  # stands for the interpreter of the run's environment
_MOST_READ = 1024


class Script(NamedTuple):
    """`folder` becomes the snapshot and the script's working directory; `path` is relative to it. `command` is set for
    everything but Python scripts: the argv without the arguments.
    """

    folder: str
    path: str
    command: tuple[str, ...] = ()


def choose(values: Mapping[str, Any]) -> tuple[Script, tuple[str, ...]]:
    """The script, module or command of a command line, and its arguments."""
    script, arguments, folder = values["script"], tuple(values["arguments"]), values["source_directory"]
    words = arguments if script is None else (script, *arguments)
    if values.get("module"):
        return Script(_folder(folder), "", (_PYTHON, "-m", _module(values["module"], words))), words
    if not values.get("is_command") or (script or "").endswith(_ENDINGS):
        return locate(script, folder), arguments
    there = _folder(folder)
    _check_command(there, words)
    return Script(there, "", (_PYTHON if words[0] in ("python", "python3") else words[0],)), words[1:]


def _module(name: str, words: Sequence[str]) -> str:
    if _MODULE.match(name) and not name.endswith(".py"):
        return name
    if name.endswith(_ENDINGS) and os.path.isfile(name):
        hint = f"It is a script: windlass submit {escape(' '.join([name, *words[:1]]))}"
    else:
        hint = "A module has dots between its parts: -m package.module"
    raise InvalidRequest(f"{escape(name)} is not the name of a module.", hint)


def _check_command(folder: str, words: Sequence[str]) -> None:
    """Refuse what cannot be a command. Whether the program exists shows only on the target."""
    if not words or not words[0].strip():
        raise InvalidRequest("There is no command behind --.", "windlass submit -- torchrun train.py")
    import shlex
    import shutil

    first = words[0]
    if len(words) == 1 and " " in first and not os.path.exists(os.path.join(folder, first)):
        raise InvalidRequest(
            f"{escape(first)} is one word to a shell, and there is no program of that name.",
            f"Leave out the quotes, or let a shell run it: windlass submit -- sh -c {shlex.quote(escape(first))}",
        )
    is_file = os.sep not in first and os.path.isfile(os.path.join(folder, first))
    if is_file and shutil.which(first) is None:
        raise InvalidRequest(
            f"{escape(first)} is a file of the folder, and not a command that is found on the PATH.",
            f"Leave out the -- to run it as a script, or name it by its path: windlass submit -- ./{escape(first)}",
        )


def locate(script: str | None, folder: str | None) -> Script:
    """Find the script: in the given folder, else in the current one, else in its own folder. Without a script the path
    is empty: the run configuration may name one.
    """
    if script is None:
        return Script(_folder(folder), "")
    if folder is not None:
        found = _inside(folder, script)
    else:
        here = _current_folder()
        whole = os.path.join(here, script)
        relative = os.path.relpath(whole, here)
        outside = relative.startswith(os.pardir + os.sep) or relative == os.pardir
        found = Script(os.path.dirname(whole), os.path.basename(whole)) if outside else Script(here, relative)
    program = _program(os.path.join(found.folder, found.path), script)
    path = found.path if not found.path.startswith("-") else f"./{found.path}"
    return found._replace(command=(*program, path)) if program else found


def _folder(folder: str | None) -> str:
    return _current_folder() if folder is None else _inside(folder, "").folder


def missing_script() -> Exception:
    """Click's error for a missing argument. Only click passes a command line without a script on."""
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
        raise NotFound(f"There is no folder {escape(folder)}.", "--source-directory names the folder to submit.")
    path = os.path.join(whole, script)
    if not os.path.lexists(path) and os.path.lexists(script):
        path = os.path.abspath(script)
    relative = os.path.relpath(path, whole)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        raise InvalidRequest(f"The script {escape(script)} is not inside {escape(folder)}.")
    return Script(whole, relative)


def _program(path: str, script: str) -> tuple[str, ...]:
    """The program that executes the script; empty for Python."""
    try:
        about = os.stat(path)
        if stat.S_ISDIR(about.st_mode):
            raise InvalidRequest(
                f"{escape(script)} is a folder, not a script.", "Name the script in it: windlass submit FOLDER/train.py"
            )
        if not stat.S_ISREG(about.st_mode):
            raise InvalidRequest(f"{escape(script)} is not a regular file.")
        with open(path, "rb") as file:
            beginning = file.read(_MOST_READ)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"There is no script {escape(script)} in {escape(os.path.dirname(path))}.", _similar(path)
        ) from None
    except PermissionError:
        raise Denied(
            f"The script {escape(script)} cannot be read: no permission.",
            f"Give yourself the right to read it: chmod u+r {escape(script)}",
        ) from None
    except (OSError, ValueError) as e:
        raise InvalidRequest(f"The script {escape(script)} cannot be read: {e}") from None
    return _program_of(script, beginning)


def _program_of(script: str, beginning: bytes) -> tuple[str, ...]:
    if b"\0" in beginning and not script.endswith(".pyz"):
        kind = "not a Python script" if script.endswith(_ENDINGS) else "not a script"
        raise InvalidRequest(
            f"{escape(script)} is {kind}: it holds binary data.",
            f"A program is a command: windlass submit -- ./{escape(os.path.basename(script))}",
        )
    if script.endswith(_ENDINGS) or _PYTHON_LINE.match(beginning):
        return ()
    line = _FIRST_LINE.match(beginning)
    if line is not None:  # as the kernel reads it: a program, and at most one argument
        return tuple(os.fsdecode(part.strip()) for part in line.groups() if part.strip())
    shell = _SHELLS.get(os.path.splitext(script)[1])
    if shell is None:
        raise InvalidRequest(
            f"{escape(script)} is not a script of Python or of a shell.",
            "A script ends in .py or .sh, or begins with a line like #!/usr/bin/env python3. "
            "A command stands behind --: windlass submit -- COMMAND",
        )
    return (shell,)


def _similar(path: str) -> str:
    """A hint with the script that was probably meant."""
    from windlass.cli.parameters.suggestions import similar

    try:
        there = [name for name in os.listdir(os.path.dirname(path)) if name.endswith((".py", ".sh"))]
    except OSError:
        return ""
    near = similar(os.path.basename(path), there)
    return f"Did you mean {escape(near)}?" if near else ""
