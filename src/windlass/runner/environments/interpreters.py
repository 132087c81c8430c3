"""The Python interpreters of this machine."""

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
_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_ASK_BUNDLE = (
    "import ensurepip, glob, os; print(*glob.glob(os.path.dirname(ensurepip.__file__) + '/_bundled/*.whl'), sep='\\n')"
)


class Interpreter(NamedTuple):
    path: str
    version: str  # "3.8.18"


def choose(wanted: Optional[str], is_strict: bool = False) -> Optional[Interpreter]:
    """An interpreter that is what was asked for, as `is_met` says: the nearest one. None if there is none."""
    if wanted is None:
        return _own()
    if not is_plain(wanted):
        return next((each for each in there() if fits(each.version, wanted)), None)
    for found in _by_distance(era.least_python(wanted) if era.gives_way(wanted) else _numbers(wanted)):
        fitting = [each for each in found if is_met(each.version, wanted, is_strict)]
        if fitting:
            return next((each for each in fitting if fits(each.version, wanted)), fitting[0])
    return None


def is_met(version: str, wanted: str, is_strict: bool = False) -> bool:
    """Whether a Python of that version may be used for what was asked for: comparisons hold, and a version is of the
    same minor release. One of past years gives way to a newer one that the SDK supports; with `is_strict`, none does.
    """
    if is_strict or not is_plain(wanted):
        return fits(version, wanted)
    if era.gives_way(wanted):
        return _numbers(version) >= era.least_python(wanted)
    return fits(version, ".".join(wanted.split(".")[:2]))


def sought(wanted: str) -> str:
    """The minor release that a version is looked for in."""
    return "%d.%d" % era.least_python(wanted) if era.gives_way(wanted) else ".".join(wanted.split(".")[:2])


def nearest(wanted: Optional[str]) -> Interpreter:
    """The interpreter whose version is nearest; without a wish, the one that runs us."""
    if wanted is None:
        return _own()
    for found in _by_distance(_numbers(wanted)):
        return next((each for each in found if fits(each.version, wanted)), found[0])
    return _own()


def _by_distance(wanted: Tuple[int, int]) -> Iterator[List[Interpreter]]:
    """The interpreters of each minor release, the nearest first."""
    for _, paths in sorted(_candidates().items(), key=lambda item: _distance(item[0], wanted)):
        found = _asked(paths)
        if found:
            yield found


def there() -> List[Interpreter]:
    """All of this machine: the one that runs us, then the newest first."""
    by_version = sorted(_candidates().items(), reverse=True)
    return [_own(), *(found for _, paths in by_version for found in _asked(paths))]


def is_plain(wanted: str) -> bool:
    """Whether it is a version, as opposed to comparisons."""
    return bool(_PLAIN.match(wanted))


def fits(version: str, wanted: str) -> bool:
    """Whether a version is the one that is wanted, or one for which all comparisons hold (">=3.8,<3.10").

    Each looks at as many numbers as it names: 3.8.18 is not above 3.8, and 3.11.7 is 3.11. ValueError if it is neither.
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
    """What it says itself: a name on the PATH may be a shim that leads nowhere."""
    said = _ask(path, _ASK)
    return said[0] if said else None


def bundled(path: str) -> List[str]:
    """The wheels that it brings for virtual environments: pip, and before 3.12 setuptools. Debian's brings none."""
    return sorted(line for line in _ask(path, _ASK_BUNDLE) or [] if line)


def _ask(path: str, code: str) -> Optional[List[str]]:
    """The lines that it prints; None if it cannot."""
    import subprocess

    try:
        answer = subprocess.run([path, "-I", "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, timeout=20, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(answer.stdout).splitlines()


def _asked(paths: List[str]) -> List[Interpreter]:
    answers = ((path, ask_version(path)) for path in paths)
    return [Interpreter(path, version) for path, version in answers if version is not None]


def _own() -> Interpreter:
    return Interpreter(sys.executable, "%d.%d.%d" % sys.version_info[:3])


def _parts(version: str) -> Tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _numbers(version: str) -> Tuple[int, int]:
    words = re.findall(r"\d+", version)
    return (int(words[0]) if words else 3), (int(words[1]) if len(words) > 1 else sys.version_info[1])


def _distance(there: Tuple[int, int], wanted: Tuple[int, int]) -> Tuple[int, int, int]:
    """Nearest first; of two that are equally near, the newer one."""
    return abs(there[0] - wanted[0]), abs(there[1] - wanted[1]), -there[1]


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
    """Whether its programs are pyenv's shell scripts, which take long to answer and lead to versions that _at_home()
    finds by itself.
    """
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
