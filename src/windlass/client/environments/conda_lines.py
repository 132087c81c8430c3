"""Parser of conda packages and channels. Invalid lines are refused here, before anything is sent."""

from __future__ import annotations

import os
import re
from pathlib import Path

from windlass.client.exceptions import UserErrorException

_NAME = re.compile(r"(?:[^\s:\[\]]+::)?([A-Za-z0-9_][\w.-]*)")
_SIGN = r"(?:===?|[~!<>]=|[<>=])"
_REST = r"[\w.*+!-]*"
_VERSION = rf"\(?{_SIGN}?\s*[\w*]{_REST}\)?"
_PACKAGE = re.compile(
    rf"{_NAME.pattern}"
    rf"(?:(?:\s*\(?{_SIGN}\s*[\w*]|\s+\(?[\d*]){_REST}\)?(?:\s*[,|]\s*{_VERSION})*"  # versions: a bare one is a number
    rf"(?:(?:\s*=\s*|\s+)[\w*]{_REST})?)?"  # build
    r"(?:\s*\[[^\]]*\])?\Z"
)
_URL = re.compile(r"https?://\S+\.(?:conda|tar\.bz2)\Z")
_EARLY = re.compile(r"(?<=\d)(?:a|b|rc)\d+")  # 3.13.0rc1, or <3.11.0a0 of a package's metadata
_ONE = re.compile(r"={0,2}(\d+(?:\.\d+){0,2})(?:\.?\*)?(?:=\S+)?\Z")
_COMPARISON = re.compile(r"(?:[<>=!~]=|[<>])\d+(?:\.\d+){0,2}(?:\.\*)?\Z")
_ANY = "3"  # any Python, since all are 3 by now


def name_of(line: str) -> str:
    """conda-forge::numpy>=1.2 -> numpy"""
    found = _NAME.match(line.strip())
    return found.group(1).lower() if found else line.strip()


def check(line: str, where: str) -> None:
    """Refuse a line that conda cannot parse."""
    text = " ".join(line.split())
    if not _PACKAGE.match(text) and not _URL.match(text):
        is_pips = "://" in text or text.endswith(".whl")
        hint = "It belongs below `pip:`." if is_pips else "It is like name, name=1.2 or channel::name>=1.2."
        raise UserErrorException(f"{where} is not the name of a conda package.", hint)
    if name_of(text) == "python" and not _is_known(_version_part(text)):
        raise UserErrorException(f"{where} is not a version of Python.", "It is like python=3.10 or python>=3.8,<3.11.")


def check_channel(channel: str, folder: str, where: str) -> None:
    """Refuse a relative path, which the target could not find. `folder` is the folder that it starts from."""
    if channel.startswith((".", "~")):
        full = os.path.normpath(os.path.join(folder, os.path.expanduser(channel)))
        raise UserErrorException(
            f"{where} is a relative path, which the target does not know.", f"It is {Path(full).as_uri()}"
        )


def python_version(line: str) -> str | None:
    """The version of Python in a line, or comparisons as in ">=3.8,<3.10"; None if it names none."""
    text = _version_part(line)
    one = _ONE.match(text)
    version = one.group(1) if one else text
    return version if version not in ("", _ANY) else None


def _version_part(line: str) -> str:
    """The part after the name, without blanks; the build follows a `=`."""
    text = _EARLY.sub("", line.strip())
    found = _NAME.match(text)
    rest = re.sub(r"\s*([<>=!~,|])\s*", r"\1", text[found.end() :]) if found else text
    return rest.strip().replace(" ", "=")


def _is_known(version: str) -> bool:
    return not version or bool(_ONE.match(version)) or all(map(_COMPARISON.match, version.split(",")))
