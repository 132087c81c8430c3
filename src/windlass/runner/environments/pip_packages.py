"""Installs the pip packages of an environment by uv: exactly as asked for, or else the nearest that can be had.

First the list is tried as it is. Only where that cannot be resolved or built for this Python, uv is asked which
releases have wheels (`uv pip compile`, which installs nothing), and the rules of `era.py` say what is tried instead.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from . import era, requirements, toolchain
from .build_context import Done, Workshop
from .build_once import EnvironmentFailed
from .era import Release, Requirement

# Of several package indexes pip takes the best that any has; uv, by itself, what the first has that knows the name.
INDEXES = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
UV = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **INDEXES}
_UNSOLVED = 1  # uv's exit code where there is no solution, or a package cannot be built; others are of other troubles
# A release that has wheels at all has one for one of these.
_PYTHONS = ("3.6", "3.8", "3.10", "3.12", "3.14")

Install = Callable[[List[str]], Done]


class Interpreter(NamedTuple):
    """For which the packages are: `path` is one of this machine, whose version may be another one."""

    path: str
    version: str
    is_here: bool = True  # or in an image


class _CannotAsk(Exception):
    """uv does not say what there is: an index cannot be reached, or is asked for in a way that uv does not know."""


class _Found(NamedTuple):
    """What indexes have for the pins, by their lines."""

    usable: Mapping[str, Release]  # a wheel for this Python
    nearest: Mapping[str, Release]  # only wheels for others; the nearest release that has one for this Python
    elsewhere: Mapping[str, str]  # a Python that has one
    has_dates: bool


class PipPackages:
    """One installation. `install` hands arguments to `uv pip install`, for that interpreter."""

    def __init__(
        self, spec: Mapping[str, Any], wishes: Sequence[str], python: Interpreter, shop: Workshop, install: Install
    ) -> None:
        self._wishes = wishes
        self._python = python
        self._shop = shop
        self._install = install
        self._folder = shop.once.aside
        self._options = [option.strip() for option in spec.get("pip_options") or ()]
        self._wanted = requirements.wanted_python(dict(spec))
        self._is_strict = bool(spec.get("strict"))
        found = [era.requirement_of(wish) for wish in wishes if requirements.sent(wish) is None]
        self._named = [wish for wish in found if wish is not None]
        self._pins = [wish for wish in self._named if wish.is_pin]
        self._questions = 0
        self._has_lock_files = True

    def install(self, may_replace: bool = True) -> Dict[str, str]:
        """Returns what was replaced: a text for each name."""
        if may_replace and not self._is_strict and era.is_replaced(self._wanted, self._python.version):
            return self._install_nearest(self._look(), True)
        failed = self._try(self._wishes, [pin.name for pin in self._pins])
        if failed.code == 0:
            return {}
        found = self._look() if may_replace and failed.code == _UNSOLVED and self._pins else None
        if found is None:
            raise _failure(failed)
        if self._is_strict and found.nearest:
            raise self._refusal(found)
        if not found.nearest:
            return self._install_with_sources(found, failed)
        return self._install_nearest(found, False)

    def _install_with_sources(self, found: _Found, failed: Done) -> Dict[str, str]:
        """Pins of which nothing but source exists, for any Python, are built from it, as pip does it."""
        if all(pin.line in found.usable for pin in self._pins):
            raise _failure(failed)
        done = self._try(self._wishes, [pin.name for pin in self._pins if pin.line in found.usable])
        if done.code != 0:
            raise _failure(done)
        return {}

    def _install_nearest(self, found: Optional[_Found], is_replaced: bool) -> Dict[str, str]:
        """`is_replaced` says whether that is so of Python."""
        known = found or _Found({}, {}, {}, False)
        replaced = [pin for pin in self._pins if pin.line in known.nearest]
        with_wheels = [pin.name for pin in self._pins if pin.line in known.usable or pin in replaced]
        wanted = self._wanted if is_replaced else None
        dates = [*known.usable.values(), *known.nearest.values()]
        day = era.date_of(wanted, self._python.version, dates) if known.has_dates else ""
        for attempt in era.attempts(day, time.strftime("%Y-%m-%d"), bool(replaced)):
            instead = {pin.line: pin.with_version(known.nearest[pin.line].version, attempt.sign) for pin in replaced}
            lines = [instead.get(wish, wish) for wish in self._wishes]
            is_held = is_replaced or bool(attempt.until)
            limits = era.constraints(self._named, self._python.version) if is_held else []
            never_built = era.NEVER_BUILT if attempt.until else ()
            done = self._try(lines, [*with_wheels, *never_built], limits, attempt.until)
            if done.code == 0:
                return self._told(replaced, known, era.installed(done.said), attempt.until, wanted)
            if done.code != _UNSOLVED:
                break
        raise _failure(done, list(instead.values()))

    def _told(
        self, replaced: List[Requirement], known: _Found, there: Dict[str, str], until: str, wanted: Optional[str]
    ) -> Dict[str, str]:
        told: Dict[str, str] = {}
        for pin in replaced:
            version = there.get(pin.name, known.nearest[pin.line].version)
            told.update(era.replaced_pin(pin, version, self._python.version))
        pinned = {pin.name for pin in self._pins}
        if until and any(name not in pinned for name in there):
            whose = f"Python {wanted}" if wanted else ", ".join(pin.line for pin in replaced)
            told.update(era.told_date(until, whose))
        return told

    def _refusal(self, found: _Found) -> EnvironmentFailed:
        lines = []
        for line, release in found.nearest.items():
            lines.append(
                f"{line} has no wheel for Python {self._python.version}: the nearest release that has one is "
                f"{release.version}, and Python {found.elsewhere[line]} has one of it."
            )
        lines.append(era.STRICT)
        return self._shop.refusal("\n".join(lines))

    def _try(
        self, lines: Sequence[str], only_binary: Sequence[str], limits: Sequence[str] = (), until: str = ""
    ) -> Done:
        if limits or until:
            held = [*limits, f"releases until {until}"] if until else limits
            self._shop.say(f"Trying packages of the time: {', '.join(held)}")
        chooses = any(option.startswith(("--no-binary", "--only-binary")) for option in self._options)
        arguments = [] if chooses else [word for name in dict.fromkeys(only_binary) for word in ("--only-binary", name)]
        arguments += ["--constraints", written(f"{self._folder}/constraints.txt", limits)] if limits else []
        arguments += ["--exclude-newer", f"{until}T23:59:59Z"] if until else []
        placed_lines = [placed(line, self._folder, self._shop) for line in lines]
        return self._install(
            [
                *self._prereleases, *arguments,
                "--overrides", written(f"{self._folder}/overrides.txt", requirements.overrides()),
                "-r", written(f"{self._folder}/requirements.txt", [*self._index_options, *placed_lines]),
            ]
        )  # fmt: skip

    @property
    def _prereleases(self) -> List[str]:
        return ["--prerelease", "allow"] if "--pre" in self._options else []

    @property
    def _index_options(self) -> List[str]:
        return [option for option in self._options if option != "--pre"]

    # ---- what there is ----

    def _look(self) -> Optional[_Found]:
        """None if uv does not say."""
        try:
            return self._look_up()
        except _CannotAsk:
            return None

    def _look_up(self) -> _Found:
        pins = {pin.line: pin.line for pin in self._pins}
        everything = self._ask([wish.line for wish in self._named]) if self._named else {}
        usable = self._ask_each(pins) if everything is None else {line: self._of(everything, line) for line in pins}
        missing = {line: line for line in pins if line not in usable}
        elsewhere: Dict[str, str] = {}
        for python in _PYTHONS:
            rest = {line: line for line in missing if line not in elsewhere}
            elsewhere.update(dict.fromkeys(self._ask_each(rest, python), python))
        by_line = {pin.line: pin for pin in self._pins}
        newer = {line: by_line[line].with_version(by_line[line].floor) for line in elsewhere}
        nearest = self._ask_each(newer, resolution="lowest")
        releases = [*(everything or {}).values(), *usable.values(), *nearest.values()]
        return _Found(usable, nearest, elsewhere, any(release.date for release in releases))

    def _of(self, releases: Mapping[str, Release], line: str) -> Release:
        requirement = era.requirement_of(line)
        return releases.get(requirement.name if requirement else "", Release())

    def _ask_each(self, lines: Mapping[str, str], python: str = "", resolution: str = "highest") -> Dict[str, Release]:
        """A release that has a wheel, for those lines that have any. Halves of the list are asked for until each that
        has none is found, so that a few among many take few questions.
        """
        if not lines:
            return {}
        answer = self._ask(list(lines.values()), python, resolution)
        if answer is not None:
            return {line: self._of(answer, line) for line in lines}
        if len(lines) == 1:
            return {}
        half = len(lines) // 2
        parts = [dict(list(lines.items())[:half]), dict(list(lines.items())[half:])]
        return {line: found for part in parts for line, found in self._ask_each(part, python, resolution).items()}

    def _ask(self, lines: Sequence[str], python: str = "", resolution: str = "highest") -> Optional[Dict[str, Release]]:
        """The releases that have wheels for a Python; None if one of the lines has none."""
        self._questions += 1
        path = f"{self._folder}/pylock.{self._questions}.toml"
        version = python or ("" if self._python.is_here else self._python.version)
        argv = [
            toolchain.uv(self._shop), "pip", "compile", "--no-deps", "--only-binary", ":all:",
            "--resolution", resolution, "--python", self._python.path,
            *(["--python-version", version] if version else []), *self._prereleases,
            *(["--format", "pylock.toml"] if self._has_lock_files else ["--no-header", "--no-annotate"]), "-o", path,
            written(f"{self._folder}/questions.txt", [*self._index_options, *lines]),
        ]  # fmt: skip
        code = self._shop.ask(argv, UV)
        if code == 0:
            with open(path, encoding="utf-8") as file:
                return era.locked(file.read())
        if code == _UNSOLVED:
            return None
        if not self._has_lock_files:
            raise _CannotAsk
        self._has_lock_files = False  # which are of uv 0.7
        return self._ask(lines, python, resolution)


def _failure(done: Done, instead: Sequence[str] = ()) -> EnvironmentFailed:
    words = done.words or f"uv ended with code {done.code}"
    return EnvironmentFailed(f"{words}\nThis was with {', '.join(instead)}." if instead else words)


def placed(wish: str, folder: str, shop: Workshop) -> str:
    """A file that came with the run, under the name that says what it is."""
    file = requirements.sent(wish)
    if file is None:
        return wish
    path = f"{folder}/{file.digest}/{file.name}"
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        os.link(f"{shop.machine.files}/{file.digest}", path)
    except FileNotFoundError:
        raise shop.refusal(f"The file {file.name} was to come with the run, and is not there.") from None
    except FileExistsError:
        pass  # it is listed twice
    return file.at(path)


def written(path: str, lines: Sequence[str]) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path
