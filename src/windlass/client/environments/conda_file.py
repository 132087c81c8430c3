"""Reader of conda files, with errors that name file and line."""

from __future__ import annotations

import os
from typing import Any

from windlass.client.config import yaml
from windlass.client.config.file_location import SourceFile
from windlass.client.environments import conda_lines, requirements
from windlass.client.exceptions import UserErrorException

_KINDS = {"channels": list, "dependencies": list, "variables": dict}
_KEYS = ("name", "prefix", *_KINDS)


def read(path: str) -> dict[str, Any]:
    try:
        body, source = yaml.load_located(path)
    except FileNotFoundError:
        raise UserErrorException(f"There is no conda file {os.path.abspath(path)}.") from None
    return checked(body, source)


def checked(body: Any, source: SourceFile) -> dict[str, Any]:
    """The content of a conda file, or of the conda section of another file, with every line checked."""
    check(body, source)
    for at, item in enumerate(body.get("dependencies") or []):
        if isinstance(item, str):
            conda_lines.check(item, source.at(body["dependencies"], at))
        else:
            item["pip"] = _pip_lines(item["pip"] or [], source)
    for at, channel in enumerate(body.get("channels") or []):
        conda_lines.check_channel(channel, source.folder, source.at(body["channels"], at))
    _refuse_two_pythons(body.get("dependencies") or [], source)
    return dict(body)


def check(body: Any, source: SourceFile) -> None:
    """Refuse a body without the structure of a conda file. Its lines are not checked."""
    if not isinstance(body, dict):
        place = source.beginning().rstrip(",")
        raise _mistake("not a valid YAML structure", place, "It is a map, with a list `dependencies:`.")
    for key in body:
        if key not in _KEYS:
            raise _mistake(f"unknown {key} key in environment specification", source.at(body, key))
    for key, kind in _KINDS.items():
        if body.get(key) is not None and not isinstance(body[key], kind):
            what = "a list" if kind is list else "a map"
            raise _mistake(f"{key} must be {what}, not {body[key]!r}", source.at(body, key))
    for at, channel in enumerate(body.get("channels") or []):
        _check_text(channel, "channel", source.at(body["channels"], at))
    for at, item in enumerate(body.get("dependencies") or []):
        _check_item(item, source, source.at(body["dependencies"], at))


def _check_item(item: Any, source: SourceFile, where: str) -> None:
    if isinstance(item, dict) and list(item) == ["pip"] and isinstance(item["pip"] or [], list):
        for at, line in enumerate(item["pip"] or []):
            _check_text(line, "package", source.at(item["pip"], at))
    else:
        _check_text(item, "package", where)


def _check_text(item: Any, what: str, where: str) -> None:
    if item is None or item == "":
        raise _mistake(f"an item is empty where the name of a {what} belongs", where)
    if not isinstance(item, str):
        hint = "A map stands for `pip:` only, with a list below. A version is written like name=1.2."
        raise _mistake(f"{item!r} is not the name of a {what}", where, hint if isinstance(item, dict) else "")


def _pip_lines(lines: list[str], source: SourceFile) -> list[str]:
    """The lines, with `-r requirements.txt` replaced by the lines of that file."""
    found: list[str] = []
    for at, line in enumerate(lines):
        file = requirements.included_file(line)
        if file is not None:
            found += requirements.read(os.path.join(source.folder, file))
        else:
            problem = requirements.problem_of(line)
            if problem:
                raise UserErrorException(f"{source.at(lines, at)} {problem}")
            found.append(line)
    return found


def _refuse_two_pythons(items: list[Any], source: SourceFile) -> None:
    named = [at for at, item in enumerate(items) if isinstance(item, str) and conda_lines.name_of(item) == "python"]
    for at in named[1:]:
        raise UserErrorException(
            f"{source.at(items, at)} names Python a second time.", "One line says all: python>=3.8,<3.11."
        )


def _mistake(problem: str, where: str, hint: str = "") -> UserErrorException:
    return UserErrorException(f"Environment error: {problem}" + (f" ({where})" if where else ""), hint)
