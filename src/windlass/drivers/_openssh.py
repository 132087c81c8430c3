"""OpenSSH's client as transport: how it is called, how it gets credentials, and what it means by its last words.

Nothing that a user wrote stands in a remote command, and no credential in an argv, a variable or a file. A password is
asked for by ssh through a helper that gets it from a socket of ours; a private key is put into an agent that lives
until the login is done.
"""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from windlass.core.errors import (
    InvalidRequest,
    LoginRefused,
    TargetQuarantined,
    TargetRejected,
    TargetUnreachable,
    WindlassError,
)
from windlass.drivers import _keys
from windlass.drivers._askpass import asking

# One line, without anything that a login shell of whatever kind would take for its own.
_COMMAND = """{python} -I -S -c 'f=open(0,"rb",0);exec(f.readline())'"""
_CONNECT_SECONDS = 8  # until keys are exchanged
_ALIVE_SECONDS = 15
_ALIVE_TRIES = 2  # the first question comes after 15 s of silence: a dead line is given up after 45 s
_AGENT_SECONDS = 5.0

_OPTIONS = {
    "ConnectTimeout": _CONNECT_SECONDS,
    "ServerAliveInterval": _ALIVE_SECONDS,
    "ServerAliveCountMax": _ALIVE_TRIES,
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "CheckHostIP": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "ClearAllForwardings": "yes",
    "ControlMaster": "no",
    "ControlPath": "none",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "LogLevel": "ERROR",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a machine is. `checked` is the address that may be connected to, where names are not to be trusted."""

    host: str
    port: int
    user: str
    host_key: str | None = None
    checked: str | None = None
    reads_user_files: bool = True  # ~/.ssh/config: aliases, jump hosts, certificates


@dataclass(frozen=True, slots=True)
class Credential:
    """What lets us in; neither: the user's agent, default keys and ~/.ssh/config."""

    password: SecretStr | None = None
    private_key: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class Call:
    argv: list[str]
    env: dict[str, str]


def remote_command(python: str) -> str:
    return _COMMAND.format(python=python)


def opening(code: bytes, data: bytes = b"") -> bytes:
    """What `remote_command` reads first: the program, as one line; then what that reads itself."""
    packed = base64.b64encode(zlib.compress(code, 9))
    return b"import base64,zlib;exec(zlib.decompress(base64.b64decode(b'" + packed + b"')))\n" + data


@contextmanager
def logging_in(
    address: Address, credential: Credential, command: str, jump: tuple[Address, Credential] | None = None
) -> Iterator[Call]:
    """How ssh is called. What it needs for the login is there until the context ends."""
    with ExitStack() as stack:
        folder = _folder(stack)
        words, env = _login(stack, folder / "target", address, credential)
        words += _through(stack, folder, jump)
        yield Call(["ssh", *words, "--", address.checked or address.host, command], {**_variables(), **env})


@contextmanager
def knocking(address: Address, jump: tuple[Address, Credential] | None = None) -> Iterator[tuple[Call, Path]]:
    """How ssh is called to learn a host's key, which it writes into the file. No credential is sent there."""
    with ExitStack() as stack:
        folder = _folder(stack)
        known = folder / "learned"
        words = _common(address, known, "learned") + _spell(
            {"StrictHostKeyChecking": "accept-new", "PreferredAuthentications": "none", "BatchMode": "yes"}
        )
        words += _through(stack, folder, jump)
        yield Call(["ssh", *words, "--", address.checked or address.host, "exit"], _variables()), known


def run(call: Call, data: bytes = b"", seconds: float = 30.0) -> subprocess.CompletedProcess[bytes]:
    """Call ssh and wait."""
    try:
        return subprocess.run(call.argv, input=data, env=call.env, capture_output=True, timeout=seconds,
                              start_new_session=True, check=False)  # fmt: skip
    except FileNotFoundError:
        raise InvalidRequest("OpenSSH's client is not installed here.", "sudo apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise TargetUnreachable(f"The machine did not answer within {seconds:g} s.") from None


def explain(name: str, code: int | None, words: str) -> WindlassError | None:
    """What ssh, the login shell or our arrival there meant, with what to do about it; None if that is not known."""
    for problem, said in _arrivals(words):
        return _cannot(name, problem, said)
    for sign, kind, sentence, hint in _SIGNS:
        if sign.lower() in words.lower():
            return kind(sentence.format(name=name, words=_last_line(words)), hint.format(name=name))
    if code == 127 or "not found" in words and "python" in words:
        return TargetRejected(
            f"There is no Python on {name} under the name that was given.",
            f"There: sudo apt-get install python3, or name another: windlass compute update {name} --python /path",
        )
    return None


_CHANGED = "The host key of {name} is not the one that was pinned: it may be another machine. Nothing was sent."
_TRUST = "If the machine was set up anew: windlass compute trust {name}"
_SIGNS: tuple[tuple[str, type[WindlassError], str, str], ...] = (
    ("IDENTIFICATION HAS CHANGED", TargetQuarantined, _CHANGED, _TRUST),
    ("Host key verification failed", TargetQuarantined, _CHANGED, _TRUST),
    ("host key is known for", TargetQuarantined, _CHANGED, _TRUST),
    ("Permission denied", LoginRefused, "{name} does not let us in: {words}",
     "Check user name and credentials, then: windlass compute attach … --update"),
    ("Too many authentication failures", LoginRefused, "{name} does not let us in: {words}",
     "The agent offers too many keys; name one: --private-key-file"),
    ("Could not resolve hostname", TargetUnreachable, "{name} cannot be reached: {words}", "Check the address."),
    ("Connection refused", TargetUnreachable, "{name} cannot be reached: {words}",
     "Is its SSH server running, on that port?"),
    ("No route to host", TargetUnreachable, "{name} cannot be reached: {words}", "Is the machine on?"),
    ("timed out", TargetUnreachable, "{name} cannot be reached: {words}",
     "Is the machine on, and does a firewall let port and address pass?"),
    ("account is currently not available", LoginRefused, "The account on {name} has no login shell.",
     "There: sudo chsh -s /bin/bash USER"),
)  # fmt: skip


def _arrivals(words: str) -> Iterator[tuple[str, str]]:
    for line in words.splitlines():
        if line.startswith("windlass-arrival "):
            _, problem, *said = line.split(" ", 2)
            yield problem, said[0] if said else ""


def _cannot(name: str, problem: str, said: str) -> WindlassError:
    if problem == "old-python":
        return TargetRejected(
            f"Python {said} on {name} is too old: the runner needs 3.8 or newer.",
            "There: sudo apt-get install python3.11, or name another one with --python",
        )
    if problem == "not-private":
        return TargetRejected(f"{said} on {name} belongs to others or may be written by them.", "chmod 700 there")
    return TargetRejected(
        f"{name} cannot be used: its folder cannot be written: {said}.",
        "Make room or give the right to write there, or name another folder with --root",
    )


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300]


def _folder(stack: ExitStack) -> Path:
    """Ours alone, for the time of one login. Sockets and a public key are in it."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-ssh-")))


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


def _common(address: Address, known: Path, alias: str) -> list[str]:
    words: list[str] = [] if address.reads_user_files else ["-F", "none"]
    return words + _spell(
        {
            **_OPTIONS,
            "Port": address.port,
            "User": address.user,
            "UserKnownHostsFile": known,
            "HostKeyAlias": alias,
        }
    )


def _spell(options: dict[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _login(stack: ExitStack, place: Path, address: Address, credential: Credential) -> tuple[list[str], dict[str, str]]:
    """Options and variables of one ssh."""
    alias = f"windlass-{secrets.token_hex(8)}"  # in a password's prompt it tells that it is this host who asks
    known = place.with_suffix(".known")
    if address.host_key is None:
        raise InvalidRequest("The host key of the machine is not pinned yet.", "Attach it first.")
    known.write_text(f"{alias} {_keys.host_key(address.host_key)}\n", encoding="ascii")
    words = [*_common(address, known, alias), *_spell({"StrictHostKeyChecking": "yes"})]
    if credential.password is not None:
        env = stack.enter_context(asking(place.with_suffix(".ask"), alias, credential.password))
        return words + _spell({
            "PreferredAuthentications": "password,keyboard-interactive", "PubkeyAuthentication": "no",
            "NumberOfPasswordPrompts": 1, "BatchMode": "no",
        }), env  # fmt: skip
    words += _spell({"BatchMode": "yes", "PreferredAuthentications": "publickey,hostbased,gssapi-with-mic"})
    if credential.private_key is not None:
        agent = stack.enter_context(_agent(place.with_suffix(".agent"), credential.private_key))
        words += _spell({"IdentityAgent": agent, "IdentityFile": "none", "CertificateFile": "none"})
    return words, {}


def _through(stack: ExitStack, folder: Path, jump: tuple[Address, Credential] | None) -> list[str]:
    """The option by which ssh gets through a jump host: a command for a shell, whose words are ours or checked."""
    if jump is None:
        return []
    address, credential = jump
    words, env = _login(stack, folder / "jump", address, credential)
    given = [f"{name}={value}" for name, value in env.items()]
    command = ["env", *given, "ssh", *words, "-W", "%h:%p", "--", address.checked or address.host]
    return _spell({"ProxyCommand": shlex.join(command)})


@contextmanager
def _agent(path: Path, key: SecretStr) -> Iterator[Path]:
    """An agent with one key, for one login."""
    for tool in ("ssh-agent", "ssh-add"):
        if shutil.which(tool) is None:
            raise InvalidRequest(f"{tool} is not installed here.", "sudo apt-get install openssh-client")
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + _AGENT_SECONDS
        while not _answers(path):
            if agent.poll() is not None or time.monotonic() > deadline:
                raise TargetUnreachable("No machine can be reached by a key just now: ssh-agent does not start here.")
            time.sleep(0.001)
        _add_key(path, key)
        yield path
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait()


def _add_key(agent: Path, key: SecretStr) -> None:
    try:
        added = subprocess.run(["ssh-add", "-q", "-"], input=key.get_secret_value().encode(), capture_output=True,
                               env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, timeout=30, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TargetUnreachable("No machine can be reached by a key just now: ssh-add does not end here.") from None
    if added.returncode and not _answers(agent):
        raise TargetUnreachable("No machine can be reached by a key just now: ssh-agent ended here.")
    if added.returncode:
        raise InvalidRequest(f"ssh-add does not take the private key: {_last_line(added.stderr.decode())}")


def _answers(path: Path) -> bool:
    """Whether somebody listens there. The file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(path))
        except OSError:
            return False
        return True
