"""Replacement rules for environments of past years: which Python and which releases stand in for missing ones.

Pure functions: no file, no process. A Python or a release that is not available is replaced by the nearest one that is.
Replacements are reported as a text for each name: `{"numpy": "numpy==1.16.* → 1.23.2 (no wheel for Python 3.11)"}`.
"""

from __future__ import annotations

import datetime
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

# The oldest Python that the SDK runs on, and the newest one that may be replaced by a newer one if it is missing.
OLDEST = (3, 8)
LAST = (3, 11)
# Appended to the error when a strict environment cannot be built.
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
# numpy 1.24 removed names that code of that time uses (np.float), and has wheels for Python 3.11 too.
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
    """The release that an index has for a line. Both are empty if the line's marker excludes it here."""

    version: str = ""
    date: str = ""


class Attempt(NamedTuple):
    sign: str  # comparison sign in a replaced line
    until: str  # newest upload date of packages; empty: any


# ---- Python ----


def minor_of(version: str) -> Tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (numbers[0] if numbers else 3, 0)


def may_be_replaced(wanted: str) -> bool:
    """Whether a version of Python may be replaced by a newer one."""
    return bool(re.match(r"\d+\.\d+(\.\d+)*\Z", wanted)) and minor_of(wanted) <= LAST


def minimum_python(wanted: str) -> Tuple[int, int]:
    """The minor release to look for: the requested one, or the oldest that the SDK runs on."""
    return max(minor_of(wanted), OLDEST)


def is_replaced(wanted: Optional[str], used: str) -> bool:
    """Whether code for one Python runs on another minor release."""
    return wanted is not None and may_be_replaced(wanted) and minor_of(wanted) != minor_of(used)


def replaced_python(wanted: str, used: str, where: str) -> Dict[str, str]:
    """The replacement text for a Python; `where` says where the requested one is missing."""
    is_old = minor_of(wanted) < OLDEST <= minor_of(used)
    why = f"the SDK needs {_dotted(OLDEST)} or newer" if is_old else f"{wanted} is not {where}"
    return {"python": f"python {wanted} → {used} ({why})"}


def conda_pythons(wanted: str, spec: str) -> List[str]:
    """The specs to try with conda, in order: the requested one (unless the SDK does not run on it), then newer ones."""
    first = minimum_python(wanted)
    minors = [f"python={_dotted(minor)}" for minor in _PYTHONS if minor >= first]
    return list(dict.fromkeys([*([spec] if minor_of(wanted) >= OLDEST else []), *minors]))


# ---- packages ----


def requirement_of(line: str) -> Optional[Requirement]:
    """Parse a line. None for a line with hashes, an address or a file: those are never replaced."""
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


def conda_floor(spec: str) -> str:
    """The highest version that a conda spec names, if it has an upper limit; else empty."""
    versions = re.sub(r"\A\s*(?:[^\s:\[\]=<>]+::)?[\w.-]+", "", spec)
    one = re.match(r"\s*={0,2}\s*(\d[\w.]*?)(?:\.?\*)?(?:[=\s]\s*\w+)?\s*\Z", versions)
    if one:
        return one[1]
    found = _COMPARISON.findall(re.sub(r"\s+", "", versions))
    named = [_plain(version) for sign, version in found if sign != "!="]
    return max(named, key=_order) if any(sign in _CEILINGS for sign, _ in found) else ""


def replaced_conda(spec: str, name: str, used: str, python: str) -> Dict[str, str]:
    return {name: f"{spec} → {used} (not in the channels for Python {python})"}


def constraints(requirements: Iterable[Requirement], used: str) -> List[str]:
    """Constraints for old code that also hold where no index has upload dates. A version named by the user wins."""
    is_chosen = any(each.name == "numpy" and each.versions for each in requirements)
    return [_OLD_NUMPY] if not is_chosen and minor_of(used) <= LAST else []


def locked(text: str) -> Dict[str, Release]:
    """The releases in a pylock.toml, or in a list of requirements, by name."""
    if "[[packages]]" not in text:
        return {normal(name): Release(version) for name, version in _LISTED.findall(text)}
    parts = text.split("[[packages]]")[1:]
    found = ((_LOCKED.search(part.lstrip("\n")), _UPLOADED.findall(part)) for part in parts)
    return {normal(at[1]): Release(at[2], max(dates, default="")) for at, dates in found if at}


def installed(text: str) -> Dict[str, str]:
    """The packages that uv's output lists as installed: version by name."""
    return {normal(name): version for name, version in _INSTALLED.findall(text)}


# ---- dates ----


def date_of(wanted: Optional[str], used: str, pins: Iterable[Release]) -> str:
    """The upload date that packages are limited to: that of the newest pin or of the requested Python, but not before
    there were packages for the Python in use. Empty if it is unknown.
    """
    settled = _PYTHONS.get(minor_of(used))
    if settled is None:
        return ""
    dates = [_shifted(settled[0], _SETTLED), *(release.date for release in pins)]
    if wanted is not None and may_be_replaced(wanted):
        dates.append(_PYTHONS.get(minor_of(wanted), ("", _OLDEST_DATE))[1])
    return max(dates)


def attempts(date: str, today: str, has_replaced: bool) -> List[Attempt]:
    """The attempts in order: exactly the nearest releases, with packages until that date, then until a year later; then
    newer releases than the nearest; then packages of any date.
    """
    later = _shifted(date, _YEAR) if date else ""
    days = [day for day in (date, later) if day and day < today]
    found = [Attempt("==", day) for day in days]
    found += [Attempt(">=", day) for day in days[-1:] if has_replaced]
    found += [Attempt("==", "")]
    return [*found, *([Attempt(">=", "")] if has_replaced else [])]


def date_limit(day: str, time_of: str) -> Dict[str, str]:
    return {"*": f"packages without a version → releases until {day} (the time of {time_of})"}


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
