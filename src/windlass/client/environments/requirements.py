"""Parser of pip packages in requirements files and in the pip section of conda files.

Invalid lines are refused here, with their location, before anything is sent; the installer would find them only on the
target.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from windlass.client.config.file_location import SourceFile
from windlass.client.exceptions import UserErrorException

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SIGN = r"(?:===|==|~=|!=|<=|>=|<|>)"
_VERSIONS = rf"\(?\s*{_SIGN}\s*[\w.*+!-]+(?:\s*,\s*{_SIGN}\s*[\w.*+!-]+)*\s*,?\s*\)?"
_HASHES = r"(?: --hash[= ]\S+)*"
# For lines with single blanks only: on longer runs of blanks the many `\s*` would backtrack for very long.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\s*"  # name
    r"(?:\[[\w.,\s-]*\]\s*)?"  # extras
    rf"(?:{_VERSIONS})?\s*"
    r"(?:;[^;]*)?"  # marker
    rf"{_HASHES}\Z"
)
_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*@\s*")  # name @ address
_URL = re.compile(rf"(?:{_NAMED.pattern})?[A-Za-z][\w+.-]*://\S+(?:\s*;.*|\s+#.*|{_HASHES})?\Z")
_OPTION = re.compile(r"(-r|-[^\s=]*)[\s=]*(.*)\Z")  # pip takes -rbase.txt too
_OPTIONS = (
    "--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--no-index", "--pre",
    "--trusted-host", "--no-binary", "--only-binary", "--prefer-binary", "--require-hashes", "--use-feature",
)  # fmt: skip
_INCLUDE_OPTIONS = ("-r", "--requirement")
_FOLDER_OPTIONS = ("-f", "--find-links")
_NAME_END = re.compile(r"[\[(=<>~! ;]")
_DEEPEST = 10


def read(path: str, depth: int = 0) -> list[str]:
    """The lines of a requirements file without comments; `-r other.txt` is replaced by the lines of that file."""
    source = _open(path)
    if depth > _DEEPEST:
        raise UserErrorException(f"Requirements files that include each other: {path}")
    found: list[str] = []
    for number, line in _joined(source.lines):
        included = included_file(line)
        if included is not None:
            found += read(os.path.join(source.folder, included), depth + 1)
        else:
            problem = problem_of(line)
            if problem:
                raise UserErrorException(f"{source.line(number)} {problem}")
            found.append(line)
    return found


def included_file(line: str) -> str | None:
    """The file that `-r other.txt` names."""
    name, value = _option(line)
    return value if value and name in _INCLUDE_OPTIONS else None


def problem_of(line: str) -> str:
    """The error of a line, as the end of a sentence; "" if the installer can read it."""
    return _problem(" ".join(line.split()))


def is_file(line: str) -> bool:
    """Whether it names a file or folder, as opposed to a package or an address."""
    target = target_of(line)
    if target.lower().startswith("file:"):
        return True
    if "://" in target or target.startswith("wheel:"):
        return False
    return target.endswith((".whl", ".tar.gz", ".zip")) or target.startswith((".", "/", "~")) or "\\" in target


def target_of(line: str) -> str:
    """The address or path of a line: without the name before `@`, the extras and the marker."""
    text = re.split(r"\s;|;\s", line.strip(), maxsplit=1)[0].strip()
    named = _NAMED.match(text)
    text = text[named.end() :] if named else text
    return re.sub(r"\[[\w.,\s-]*\]\Z", "", text)


def name_of(line: str) -> str:
    """numpy[x]>=1.2 -> numpy. A wheel's name is part of its file name; any other address or path is its own name."""
    text = line.strip()
    named, target = _NAMED.match(text), target_of(text)
    if named:
        return named.group(1).lower()
    if target.endswith(".whl"):
        return re.split(r"[/\\]", target)[-1].partition("-")[0].lower()
    return target if "://" in target or is_file(text) else _NAME_END.split(text, maxsplit=1)[0].strip().lower()


def merge(lines: Sequence[str]) -> list[str]:
    """Each package once, with all its version specifiers. Lines with markers or addresses are not merged."""
    found: dict[str, list[str]] = {}
    for line in (line.strip() for line in lines):
        head, versions = _head_and_versions(line)
        merged = found.setdefault(head, [])
        merged.extend(version for version in versions if version not in merged)
    return [head + ",".join(merged) for head, merged in found.items()]


def _head_and_versions(line: str) -> tuple[str, list[str]]:
    plain = re.match(rf"([A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?)\s*({_SIGN}[^;@/\s]+(?:\s*,\s*{_SIGN}[^;@/\s]+)*)?\Z", line)
    if plain is None:
        return line, []
    return plain.group(1), [version.strip() for version in (plain.group(2) or "").split(",") if version.strip()]


def _problem(line: str) -> str:
    if not line:
        return "is empty."
    if line.startswith("-"):
        return _option_problem(line)
    if _URL.match(line) or line.startswith("wheel:") or is_file(line) or _REQUIREMENT.match(line):
        return ""
    if re.match(r"[\w.\[\]-]+\s*=\s*[\d*]", line):
        return "is not a pip requirement: pip compares versions with '=='."
    return "is not a pip requirement."


def _option_problem(line: str) -> str:
    name, value = _option(line)
    if name in ("-e", "--editable"):
        return "names a folder to be installed from; build a wheel of it, and name that."
    if name in ("-c", "--constraint"):
        return "names a file of constraints, which cannot be sent; write the versions into the list."
    if included_file(line) is not None:
        return "includes a file, which only a file can do."
    if name in _FOLDER_OPTIONS and not os.path.isabs(value) and not re.match(r"file:|\w+://", value):
        return "names a folder of this computer, which is not sent; name the wheels in it, each by its path."
    return "" if name in _OPTIONS else f"has an option that is not known: {name}"


def _option(line: str) -> tuple[str, str]:
    """Name and value of an option; ("", "") for other lines."""
    found = _OPTION.match(line.strip())
    return (found.group(1), found.group(2).strip("\"'")) if found else ("", "")


def _open(path: str) -> SourceFile:
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # reading a pipe would block
            raise UserErrorException(f"{path} is not a file.")
        with open(path, encoding="utf-8-sig") as file:
            return SourceFile(path, file.read().splitlines())
    except FileNotFoundError:
        raise UserErrorException(f"There is no requirements file {os.path.abspath(path)}.") from None
    except UnicodeDecodeError:
        raise UserErrorException(f"{path} is not UTF-8 text.") from None
    except OSError as e:
        raise UserErrorException(f"{path} cannot be read: {e.strerror}") from e


def _joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, with their number; a backslash at the end continues one."""
    began, waiting = 0, ""
    for number, line in enumerate([*lines, ""], 1):
        began = began if waiting else number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            waiting += line[:-1].strip() + " "
            continue
        whole = re.split(r"(?:\A|\s)#", waiting + line.strip(), maxsplit=1)[0].strip()
        waiting = ""
        if whole:
            yield began, whole
