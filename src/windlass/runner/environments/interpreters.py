"""Finds the Python interpreters of this machine, and chooses one for a requested version."""

from __future__ import annotations

import operator
import os
import re
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import era

_SIGNS: Dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMPARISON = re.compile(r"(<=|>=|==|!=|~=|<|>)\s*(\d+(?:\.\d+)*)(?:\.\*)?\Z")
_PLAIN = re.compile(r"\d+(\.\d+)*\Z")
_NAMED = re.compile(r"python(3)\.(\d+)\Z")
_HOMES = (".pyenv/versions/*/bin/python3", ".local/share/uv/python/*/bin/python3")
_VERSION_CODE = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_BUNDLED_CODE = (
    "import ensurepip, glob, os; print(*glob.glob(os.path.dirname(ensurepip.__file__) + '/_bundled/*.whl'), sep='\\n')"
)


class Interpreter(NamedTuple):
    path: str
    version: str  # "3.8.18"


def choose(wanted: Optional[str], is_strict: bool = False) -> Optional[Interpreter]:
    """The nearest interpreter that is acceptable for the requested version (`is_acceptable`); None if there is none."""
    if wanted is None:
        return _own()
    if not is_plain(wanted):
        return next((each for each in all_interpreters() if fits(each.version, wanted)), None)
    for found in _by_distance(era.minimum_python(wanted) if era.may_be_replaced(wanted) else _numbers(wanted)):
        fitting = [each for each in found if is_acceptable(each.version, wanted, is_strict)]
        if fitting:
            return next((each for each in fitting if fits(each.version, wanted)), fitting[0])
    return None


def is_acceptable(version: str, wanted: str, is_strict: bool = False) -> bool:
    """Whether a Python of that version may be used for the request: comparisons hold, and a version is of the same
    minor release. One of past years may be replaced by a newer one that the SDK supports, unless `is_strict`.
    """
    if is_strict or not is_plain(wanted):
        return fits(version, wanted)
    if era.may_be_replaced(wanted):
        return _numbers(version) >= era.minimum_python(wanted)
    return fits(version, ".".join(wanted.split(".")[:2]))


def minor_release(wanted: str) -> str:
    """The minor release to look for, as text."""
    return "%d.%d" % era.minimum_python(wanted) if era.may_be_replaced(wanted) else ".".join(wanted.split(".")[:2])


def nearest(wanted: Optional[str]) -> Interpreter:
    """The interpreter whose version is nearest; for None, the one that runs the runner."""
    if wanted is None:
        return _own()
    for found in _by_distance(_numbers(wanted)):
        return next((each for each in found if fits(each.version, wanted)), found[0])
    return _own()


def _by_distance(wanted: Tuple[int, int]) -> Iterator[List[Interpreter]]:
    """The interpreters of each minor release, the nearest first."""
    for _, paths in sorted(_candidates().items(), key=lambda item: _distance(item[0], wanted)):
        found = _query_all(paths)
        if found:
            yield found


def all_interpreters() -> List[Interpreter]:
    """All interpreters of this machine: the one that runs the runner, then the newest first."""
    by_version = sorted(_candidates().items(), reverse=True)
    return [_own(), *(found for _, paths in by_version for found in _query_all(paths))]


def is_plain(wanted: str) -> bool:
    """Whether it is a version, as opposed to comparisons."""
    return bool(_PLAIN.match(wanted))


def fits(version: str, wanted: str) -> bool:
    """Whether a version equals the requested one, or satisfies all comparisons (">=3.8,<3.10").

    Only as many numbers are compared as the request names: 3.8.18 is not above 3.8, and 3.11.7 is 3.11. ValueError if
    the request is neither.
    """
    return all(_holds(version, each.strip()) for each in wanted.split(","))


def _holds(version: str, comparison: str) -> bool:
    found = _COMPARISON.match(f"=={comparison}" if is_plain(comparison) else comparison)
    if found is None:
        raise ValueError(f"Python {comparison[:80]} is not understood. Write it like 3.10 or >=3.8,<3.11.")
    sign, named = found.group(1), _parts(found.group(2))
    if len(named) == 1 and sign != "==":
        named = (*named, 0)  # any 3.x is above 3
    seen = _parts(version)[: len(named)]
    if sign == "~=":
        return seen >= named and seen[: len(named) - 1] == named[:-1]
    return _SIGNS[sign](seen, named)


def is_at_least(version: str, least: str) -> bool:
    return _numbers(version) >= _numbers(least)


def ask_version(path: str) -> Optional[str]:
    """The version that it prints; None if it does not run: a command on the PATH may be a broken shim."""
    lines = _run_python(path, _VERSION_CODE)
    return lines[0] if lines else None


def bundled(path: str) -> List[str]:
    """The wheels that it bundles for virtual environments: pip, and before 3.12 setuptools. Debian's has none."""
    return sorted(line for line in _run_python(path, _BUNDLED_CODE) or [] if line)


def _run_python(path: str, code: str) -> Optional[List[str]]:
    """Run code in an interpreter: the lines that it prints, None if it fails."""
    import subprocess

    try:
        answer = subprocess.run([path, "-I", "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, timeout=20, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(answer.stdout).splitlines()


def _query_all(paths: List[str]) -> List[Interpreter]:
    answers = ((path, ask_version(path)) for path in paths)
    return [Interpreter(path, version) for path, version in answers if version is not None]


def _own() -> Interpreter:
    return Interpreter(sys.executable, "%d.%d.%d" % sys.version_info[:3])


def _parts(version: str) -> Tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _numbers(version: str) -> Tuple[int, int]:
    words = re.findall(r"\d+", version)
    return (int(words[0]) if words else 3), (int(words[1]) if len(words) > 1 else sys.version_info[1])


def _distance(version: Tuple[int, int], wanted: Tuple[int, int]) -> Tuple[int, int, int]:
    """Nearest first; of two that are equally near, the newer one."""
    return abs(version[0] - wanted[0]), abs(version[1] - wanted[1]), -version[1]


def _candidates() -> Dict[Tuple[int, int], List[str]]:
    found: Dict[Tuple[int, int], List[str]] = {sys.version_info[:2]: [sys.executable]}
    for version, path in (*_on_path(), *_at_home()):
        found.setdefault(version, []).append(path)
    return found


def _on_path() -> Iterator[Tuple[Tuple[int, int], str]]:
    import glob

    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if _is_of_shims(folder):
            continue
        for path in sorted(glob.glob(f"{glob.escape(folder)}/python3*")):
            named = _NAMED.match(os.path.basename(path))
            if named:
                yield (int(named.group(1)), int(named.group(2))), path
            elif path.endswith("/python3"):
                version = ask_version(path)
                if version:
                    yield _numbers(version), path


def _is_of_shims(folder: str) -> bool:
    """Whether a folder has pyenv's shims: slow shell scripts for versions that _at_home() finds by itself."""
    root = os.path.dirname(os.path.realpath(folder))
    return os.path.basename(folder.rstrip("/")) == "shims" and root == os.path.realpath(os.path.expanduser("~/.pyenv"))


def _at_home() -> Iterator[Tuple[Tuple[int, int], str]]:
    import glob

    for pattern in _HOMES:
        for path in sorted(glob.glob(os.path.join(os.path.expanduser("~"), pattern)), reverse=True):
            folder = path.split("/")[-3]
            version = re.search(r"(\d+)\.(\d+)", folder)
            if version:
                yield (int(version.group(1)), int(version.group(2))), path
