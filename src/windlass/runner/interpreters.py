"""The Python interpreters of this machine."""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

_NAMED = re.compile(r"python(3)\.(\d+)\Z")
_HOMES = (".pyenv/versions/*/bin/python3", ".local/share/uv/python/*/bin/python3")
_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


class Interpreter(NamedTuple):
    path: str
    version: str  # "3.8.18"


def nearest(wanted: Optional[str]) -> Interpreter:
    """The interpreter whose version is nearest; without a wish, the one that runs us."""
    own = Interpreter(sys.executable, "%d.%d.%d" % sys.version_info[:3])
    if wanted is None:
        return own
    numbers = _numbers(wanted)
    candidates = sorted(_candidates().items(), key=lambda item: _distance(item[0], numbers))
    for _, paths in candidates:
        for path in paths:
            version = ask_version(path)
            if version is not None:
                return Interpreter(path, version)
    return own


def same_minor(left: str, right: str) -> bool:
    return _numbers(left) == _numbers(right)


def is_at_least(version: str, least: str) -> bool:
    return _numbers(version) >= _numbers(least)


def distance(there: str, wanted: str) -> Tuple[int, int, int]:
    """How far a version is from the one that is wanted: of several, the least is the nearest."""
    return _distance(_numbers(there), _numbers(wanted))


def ask_version(path: str) -> Optional[str]:
    """What it says itself: a name on the PATH may be a shim that leads nowhere."""
    import subprocess

    try:
        answer = subprocess.run([path, "-I", "-S", "-c", _ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, timeout=20, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("ascii", "replace").strip()


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
        for path in sorted(glob.glob(f"{glob.escape(folder)}/python3*")):
            named = _NAMED.match(os.path.basename(path))
            if named:
                yield (int(named.group(1)), int(named.group(2))), path
            elif path.endswith("/python3"):
                version = ask_version(path)
                if version:
                    yield _numbers(version), path


def _at_home() -> Iterator[Tuple[Tuple[int, int], str]]:
    import glob

    for pattern in _HOMES:
        for path in sorted(glob.glob(os.path.join(os.path.expanduser("~"), pattern)), reverse=True):
            folder = path.split("/")[-3]
            version = re.search(r"(\d+)\.(\d+)", folder)
            if version:
                yield (int(version.group(1)), int(version.group(2))), path
