"""The rules by which an environment of past years is built with what exists today. Pure functions: no file, no process.

An environment that names a Python or a release which is not to be had here gets the nearest one that is. What was
replaced is told by a text for each name: `{"numpy": "numpy==1.16.* → 1.23.2 (no wheel for Python 3.11)"}`.
"""

from __future__ import annotations

import datetime
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

# The oldest Python that the SDK runs on, and the last one that gives way to a newer one where it is missing.
OLDEST = (3, 8)
LAST = (3, 11)
# Said beside what a strict environment cannot have.
STRICT = "The environment is strict. Ask for what there is, or leave out strict, and the nearest is taken."
# When each Python came out, and when its last release came that was not for security alone.
_PYTHONS = {
    (3, 5): ("2015-09-13", "2017-08-08"),
    (3, 6): ("2016-12-23", "2018-12-24"),
    (3, 7): ("2018-06-27", "2020-06-27"),
    (3, 8): ("2019-10-14", "2021-05-03"),
    (3, 9): ("2020-10-05", "2022-05-17"),
    (3, 10): ("2021-10-04", "2023-04-05"),
    (3, 11): ("2022-10-24", "2024-04-02"),
    (3, 12): ("2023-10-02", "2025-04-08"),
    (3, 13): ("2024-10-07", "2026-10-06"),
    (3, 14): ("2025-10-07", "2027-10-05"),
}
_OLDEST_DATE = "2017-08-08"
# After this time the usual packages had wheels for a new Python.
_SETTLED = datetime.timedelta(days=100)
_YEAR = datetime.timedelta(days=365)
# numpy took away what the code of that time uses (np.float) in 1.24, which the last Python of the time has, too.
_OLD_NUMPY = "numpy<1.24"
# Building one of these from its source takes long, and fails on a Python that is newer than it.
NEVER_BUILT = (
    "cryptography", "grpcio", "h5py", "lightgbm", "lxml", "matplotlib", "numba", "numpy", "opencv-python", "pandas",
    "pillow", "pyarrow", "scikit-learn", "scipy", "spacy", "statsmodels", "tensorflow", "torch", "xgboost",
)  # fmt: skip

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*([^;]*)(;.*)?\Z")
_COMMENT = re.compile(r"\s#.*")
_COMPARISON = re.compile(r"(===|==|~=|!=|<=|>=|<|>)([\w.*+!]+)")
_COMPARISONS = re.compile(rf"(?:{_COMPARISON.pattern})(?:,(?:{_COMPARISON.pattern}))*\Z")
_CEILINGS = ("===", "==", "~=", "<=", "<")
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:\.?(?:post|rev|r)\d+)?")
_INSTALLED = re.compile(r"^ \+ ([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)", re.MULTILINE)
_LOCKED = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"', re.MULTILINE)
_UPLOADED = re.compile(r"upload-time = (\d{4}-\d\d-\d\d)")
_LISTED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;]+)", re.MULTILINE)


class Requirement(NamedTuple):
    """A line that names a package of an index, without hashes."""

    line: str
    name: str
    extras: str
    versions: str
    marker: str

    @property
    def is_pin(self) -> bool:
        """Whether some releases are too new for it."""
        return any(sign in _CEILINGS for sign, _ in _COMPARISON.findall(self.versions))

    @property
    def floor(self) -> str:
        """The highest version that a pin names."""
        named = [_plain(version) for sign, version in _COMPARISON.findall(self.versions) if sign != "!="]
        return max(named, key=_order)

    def with_version(self, version: str, sign: str = ">=") -> str:
        return f"{self.name}{self.extras}{sign}{version}{self.marker}"


class Release(NamedTuple):
    """What an index has for a line. Neither is known of one that does not count here, because of its marker."""

    version: str = ""
    date: str = ""


class Attempt(NamedTuple):
    sign: str  # how a replaced line names its release
    until: str  # the date that packages are held to; empty: none


# ---- Python ----


def minor_of(version: str) -> Tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (numbers[0] if numbers else 3, 0)


def gives_way(wanted: str) -> bool:
    """Whether a version of Python may be replaced by a newer one."""
    return bool(re.match(r"\d+\.\d+(\.\d+)*\Z", wanted)) and minor_of(wanted) <= LAST


def least_python(wanted: str) -> Tuple[int, int]:
    """The minor release that is looked for: the one that is wanted, unless the SDK does not run on it."""
    return max(minor_of(wanted), OLDEST)


def is_replaced(wanted: Optional[str], used: str) -> bool:
    """Whether code for one Python runs on another minor release."""
    return wanted is not None and gives_way(wanted) and minor_of(wanted) != minor_of(used)


def replaced_python(wanted: str, used: str, where: str) -> Dict[str, str]:
    """What is told of another Python than the one that was asked for; `where` that one is not."""
    is_old = minor_of(wanted) < OLDEST <= minor_of(used)
    why = f"the SDK needs {_dotted(OLDEST)} or newer" if is_old else f"{wanted} is not {where}"
    return {"python": f"python {wanted} → {used} ({why})"}


