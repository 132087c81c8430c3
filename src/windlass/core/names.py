"""Validation of names, ids, addresses and paths. They are checked once, where they enter; inner code trusts them."""

from __future__ import annotations

import re
from typing import Any, Callable, Match, Optional, Tuple

from windlass.core.errors import InvalidRequest

MAX_TAG_KEY = 100
MAX_TAG_VALUE = 1000
MAX_METRIC_NAME = 256
MAX_IMAGE = 500
MAX_PATH = 4096
MAX_PATH_COMPONENT = 255
MAX_PATH_PARTS = 255
MAX_HOST = 253


class _Pattern:
    """Regular expression that is compiled at its first use, since a script uses few of them."""

    match: Callable[[str], Optional[Match[str]]]
    search: Callable[[str], Optional[Match[str]]]

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._text, self._flags)
        self.match, self.search = compiled.match, compiled.search
        return getattr(compiled, name)


_EXPERIMENT = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_\-]{0,254}\Z")
_TARGET = _Pattern(r"[a-zA-Z][a-zA-Z0-9\-]{1,31}\Z")
_RETRY = _Pattern(r"(node-loss|failure|exit:([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5]))\Z")
_WORKSPACE = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_\-]{1,63}\Z")
_RUN_ID = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{0,255}\Z")
_REGISTERED = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{0,254}\Z")
_ENVIRONMENT_VERSION = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{0,49}\Z")
_PROVIDED = _Pattern(r"(azureml|microsoft)", re.IGNORECASE)
_CONNECTION = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{0,63}\Z")
_WHEEL = _Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.+!\-]{0,250}\.whl\Z")
_SECRET = _Pattern(r"[a-zA-Z0-9_][a-zA-Z0-9_\-]{0,126}\Z")
_VARIABLE = _Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z")
_DIGEST = _Pattern(r"[0-9a-f]{64}\Z")
USUAL_TARGET = 16  # characters; a longer name is accepted with a warning
_VERSION = _Pattern(r"[0-9]{1,9}\Z")
_IMAGE = _Pattern(
    r"(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*"
    r"(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?\Z"
)
_USER = _Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+\-]{0,63}\Z")
_HOST_PART = _Pattern(r"[A-Za-z0-9_]([A-Za-z0-9_\-]{0,61}[A-Za-z0-9_])?\Z")
_NUMBER = _Pattern(r"([0-9]+|0[xX][0-9A-Fa-f]*)\Z")
_PROGRAM = _Pattern(r"(~?/)?[A-Za-z0-9_.+][A-Za-z0-9_.+\-]*(/[A-Za-z0-9_.+][A-Za-z0-9_.+\-]*)*\Z")
_CONTROL = _Pattern("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Characters that cannot be seen, or change how their neighbours are shown. Joiners stay: scripts and emoji need them.
_DECEIVING = frozenset(
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
_DRIVE = _Pattern(r"[A-Za-z]:")
# Variables that affect the loader, the interpreter or a shell before the user's code runs, and our own.
_RESERVED_VARIABLES = _Pattern(r"(LD_|DYLD_|WINDLASS_|AZUREML_RUN_TOKEN\Z|BASH_ENV\Z|ENV\Z|IFS\Z)")


def experiment_name(text: str) -> str:
    rule = (
        "Experiment name must be between 1 and 255 characters long, start with a letter or digit, and have "
        "only letters, digits, '_' and '-'"
    )
    return _matching(_EXPERIMENT, text, rule)


def target_name(text: str) -> str:
    """Validate the name of a target. Azure allows 16 characters; public code uses more, so 32 are accepted."""
    return _matching(_TARGET, text, "A target's name has 2 to 32 letters, digits and '-', and starts with a letter")


def retry_condition(text: str) -> str:
    """Validate a condition of a retry policy: an end of an attempt after which the run is queued again."""
    return _matching(_RETRY, text, "A run is retried on node-loss, failure or exit:CODE, with a code from 1 to 255")


def workspace_name(text: str) -> str:
    return _matching(_WORKSPACE, text, "A workspace's name has 2 to 64 letters, digits, '_' and '-'")


def environment_name(text: str) -> str:
    """The name of a registered environment."""
    return _matching(_REGISTERED, text, "An environment's name has 1 to 255 letters, digits, '_', '-' and '.'")


def environment_version(text: str) -> str:
    rule = "A version of an environment has 1 to 50 letters, digits, '_', '-' and '.'"
    return _matching(_ENVIRONMENT_VERSION, text, rule)


def own_environment_name(text: str) -> str:
    """Validate a name that users may register; names of provided environments are reserved."""
    if _PROVIDED.match(text):
        raise InvalidRequest(
            f"Names of environments that begin with AzureML or Microsoft are reserved: {_shown(text)}",
            hint="Choose another name, such as environment.clone('my-name').",
        )
    return environment_name(text)


def model_name(text: str) -> str:
    """The name of a registered model."""
    rule = "A model's name has 1 to 255 letters, digits, '_', '-' and '.', and begins with a letter or digit"
    return _matching(_REGISTERED, text, rule)


def wheel_name(text: str) -> str:
    """The file name of a wheel."""
    return _matching(_WHEEL, text, "A wheel has a name like name-1.0-py3-none-any.whl")


def secret_name(text: str) -> str:
    """Validate the name of a user's secret. Those of the server contain a '/', so users cannot name them."""
    rule = "A secret's name has 1 to 127 letters, digits, '_' and '-', and does not begin with '-'"
    return _matching(_SECRET, text, rule)


def connection_name(text: str) -> str:
    """The name of a connection: what Azure calls a cluster, an account or a workspace can be one."""
    rule = "A connection's name has 1 to 64 letters, digits, '_', '-' and '.', and begins with a letter or digit"
    return _matching(_CONNECTION, text, rule)


def run_configuration_name(text: str) -> str:
    rule = "A run configuration's name has 1 to 64 letters, digits, '_', '-' and '.', and starts with a letter or digit"
    return _matching(_CONNECTION, text, rule)


def run_id(text: str) -> str:
    if not _RUN_ID.match(text) or ".." in text:
        raise InvalidRequest(f"A run id has 1 to 256 letters, digits, '_', '-' and '.': {_shown(text)}")
    return text


def digest(text: str) -> str:
    return _matching(_DIGEST, text, "A digest is 64 hexadecimal digits (SHA-256)")


def variable_name(text: str) -> str:
    """The name of an environment variable that a user may set for a run."""
    if not _VARIABLE.match(text):
        raise InvalidRequest(f"Not a name of an environment variable: {_shown(text)}")
    if _RESERVED_VARIABLES.match(text):
        raise InvalidRequest(f"The environment variable {text} is reserved and cannot be set for a run.")
    return text


def host_address(text: str) -> str:
    """Validate a host name or IP address. Refuses options, URLs and IP addresses in other notations."""
    if len(text) <= MAX_HOST and (_is_host_name(text) or _is_ip_address(text)):
        return text
    what = ""
    if any(sign in text for sign in "@/[]"):
        what = ", without a user, a scheme or brackets"
    elif _NUMBER.match(text.rpartition(".")[2]):
        what = "; an IPv4 address has four decimal numbers"
    raise InvalidRequest(f"An address is a host name or an IP address{what}: {_shown(text)}")


def port_number(number: int) -> int:
    if not 1 <= number <= 65535:
        raise InvalidRequest(f"A port is a number from 1 to 65535, not {number}.")
    return number


def split_address(text: str) -> Tuple[str, Optional[int]]:
    """Split host, host:port, [IPv6]:port or an IPv6 address by itself. A text with an invalid port is returned whole,
    for host_address() to refuse.

    >>> split_address("[fd00::7]:2222")
    ('fd00::7', 2222)
    """
    host, colon, port = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], None
    if not colon or (":" in host and not host.startswith("[")):
        return text, None
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        return text, None
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host, int(port)


def join_address(host: str, port: Optional[int]) -> str:
    """The address with its port; without one, the address by itself."""
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def https_address(text: str) -> str:
    """The address of a web service, https://HOST[:PORT], without a path."""
    if "@" in text:  # not shown: what stands before it may be a password
        raise InvalidRequest("The address of a service has no user and no password in it: https://host")
    host, colon, port = text[len("https://") :].rstrip("/").partition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5
    if not text.startswith("https://") or (colon and not is_port):
        raise InvalidRequest(f"The address of a service looks like https://host or https://host:port: {_shown(text)}")
    host_address(host)
    return f"https://{host}:{port_number(int(port))}" if colon else f"https://{host}"


def user_name(text: str) -> str:
    """The account on a machine."""
    rule = "A user name has 1 to 64 letters, digits, '_', '.', '@', '+' and '-', and does not start with '-'"
    return _matching(_USER, text, rule)


def member_name(text: str) -> str:
    """Validate the name of a member: a short name or an e-mail address, as shown with their runs and in the audit."""
    rule = (
        "A member's name has 1 to 64 letters, digits, '_', '.', '@', '+' and '-', and begins with a letter, "
        "a digit or '_'"
    )
    return _matching(_USER, text, rule)


def program_path(text: str) -> str:
    """Validate the path of a program on another machine, which becomes part of a shell command there."""
    if len(text) > 512 or not _PROGRAM.match(text):
        raise InvalidRequest(
            f"A program's path has letters, digits, '_', '.', '+', '-' and '/', and no spaces: {_shown(text)}"
        )
    return text


def remote_folder(text: str) -> str:
    """Validate a folder on another machine: absolute, or below the home of the account there."""
    if len(text) > 1024 or not text.startswith(("/", "~/")) or ".." in text.split("/"):
        raise InvalidRequest(f"A folder on a machine is absolute, or begins with ~/: {_shown(text)}")
    return printable("A folder's path", text)


def image_reference(text: str) -> str:
    """The name of a container image: [registry/]name[:tag][@sha256:digest]."""
    if len(text) > MAX_IMAGE or not _IMAGE.match(text):
        raise InvalidRequest(
            f"Not the name of an image: {_shown(text)}",
            "Names look like python:3.11-slim or registry.example.org/team/image@sha256:<64 hexadecimal digits>.",
        )
    return text


def metric_name(text: str) -> str:
    return _line("A metric's name", text, MAX_METRIC_NAME)


def tag_key(text: str) -> str:
    return _line("A tag's key", text, MAX_TAG_KEY)


def tag_value(text: str) -> str:
    if len(text) > MAX_TAG_VALUE:
        raise InvalidRequest(f"A tag's value has at most {MAX_TAG_VALUE} characters; this one has {len(text)}.")
    return printable("A tag's value", text)


def relative_path(text: str) -> str:
    """Validate the path of a file in a run, a snapshot or a model: relative, with '/', and without '..'."""
    problem = None
    parts = text.split("/")
    if not text or len(text.encode("utf-8", "surrogatepass")) > MAX_PATH:
        problem = f"is empty or longer than {MAX_PATH} bytes"
    elif text.startswith("/") or "\\" in text or _DRIVE.match(text) or "://" in text:
        problem = "is not a relative path with '/' between its parts"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "has an empty, '.' or '..' part"
    elif len(parts) > MAX_PATH_PARTS:
        problem = f"has more than {MAX_PATH_PARTS} parts"
    elif any(len(part.encode("utf-8", "surrogatepass")) > MAX_PATH_COMPONENT for part in parts):
        problem = f"has a part longer than {MAX_PATH_COMPONENT} bytes"
    elif _CONTROL.search(text):
        problem = "has control characters"
    if problem:
        raise InvalidRequest(f"The path {_shown(text)} {problem}.")
    return text


def printable(what: str, text: str) -> str:
    """Validate a text for display: no control characters, no direction overrides, no lone surrogates."""
    for c in text:
        if c in _DECEIVING or (_CONTROL.match(c) and c not in "\n\t"):
            raise InvalidRequest(f"{what} has a character that cannot be shown (U+{ord(c):04X}): {_shown(text)}")
    return text


def make_run_id(experiment: str, unix_seconds: int, random_hex: str) -> str:
    """Azure's shape: <experiment>_<unix seconds>_<8 hex>. Long names are cut so that the id fits 256 characters."""
    return f"{experiment[:200]}_{unix_seconds}_{random_hex[:8]}"


def split_reference(text: str) -> Tuple[str, Optional[int]]:
    """ "name:3" -> ("name", 3); "name" -> ("name", None)."""
    name, colon, version = text.rpartition(":")
    if not colon:
        return text, None
    if not _VERSION.match(version):
        raise InvalidRequest(f"A version is a whole number: {_shown(text)}")
    return name, int(version)


def _is_host_name(text: str) -> bool:
    parts = text[:-1].split(".") if text.endswith(".") else text.split(".")
    # Resolvers read a name whose last part is a number as an IPv4 address in some notation: 127.1, 0x7f000001.
    return all(_HOST_PART.match(part) for part in parts) and not _NUMBER.match(parts[-1])


def _is_ip_address(text: str) -> bool:
    import ipaddress  # imported here: few commands need it

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _line(what: str, text: str, limit: int) -> str:
    if not text.strip():
        raise InvalidRequest(f"{what} cannot be empty.")
    if len(text) > limit:
        raise InvalidRequest(f"{what} has at most {limit} characters; this one has {len(text)}.")
    if "\n" in text or "\t" in text:
        raise InvalidRequest(f"{what} is one line: {_shown(text)}")
    return printable(what, text)


def _matching(pattern: _Pattern, text: str, rule: str) -> str:
    if not pattern.match(text):
        raise InvalidRequest(f"{rule}: {_shown(text)}")
    return text


def _shown(text: str) -> str:
    short = ascii(text if len(text) <= 60 else text[:57] + "...")
    return short if len(short) <= 200 else short[:197] + "..."
