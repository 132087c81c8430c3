"""Parser for options of `docker run`, into fields of Docker's API. Unknown options are refused.

Some options are harmless; those that open the machine to the script need the consent of its owner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.core import names
from windlass.core.errors import InvalidRequest, SpecNotSupported

CONSENT = "The owner of the target can allow such options: windlass compute update TARGET --allow-privileged."
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NO = ("0", "false")
_YES = ("1", "true")


@dataclass(slots=True)
class Options:
    """Options as fields of Docker's API."""

    host: dict[str, Any] = field(default_factory=dict)  # HostConfig
    config: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


Apply = Callable[[Options, str], None]


class _InvalidValue(Exception):
    """Invalid value of an option. The text says what is expected."""


def parse(arguments: Sequence[str], allow_privileged: bool, network: str | None = None) -> Options:
    """Parse options. `network` is that of the target, which every run may name."""
    options = Options()
    harmless = {**_DANGEROUS, "--network": (*_DANGEROUS["--network"], network)}
    for name, value in _pairs(arguments):
        if not allow_privileged and name in harmless and value not in harmless[name]:
            shown = name if name in _FLAGS else f"{name} {value}"
            raise SpecNotSupported(f"The Docker option {shown[:100]} would open the machine to the run.", hint=CONSENT)
        try:
            (_FLAGS.get(name) or _VALUES[name])(options, value)
        except _InvalidValue as e:
            raise InvalidRequest(f"The Docker option {name} takes {e}, not {ascii(value)[:80]}.") from None
    return options


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value, which follows `=` or is the next argument."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name)
        if name in _FLAGS:
            yield name, value if equals else "true"
        elif name in _VALUES:
            value = value if equals else next(words, "")
            if not value:
                raise InvalidRequest(f"The Docker option {name} needs a value.")
            yield name, value
        else:
            known = ", ".join(
                sorted(name for name in {**_FLAGS, **_VALUES} if _DANGEROUS.get(name, "any") not in ((), _NO))
            )
            raise SpecNotSupported(
                f"The Docker option {ascii(word)[:80]} is not known here.", hint=f"There are: {known}."
            )


# ---- parsers of values ----


def _flag(key: str) -> Apply:
    def apply(options: Options, value: str) -> None:
        if value not in (*_YES, *_NO):
            raise _InvalidValue("true or false")
        options.host[key] = value in _YES

    return apply


def _matched(pattern: str, what: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text)
    if found is None:
        raise _InvalidValue(what)
    return found


def _size(key: str) -> Apply:
    def apply(options: Options, value: str) -> None:
        found = _matched(r"(\d{1,15}(?:\.\d{1,6})?)([bkmgt]?)(?:i?b)?", "a size such as 512m or 2g", value.lower())
        options.host[key] = int(float(found[1]) * _UNITS[found[2]])

    return apply


def _number(key: str, pattern: str = r"\d{1,9}") -> Apply:
    def apply(options: Options, value: str) -> None:
        options.host[key] = int(_matched(pattern, "a whole number", value)[0])

    return apply


def _text(key: str, pattern: str, what: str) -> Apply:
    def apply(options: Options, value: str) -> None:
        options.host[key] = _matched(pattern, what, value)[0]

    return apply


def _listed(key: str, pattern: str, what: str) -> Apply:
    def apply(options: Options, value: str) -> None:
        options.host.setdefault(key, []).append(_matched(pattern, what, value)[0])

    return apply


def _mapped(key: str, pattern: str, what: str) -> Apply:
    """`pattern` has the name and the value as its two groups."""

    def apply(options: Options, value: str) -> None:
        found = _matched(pattern, what, value)
        options.host.setdefault(key, {})[found[1]] = found[2] or ""

    return apply


def _cpus(options: Options, value: str) -> None:
    options.host["NanoCpus"] = round(float(_matched(r"\d{1,6}(?:\.\d{1,9})?", "a number of cores", value)[0]) * 1e9)


def _env(options: Options, value: str) -> None:
    name, equals, text = value.partition("=")
    if not equals or "\0" in text:
        raise _InvalidValue("NAME=VALUE")
    options.env[names.variable_name(name)] = text


def _hostname(options: Options, value: str) -> None:
    pattern = r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?"
    options.config["Hostname"] = _matched(pattern, "the name of a host", value)[0]


def _user(options: Options, value: str) -> None:
    name = r"[a-z0-9_][a-z0-9_.-]{0,31}"
    options.config["User"] = _matched(rf"{name}(?::{name})?", "USER or USER:GROUP", value)[0]


def _ulimit(options: Options, value: str) -> None:
    found = _matched(r"([a-z]{1,20})=(-1|\d{1,18})(?::(-1|\d{1,18}))?", "NAME=SOFT or NAME=SOFT:HARD", value)
    limit = {"Name": found[1], "Soft": int(found[2]), "Hard": int(found[3] or found[2])}
    options.host.setdefault("Ulimits", []).append(limit)


def _gpus(options: Options, value: str) -> None:
    found = _matched(r"all|\d{1,4}|\"?device=([\w,-]{1,200})\"?", "all, a number, or device=IDS", value)
    which = {"DeviceIDs": found[1].split(",")} if found[1] else {"Count": -1 if value == "all" else int(value)}
    options.host["DeviceRequests"] = [{**which, "Capabilities": [["gpu"]]}]


