"""The options of `windlass submit`, and a fast parser for ordinary command lines.

Importing click would take half of the time from Enter to the script's first line. So ordinary command lines are parsed
here. Unusual or wrong ones are left to click, whose options are made from the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MB = {"m": 1, "mb": 1, "mi": 1, "mib": 1, "g": 1024, "gb": 1024, "gi": 1024, "gib": 1024, "t": 1 << 20}
HIGHEST_PRIORITY = 1000
MOST_RETRIES = 100
FRAMEWORKS = ("mpi", "pytorch", "tensorflow")
_MOST = 100_000


class Option(NamedTuple):
    """An option. `read` converts its text or raises ValueError; None for a flag."""

    names: tuple[str, ...]
    key: str
    help: str
    metavar: str = ""
    read: Callable[[str], Any] | None = str
    is_many: bool = False
    default: Any = None
    is_shared: bool = False


def read_duration(text: str) -> int:
    """Seconds, or a number with a unit: 90, 90s, 15m, 2h, 1d."""
    clean = text.strip().lower()
    factor = _UNITS.get(clean[-1:], 0)
    number = clean[:-1] if factor else clean
    if not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise ValueError(f"{text!r} is not a duration like 90, 15m, 2h or 1d.")
    return int(number) * (factor or 1)


def read_priority(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number.") from None
    if abs(number) > HIGHEST_PRIORITY:
        raise ValueError(f"{number} is not from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}.")
    return number


def read_retries(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > MOST_RETRIES:
        raise ValueError(f"{text!r} is not a number from 0 to {MOST_RETRIES}.")
    return int(text)


def read_conditions(text: str) -> tuple[str, ...]:
    """A list separated by commas: node-loss,exit:75."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise ValueError(f"{text!r} is not a list like node-loss,exit:75.")
    return found


def read_count(text: str) -> int:
    """A whole number above 0."""
    return _read_whole(text, 1)


def read_gpus(text: str) -> int:
    return _read_whole(text, 0)


def _read_whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= _MOST:
        raise ValueError(f"{text!r} is not a whole number from {least} to {_MOST}.")
    return int(text)


