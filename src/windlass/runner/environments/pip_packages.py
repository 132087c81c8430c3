"""Installs the pip packages of an environment with uv: exactly as requested, or else the nearest available releases.

First the list is tried as it is. Only if it cannot be resolved or built for this Python, uv is queried for releases
that have wheels (`uv pip compile`, which installs nothing), and the rules of `era.py` choose what to try instead.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from . import era, requirements, toolchain
from .build_context import BuildContext, ToolResult
from .build_once import EnvironmentFailed
from .era import Release, Requirement

# Among several package indexes, pip takes the best release of all; uv by default that of the first that has the name.
INDEXES = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
UV = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **INDEXES}
_UNSOLVED = 1  # uv's exit code if there is no solution or a package cannot be built; other codes mean other problems
# Pythons to query: a release with wheels has one for one of these.
_PYTHONS = ("3.6", "3.8", "3.10", "3.12", "3.14")

Install = Callable[[List[str]], ToolResult]


class TargetPython(NamedTuple):
    """The Python to install for. If it is in an image, `path` is some Python of this machine, of any version."""

    path: str
    version: str
    is_here: bool = True  # or in an image


class _LookupFailed(Exception):
    """uv cannot list releases: an index is unreachable, or an option is unknown to uv."""


class _Available(NamedTuple):
    """The releases that the indexes have for the pins, by line."""

    usable: Mapping[str, Release]  # releases with a wheel for this Python
    nearest: Mapping[str, Release]  # for pins without one: the nearest release with a wheel for this Python
    elsewhere: Mapping[str, str]  # for the same pins: a Python that has a wheel
    has_dates: bool


class PipPackages:
    """One installation. `install` runs `uv pip install` with arguments, for that Python."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        packages: Sequence[str],
        python: TargetPython,
        context: BuildContext,
        install: Install,
    ) -> None:
        self._packages = packages
        self._python = python
        self._context = context
        self._install = install
        self._folder = context.once.scratch
        self._options = [option.strip() for option in spec.get("pip_options") or ()]
        self._wanted = requirements.wanted_python(dict(spec))
        self._is_strict = bool(spec.get("strict"))
        found = [era.requirement_of(package) for package in packages if requirements.sent_file(package) is None]
        self._named = [package for package in found if package is not None]
        self._pins = [package for package in self._named if package.is_pin]
        self._lookups = 0
        self._has_lock_files = True

    def install(self, may_replace: bool = True) -> Dict[str, str]:
        """Install the packages. Returns the replacements: a text for each name."""
        if may_replace and not self._is_strict and era.is_replaced(self._wanted, self._python.version):
            return self._install_nearest(self._try_look_up(), True)
        failed = self._try_install(self._packages, [pin.name for pin in self._pins])
        if failed.code == 0:
            return {}
        found = self._try_look_up() if may_replace and failed.code == _UNSOLVED and self._pins else None
        if found is None:
            raise _failure(failed)
        if self._is_strict and found.nearest:
            raise self._strict_failure(found)
        if not found.nearest:
            return self._install_with_sources(found, failed)
        return self._install_nearest(found, False)

    def _install_with_sources(self, found: _Available, failed: ToolResult) -> Dict[str, str]:
        """Build the pins that have no wheel for any Python from source, as pip does."""
        if all(pin.line in found.usable for pin in self._pins):
            raise _failure(failed)
        result = self._try_install(self._packages, [pin.name for pin in self._pins if pin.line in found.usable])
        if result.code != 0:
            raise _failure(result)
        return {}

    def _install_nearest(self, found: Optional[_Available], is_replaced: bool) -> Dict[str, str]:
        """Try the attempts of era.py in order. `is_replaced`: the Python differs from the requested one."""
        known = found or _Available({}, {}, {}, False)
        replaced = [pin for pin in self._pins if pin.line in known.nearest]
        with_wheels = [pin.name for pin in self._pins if pin.line in known.usable or pin in replaced]
        wanted = self._wanted if is_replaced else None
        dates = [*known.usable.values(), *known.nearest.values()]
        day = era.date_of(wanted, self._python.version, dates) if known.has_dates else ""
        for attempt in era.attempts(day, time.strftime("%Y-%m-%d"), bool(replaced)):
            instead = {pin.line: pin.with_version(known.nearest[pin.line].version, attempt.sign) for pin in replaced}
            lines = [instead.get(package, package) for package in self._packages]
            is_held = is_replaced or bool(attempt.until)
            limits = era.constraints(self._named, self._python.version) if is_held else []
            never_built = era.NEVER_BUILT if attempt.until else ()
            result = self._try_install(lines, [*with_wheels, *never_built], limits, attempt.until)
            if result.code == 0:
                return self._replacements(replaced, known, era.installed(result.output), attempt.until, wanted)
            if result.code != _UNSOLVED:
                break
        raise _failure(result, list(instead.values()))

    def _replacements(
        self, replaced: List[Requirement], known: _Available, there: Dict[str, str], until: str, wanted: Optional[str]
    ) -> Dict[str, str]:
        replacements: Dict[str, str] = {}
        for pin in replaced:
            version = there.get(pin.name, known.nearest[pin.line].version)
            replacements.update(era.replaced_pin(pin, version, self._python.version))
        pinned = {pin.name for pin in self._pins}
        if until and any(name not in pinned for name in there):
            time_of = f"Python {wanted}" if wanted else ", ".join(pin.line for pin in replaced)
            replacements.update(era.date_limit(until, time_of))
        return replacements

    def _strict_failure(self, found: _Available) -> EnvironmentFailed:
        lines = []
        for line, release in found.nearest.items():
            lines.append(
                f"{line} has no wheel for Python {self._python.version}: the nearest release that has one is "
                f"{release.version}, and Python {found.elsewhere[line]} has one of it."
            )
        lines.append(era.STRICT)
        return self._context.logged_failure("\n".join(lines))

    def _try_install(
        self, lines: Sequence[str], only_binary: Sequence[str], limits: Sequence[str] = (), until: str = ""
    ) -> ToolResult:
        if limits or until:
            held = [*limits, f"releases until {until}"] if until else limits
            self._context.log_line(f"Trying packages of the time: {', '.join(held)}")
        chooses = any(option.startswith(("--no-binary", "--only-binary")) for option in self._options)
        arguments = [] if chooses else [word for name in dict.fromkeys(only_binary) for word in ("--only-binary", name)]
        arguments += ["--constraints", write_lines(f"{self._folder}/constraints.txt", limits)] if limits else []
        arguments += ["--exclude-newer", f"{until}T23:59:59Z"] if until else []
        placed_lines = [link_sent_file(line, self._folder, self._context) for line in lines]
        return self._install(
            [
                *self._prereleases, *arguments,
                "--overrides", write_lines(f"{self._folder}/overrides.txt", requirements.overrides()),
                "-r", write_lines(f"{self._folder}/requirements.txt", [*self._index_options, *placed_lines]),
            ]
        )  # fmt: skip

    @property
    def _prereleases(self) -> List[str]:
        return ["--prerelease", "allow"] if "--pre" in self._options else []

    @property
    def _index_options(self) -> List[str]:
        return [option for option in self._options if option != "--pre"]

    # ---- available releases ----

    def _try_look_up(self) -> Optional[_Available]:
        """The available releases; None if uv cannot list them."""
        try:
            return self._look_up()
        except _LookupFailed:
            return None

    def _look_up(self) -> _Available:
        pins = {pin.line: pin.line for pin in self._pins}
        everything = self._compile([package.line for package in self._named]) if self._named else {}
        if everything is None:
            usable = self._releases_of_each(pins)
        else:
            usable = {line: self._release_of(everything, line) for line in pins}
        missing = {line: line for line in pins if line not in usable}
        elsewhere: Dict[str, str] = {}
        for python in _PYTHONS:
            rest = {line: line for line in missing if line not in elsewhere}
            elsewhere.update(dict.fromkeys(self._releases_of_each(rest, python), python))
        by_line = {pin.line: pin for pin in self._pins}
        newer = {line: by_line[line].with_version(by_line[line].floor) for line in elsewhere}
        nearest = self._releases_of_each(newer, resolution="lowest")
        releases = [*(everything or {}).values(), *usable.values(), *nearest.values()]
        return _Available(usable, nearest, elsewhere, any(release.date for release in releases))

    def _release_of(self, releases: Mapping[str, Release], line: str) -> Release:
        requirement = era.requirement_of(line)
        return releases.get(requirement.name if requirement else "", Release())

    def _releases_of_each(
        self, lines: Mapping[str, str], python: str = "", resolution: str = "highest"
    ) -> Dict[str, Release]:
        """A release with a wheel for each line that has one. Bisects the list to find the lines that have none, so
        that a few among many take few queries.
        """
        if not lines:
            return {}
        answer = self._compile(list(lines.values()), python, resolution)
        if answer is not None:
            return {line: self._release_of(answer, line) for line in lines}
        if len(lines) == 1:
            return {}
        half = len(lines) // 2
        parts = [dict(list(lines.items())[:half]), dict(list(lines.items())[half:])]
        return {
            line: found for part in parts for line, found in self._releases_of_each(part, python, resolution).items()
        }

    def _compile(
        self, lines: Sequence[str], python: str = "", resolution: str = "highest"
    ) -> Optional[Dict[str, Release]]:
        """Query uv for the releases that have wheels for a Python; None if one of the lines has none."""
        self._lookups += 1
        path = f"{self._folder}/pylock.{self._lookups}.toml"
        version = python or ("" if self._python.is_here else self._python.version)
        argv = [
            toolchain.uv(self._context), "pip", "compile", "--no-deps", "--only-binary", ":all:",
            "--resolution", resolution, "--python", self._python.path,
            *(["--python-version", version] if version else []), *self._prereleases,
            *(["--format", "pylock.toml"] if self._has_lock_files else ["--no-header", "--no-annotate"]), "-o", path,
            write_lines(f"{self._folder}/questions.txt", [*self._index_options, *lines]),
        ]  # fmt: skip
        code = self._context.run_unlogged(argv, UV)
        if code == 0:
            with open(path, encoding="utf-8") as file:
                return era.locked(file.read())
        if code == _UNSOLVED:
            return None
        if not self._has_lock_files:
            raise _LookupFailed
        self._has_lock_files = False  # pylock files need uv 0.7
        return self._compile(lines, python, resolution)


def _failure(result: ToolResult, instead: Sequence[str] = ()) -> EnvironmentFailed:
    error = result.error or f"uv ended with code {result.code}"
    return EnvironmentFailed(f"{error}\nThis was with {', '.join(instead)}." if instead else error)


def link_sent_file(package: str, folder: str, context: BuildContext) -> str:
    """Link a wheel that came with the run into `folder` under its file name; returns the line for the installer."""
    file = requirements.sent_file(package)
    if file is None:
        return package
    path = f"{folder}/{file.digest}/{file.name}"
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        os.link(f"{context.machine.files}/{file.digest}", path)
    except FileNotFoundError:
        raise context.logged_failure(f"The file {file.name} was to come with the run, and is not there.") from None
    except FileExistsError:
        pass  # it is listed twice
    return file.line_at(path)


def write_lines(path: str, lines: Sequence[str]) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path