def conda_pythons(wanted: str, wish: str) -> List[str]:
    """What a conda is asked for, one after the other: the wish itself, unless the SDK does not run on it."""
    first = least_python(wanted)
    minors = [f"python={_dotted(minor)}" for minor in _PYTHONS if minor >= first]
    return list(dict.fromkeys([*([wish] if minor_of(wanted) >= OLDEST else []), *minors]))


# ---- packages ----


def requirement_of(line: str) -> Optional[Requirement]:
    """None for a line with hashes, an address or a file: that means just these bytes."""
    found = _LINE.match(_COMMENT.sub("", line).strip())
    if found is None or " --" in line:
        return None
    name, extras, versions, marker = found.groups("")
    versions = re.sub(r"\s+", "", versions).strip("()")
    if versions and not _COMPARISONS.match(versions):
        return None
    return Requirement(line, normal(name), re.sub(r"\s+", "", extras), versions, f" {marker}".rstrip())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def replaced_pin(pin: Requirement, used: str, python: str) -> Dict[str, str]:
    asked = f"{pin.name}{pin.extras}{pin.versions}"
    return {pin.name: f"{asked} → {used} (no wheel for Python {_dotted(minor_of(python))})"}


def conda_floor(wish: str) -> str:
    """The highest version that a line of conda's names, if some releases are too new for it; else nothing."""
    versions = re.sub(r"\A\s*(?:[^\s:\[\]=<>]+::)?[\w.-]+", "", wish)
    one = re.match(r"\s*={0,2}\s*(\d[\w.]*?)(?:\.?\*)?(?:[=\s]\s*\w+)?\s*\Z", versions)
    if one:
        return one[1]
    found = _COMPARISON.findall(re.sub(r"\s+", "", versions))
    named = [_plain(version) for sign, version in found if sign != "!="]
    return max(named, key=_order) if any(sign in _CEILINGS for sign, _ in found) else ""


def replaced_conda(wish: str, name: str, used: str, python: str) -> Dict[str, str]:
    return {name: f"{wish} → {used} (not in the channels for Python {python})"}


def constraints(wishes: Iterable[Requirement], used: str) -> List[str]:
    """What holds packages back where no index says when they are from. A version that a line names counts."""
    is_chosen = any(wish.name == "numpy" and wish.versions for wish in wishes)
    return [_OLD_NUMPY] if not is_chosen and minor_of(used) <= LAST else []


def locked(text: str) -> Dict[str, Release]:
    """The releases in a pylock.toml, or in a list of requirements, by name."""
    if "[[packages]]" not in text:
        return {normal(name): Release(version) for name, version in _LISTED.findall(text)}
    parts = text.split("[[packages]]")[1:]
    found = ((_LOCKED.search(part.lstrip("\n")), _UPLOADED.findall(part)) for part in parts)
    return {normal(at[1]): Release(at[2], max(dates, default="")) for at, dates in found if at}


def installed(text: str) -> Dict[str, str]:
    """What uv says that it has installed: version by name."""
    return {normal(name): version for name, version in _INSTALLED.findall(text)}


# ---- dates ----


def date_of(wanted: Optional[str], used: str, pins: Iterable[Release]) -> str:
    """The day whose packages an environment gets: that of its newest pin, or of the Python that was asked for, but not
    before there were packages for the Python that is used. Empty if that is not known.
    """
    settled = _PYTHONS.get(minor_of(used))
    if settled is None:
        return ""
    dates = [_shifted(settled[0], _SETTLED), *(release.date for release in pins)]
    if wanted is not None and gives_way(wanted):
        dates.append(_PYTHONS.get(minor_of(wanted), ("", _OLDEST_DATE))[1])
    return max(dates)


def attempts(date: str, today: str, has_replaced: bool) -> List[Attempt]:
    """In this order: exactly the nearest releases, with packages of the day, and of the year after it; then newer
    releases than the nearest; then packages of any day.
    """
    later = _shifted(date, _YEAR) if date else ""
    days = [day for day in (date, later) if day and day < today]
    found = [Attempt("==", day) for day in days]
    found += [Attempt(">=", day) for day in days[-1:] if has_replaced]
    found += [Attempt("==", "")]
    return [*found, *([Attempt(">=", "")] if has_replaced else [])]


def told_date(day: str, whose: str) -> Dict[str, str]:
    return {"*": f"packages without a version → releases until {day} (the time of {whose})"}


def _shifted(day: str, by: datetime.timedelta) -> str:
    return (datetime.date(*map(int, day.split("-"))) + by).isoformat()


def _plain(version: str) -> str:
    """Without `.*`, and without the local part, which `>=` does not take."""
    return re.sub(r"(\.\*)?(\+.*)?\Z", "", version)


def _order(version: str) -> Tuple[int, ...]:
    found = _VERSION.match(version)
    return tuple(int(number) for number in re.findall(r"\d+", found[0])) if found else ()


def _dotted(version: Tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