def read_cpus(text: str) -> float:
    """A number above 0: 2, 0.5."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= _MOST:
        raise ValueError(f"{text!r} is not a number of CPUs like 2 or 0.5.")
    return number


def read_memory(text: str) -> int:
    """Megabytes of a size with a unit: 512M, 8G, 1.5G."""
    clean = text.strip().lower()
    digits = clean.rstrip("bgimt")
    unit = clean[len(digits) :]
    try:
        amount = float(digits)
    except ValueError:
        amount = 0.0
    if not unit or unit not in _MB or not 0 < amount < 1e9:
        hint = f" Did you mean {digits}M or {digits}G?" if digits and not unit and amount else ""
        raise ValueError(f"{text!r} is not an amount of memory like 512M or 8G.{hint}")
    megabytes = int(amount * _MB[unit])
    if megabytes < 1:
        raise ValueError(f"{text!r} is less than 1M.")
    return megabytes


def read_framework(text: str) -> str:
    if text.lower() not in FRAMEWORKS:
        raise ValueError(f"{text!r} is none of {', '.join(FRAMEWORKS)}.")
    return text.lower()


def _flag(*names: str, key: str, help: str) -> Option:
    return Option(names, key, help, read=None, default=False)


OPTIONS = (
    Option(("-e", "--experiment"), "experiment", "The experiment. [default: the folder's name]", "NAME"),
    Option(("-c", "--target", "--run-configuration"), "target",
           "Where to run: a target, or a run configuration of this project. [default: local]", "NAME"),
    Option(("--source-directory",), "source_directory",
           "The folder that goes with the run and is its working directory. [default: the current one]", "FOLDER"),
    _flag("-d", "--detach", key="detach", help="Print the run's id and do not wait."),
    Option(("--python",), "python", "The interpreter, by path or name, or a version such as 3.12. "
           "[default: the one of the active environment]", "PYTHON"),
    Option(("--pip",), "pip", "Build an environment with this package. Repeatable.", "PACKAGE", is_many=True),
    Option(("--env-file",), "env_file", "Build an environment from a requirements.txt or a conda file.", "FILE"),
    Option(("--environment",), "environment", "Use this environment of the workspace, or a curated one; without a "
           "version, the latest.", "NAME[:VERSION]"),
    _flag("--strict-environment", key="strict_environment",
          help="Refuse a Python or a release that is not to be had, instead of taking the nearest one."),
    Option(("-m", "--module"), "module", "Run this module of Python, as `python -m` does; all that follows goes to it.",
           "MODULE"),
    Option(("--image",), "image", "Run in a container of this image.", "IMAGE"),
    Option(("--env", "--variable"), "variables", "Set a variable for the script; KEY alone takes its value from here. "
           "Repeatable.", "KEY[=VALUE]", is_many=True),
    Option(("--variables-file",), "variables_files", "Set the variables of a .env file, with a KEY=VALUE line each. "
           "--env comes after it. Repeatable.", "FILE", is_many=True),
    Option(("--secret",), "secrets", "Let the run read this secret, too. Repeatable.", "NAME", is_many=True),
    Option(("-t", "--tag"), "tags", "Tag the run. Repeatable.", "KEY=VALUE", is_many=True),
    Option(("-n", "--name"), "name", "The run's name in lists.", "TEXT", default=""),
    Option(("--timeout",), "timeout", "Stop the run after this long: 90 (seconds), 15m, 2h.", "TIME", read_duration),
    Option(("--priority",), "priority", "Higher ones start first. [default: 0]", "N", read_priority),
    Option(("--retries",), "retries", "Queue the run again after a lost node, at most so often. [default: 0]", "N",
           read_retries),
    Option(("--retry-on",), "retry_on", "After which ends --retries queues it again: node-loss, failure (any), "
           "exit:CODE. [default: node-loss]", "END[,END]", read_conditions),
    Option(("--nodes",), "nodes", "Run on so many nodes of a cluster. [default: 1]", "N", read_count),
    Option(("--cpus",), "cpus", "CPUs that the run needs, on each node. [default: what the target gives]", "N",
           read_cpus),
    Option(("--memory",), "memory", "Memory that the run needs, on each node: 512M, 8G.", "SIZE", read_memory),
    Option(("--gpus",), "gpus", "GPUs that the run needs, on each node. [default: 0]", "N", read_gpus),
    Option(("--distribution",), "distribution", "Start several processes, which find each other as this framework has "
           f"it: {', '.join(FRAMEWORKS)}.", "FRAMEWORK", read_framework),
    Option(("--processes-per-node",), "processes_per_node", "How many processes --distribution starts on each node. "
           "[default: 1]", "N", read_count),
    _flag("--dry-run", key="dry_run", help="Print what would be sent to the target; run nothing."),
    _flag("-q", "--quiet", key="quiet", help="Print only what the script prints."),
)  # fmt: skip

_NOT_OF_RERUN = ("source_directory", "module")
_RERUN_ONLY = (
    Option(("--set",), "set_arguments", "Set one argument of the script: alpha=0.2 replaces the value of --alpha, or "
           "adds it; KEY alone adds an option without a value. Repeatable.", "KEY[=VALUE]", is_many=True),
    Option(("-c", "--target"), "target", "The target.", "NAME"),
)  # fmt: skip


def rerun_options() -> tuple[Option, ...]:
    """The options of `windlass rerun`: those of submit. What is not given is that of the earlier run."""
    changed = {option.key for option in _RERUN_ONLY}
    same = [option for option in OPTIONS if option.key not in (*_NOT_OF_RERUN, *changed)]
    return (
        *_RERUN_ONLY,
        *(
            option._replace(
                help=option.help.partition(" [default:")[0], default=None if option.read else option.default
            )
            for option in same
        ),
    )


_SHARED = (
    Option(("--home",), "home", "", is_shared=True),
    Option(("--url",), "url", "", is_shared=True),
    Option(("--workspace",), "workspace", "", is_shared=True),
    Option(("--json",), "json", "", read=None, is_shared=True),
    Option(("--debug",), "debug", "", read=None, is_shared=True),
)
_BY_NAME = {name: option for option in (*OPTIONS, *_SHARED) for name in option.names}


_MODULE = next(option for option in OPTIONS if option.key == "module")


class Parsed(NamedTuple):
    """A command line: the options of submit with script and arguments, and the options of every command."""

    values: dict[str, Any]
    shared: dict[str, Any]


class Divided(NamedTuple):
    """A command line, divided into the options of submit, and what is run."""

    options: list[str]
    rest: list[str]
    is_command: bool = False  # it follows `--`
    is_module: bool = False  # -m MODULE is the last option, and these are its arguments


def divide(words: Sequence[str]) -> Divided:
    """Options end at the first word that is none, at `--`, which a command follows, and after -m MODULE."""
    options: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            return Divided(options, rest, is_command=True)
        name, equals, _ = word.partition("=") if word.startswith("--") else (word, "", "")
        option = _BY_NAME.get(name)
        options.append(word)
        has_value = bool(equals or rest)
        if option is not None and option.read is not None and not equals and rest:
            options.append(rest.pop(0))
        if option is _MODULE and has_value:
            return Divided(options, rest, is_module=True)
    return Divided(options, rest)


def parse(words: Sequence[str]) -> Parsed | None:
    """Parse an ordinary command line after `submit`; None for one that is left to click."""
    values: dict[str, Any] = {option.key: () if option.is_many else option.default for option in OPTIONS}
    shared: dict[str, Any] = {}
    options, rest, values["is_command"], _ = divide(words)
    while options:
        try:
            option, value = _read(options.pop(0), options)
        except (KeyError, ValueError, IndexError):
            return None
        if option.is_shared:
            shared[option.key] = value
        else:
            values[option.key] = (*values[option.key], value) if option.is_many else value
    if not rest and not values["module"]:
        return None
    values["script"], values["arguments"] = rest[0] if rest else None, tuple(rest[1:])
    return Parsed(values, {key: value for key, value in shared.items() if value})


def _read(word: str, rest: list[str]) -> tuple[Option, Any]:
    name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    option = _BY_NAME[name]
    if option.read is None:
        if equals:
            raise ValueError(word)
        return option, True
    return option, option.read(value if equals else rest.pop(0))