def _mount(options: Options, value: str) -> None:
    words = dict(word.partition("=")[::2] for word in value.split(","))
    source, target = words.get("source", words.get("src")), words.get("target", words.get("dst"))
    if words.get("type", "bind") != "bind" or not _is_absolute(source) or not _is_absolute(target):
        raise _InvalidValue("type=bind,source=/FOLDER,target=/FOLDER[,readonly]")
    is_read_only = words.get("readonly", words.get("ro", "false")) in ("", *_YES)
    made = {"Type": "bind", "Source": source, "Target": target, "ReadOnly": is_read_only}
    options.host.setdefault("Mounts", []).append(made)


def _is_absolute(path: str | None) -> bool:
    return path is not None and path.startswith("/") and "\0" not in path


def _device(options: Options, value: str) -> None:
    found = _matched(r"(/dev/[^\s:]+?)(?::(/dev/[^\s:]+?))?(?::([rwm]{1,3}))?", "/dev/DEVICE", value)
    made = {"PathOnHost": found[1], "PathInContainer": found[2] or found[1], "CgroupPermissions": found[3] or "rwm"}
    options.host.setdefault("Devices", []).append(made)


def _ignored(options: Options, value: str) -> None:
    """For options that are the default here."""


# ---- the options ----

_SHORT = {
    "-m": "--memory", "-e": "--env", "-h": "--hostname", "-c": "--cpu-shares", "-v": "--volume", "-u": "--user",
    "--net": "--network",
}  # fmt: skip

_FLAGS: dict[str, Apply] = {
    "--read-only": _flag("ReadonlyRootfs"),
    "--init": _flag("Init"),
    "--rm": _ignored,
    "--privileged": _flag("Privileged"),
}

_NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.:-]{0,127}"
_VALUES: dict[str, Apply] = {
    "--shm-size": _size("ShmSize"),
    "--memory": _size("Memory"),
    "--memory-swap": _size("MemorySwap"),
    "--memory-reservation": _size("MemoryReservation"),
    "--cpus": _cpus,
    "--cpu-shares": _number("CpuShares"),
    "--cpuset-cpus": _text("CpusetCpus", r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*", "numbers such as 0-3"),
    "--pids-limit": _number("PidsLimit", r"[1-9]\d{0,8}"),
    "--ulimit": _ulimit,
    "--gpus": _gpus,
    "--env": _env,
    "--hostname": _hostname,
    "--add-host": _listed("ExtraHosts", r"[a-zA-Z0-9.-]{1,253}:[0-9a-fA-F.:]{2,45}", "NAME:ADDRESS"),
    "--dns": _listed("Dns", r"[0-9a-fA-F.:]{2,45}", "an address"),
    "--tmpfs": _mapped("Tmpfs", r"(/[^\s:,]{0,255})(?::([a-z0-9=,]{1,200}))?", "/FOLDER or /FOLDER:OPTIONS"),
    "--network": _text("NetworkMode", _NAME, "none or bridge"),
    "--ipc": _text("IpcMode", _NAME, "private or none"),
    "--pid": _text("PidMode", _NAME, "host"),
    "--uts": _text("UTSMode", "host", "host"),
    "--userns": _text("UsernsMode", "host", "host"),
    "--cgroupns": _text("CgroupnsMode", "host|private", "host or private"),
    "--cgroup-parent": _text("CgroupParent", r"[^\s\0]{1,255}", "a control group"),
    "--runtime": _text("Runtime", _NAME, "the name of a runtime"),
    "--volume": _listed("Binds", r"/[^\s:\0]*:/[^\s:\0]+(?::(?:ro|rw))?", "/HERE:/THERE or /HERE:/THERE:ro"),
    "--volumes-from": _listed("VolumesFrom", _NAME, "the name of a container"),
    "--mount": _mount,
    "--device": _device,
    "--device-cgroup-rule": _listed(
        "DeviceCgroupRules", r"[abc] [\d*]+:[\d*]+ [rwm]{1,3}", "a rule such as c 42:* rmw"
    ),
    "--cap-add": _listed("CapAdd", r"[A-Z_]{2,40}", "the name of a capability"),
    "--security-opt": _listed("SecurityOpt", r"[^\s\0]{1,255}", "one word"),
    "--sysctl": _mapped("Sysctls", r"([a-z0-9._-]{1,100})=(\S{1,200})", "NAME=VALUE"),
    "--group-add": _listed("GroupAdd", r"[a-z0-9_][a-z0-9_.-]{0,31}", "a group"),
    "--user": _user,
}

# Options that let a script out of its container, with the values that are harmless.
_DANGEROUS: dict[str, tuple[str, ...]] = {
    "--privileged": _NO, "--network": ("none", "bridge"), "--ipc": ("private", "none"), "--cgroupns": ("private",),
    **dict.fromkeys(
        ("--pid", "--uts", "--userns", "--cgroup-parent", "--runtime", "--volume", "--volumes-from", "--mount",
         "--device", "--device-cgroup-rule", "--cap-add", "--security-opt", "--sysctl", "--group-add", "--user"),
        (),
    ),
}  # fmt: skip
