"""Files of environment variables (`.env`): a KEY=VALUE line for each."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, Tuple

from windlass.client import names
from windlass.client.exceptions import UserErrorException
from windlass.core.errors import InvalidRequest

_LARGEST = 1 << 20
_LINE = re.compile(r"(?:export\s+)?([^=]*?)\s*(?:=(.*))?\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_COMMENT = re.compile(r"\s+#")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_ESCAPE = re.compile(r"\\(.)")
_ONE_LINE = "Quotes open before the value and close after it, on the same line; \\n in double quotes is a line break."
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def load_variables(path: str | os.PathLike[str]) -> Dict[str, str]:
    """The variables of a file, for `run_config.environment_variables`.

    A line is KEY=VALUE, with or without `export` before it; KEY alone takes its value from the environment here. Lines
    that begin with # are comments, and so is what follows # after a space. Quotes around a value keep its spaces; in
    double quotes \\n, \\t, \\" and \\\\ are escapes. Nothing is substituted: a $ is a $. Of two lines with the same KEY
    the later one counts.
    """
    file = os.fspath(path)
    return dict(_read_line(place, line) for place, line in _lines(file))


def check_of_project(path: str) -> None:
    """Refuse a KEY alone in the file that a project file names: others may have written both, and would choose what
    leaves the environment here.
    """
    for place, line in _lines(path):
        found = _LINE.match(line)
        if found is not None and found.group(2) is None and _NAME.match(found.group(1)):
            name = found.group(1)
            raise UserErrorException(
                f"{place}: {name} has no value. The variables of a project file take none from the environment here.",
                f"Write {name}=VALUE there, or --env {name} on the command line.",
            )


def _lines(file: str) -> Iterator[Tuple[str, str]]:
    """The lines with content, each with its place. Errors never show a line: it may hold a secret."""
    for number, line in enumerate(_text(file).split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield f"{file}, line {number}", stripped


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8-sig") as opened:
            text = opened.read(_LARGEST + 1)
    except UnicodeDecodeError:
        raise UserErrorException(f"{file} is not UTF-8 text.", "A file of variables has KEY=VALUE lines.") from None
    except FileNotFoundError:
        raise UserErrorException(f"There is no file {file}.", "A file of variables has KEY=VALUE lines.") from None
    except OSError as e:
        raise UserErrorException(f"{file} cannot be read: {e.strerror}.") from None
    if len(text) > _LARGEST:
        raise UserErrorException(f"{file} is too large for a file of variables.", "It has at most 1 MB.")
    return text


def _read_line(place: str, line: str) -> Tuple[str, str]:
    found = _LINE.match(line)
    name, value = found.groups() if found is not None else ("", None)
    if not _NAME.match(name):
        raise UserErrorException(
            f"{place}: this is not KEY=VALUE.",
            "KEY has letters, digits and _, and begins with no digit; a value is on one line.",
        )
    try:
        names.variable_name(name)
    except InvalidRequest as e:
        raise UserErrorException(f"{place}: {e.message}") from None
    if value is not None:
        return name, _value(place, name, value)
    if name not in os.environ:
        raise UserErrorException(
            f"{place}: {name} takes its value from the environment here, where it is not set.",
            f"Write {name}=VALUE; {name}= sets the empty text.",
        )
    return name, os.environ[name]


def _value(place: str, name: str, text: str) -> str:
    value = text.strip()
    if value[:1] not in ("'", '"'):
        return _checked(place, name, _COMMENT.split(text, maxsplit=1)[0].strip())
    found = (_SINGLE_QUOTED if value[0] == "'" else _DOUBLE_QUOTED).match(value)
    if found is None:
        raise UserErrorException(f"{place}: the quote around the value of {name} is not closed.", _ONE_LINE)
    rest = value[found.end() :]
    if rest.strip() and not _COMMENT.match(rest):
        raise UserErrorException(f"{place}: something follows the quoted value of {name}.", _ONE_LINE)
    inner = found.group(1)
    if value[0] == '"':
        inner = _ESCAPE.sub(lambda match: _ESCAPED.get(match.group(1), match.group(0)), inner)
    return _checked(place, name, inner)


def _checked(place: str, name: str, value: str) -> str:
    if "\0" in value:
        raise UserErrorException(f"{place}: the value of {name} has a NUL character, which no program can be given.")
    return value
