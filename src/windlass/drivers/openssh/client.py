"""OpenSSH's client as transport: how it is called, and how it gets credentials.

Nothing that a user wrote stands in a remote command, and no credential in an argv, a variable or a file. A password is
asked for by ssh through a helper that gets it from a socket of ours; a private key is put into an agent that lives
until the login is done.
"""

from __future__ import annotations

import base64
import contextlib
import os
import select
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from windlass.core.errors import InvalidRequest, TargetUnreachable, WindlassError
from windlass.drivers.openssh import diagnostics, keys
from windlass.drivers.openssh.askpass import asking
from windlass.drivers.openssh.login import Address, Hop

# One line, without anything that a login shell of whatever kind would take for its own.
_COMMAND = """{python} -I -S -c 'f=open(0,"rb",0);exec(f.readline())'"""
_CONNECT_SECONDS = 8  # until keys are exchanged
_ALIVE_SECONDS = 15
_ALIVE_TRIES = 2  # the first question comes after 15 s of silence: a dead line is given up after 45 s
_AGENT_SECONDS = 5.0
_KEY_SECONDS = 120  # an agent keeps a key no longer than the longest login
_MOST_WORDS = 1 << 18
# The agent lives as long as this command, which ends with its stdin: if we are killed, so does the agent.
_AGENT_LIFE = 'echo "$SSH_AGENT_PID"; exec cat'
_JUMP_WORDS = "jump.words"
# What ~/.ssh/config may say that keeps a plain connection of ours from proving anything.
_OTHER_WAYS = {"proxycommand", "proxyjump", "bindaddress", "bindinterface"}

_OPTIONS = {
    "ConnectTimeout": _CONNECT_SECONDS,
    "ServerAliveInterval": _ALIVE_SECONDS,
    "ServerAliveCountMax": _ALIVE_TRIES,
    "GlobalKnownHostsFile": "/dev/null",
    "IgnoreUnknown": "KnownHostsCommand",  # before OpenSSH 8.5
    "KnownHostsCommand": "none",
    "VerifyHostKeyDNS": "no",
    "UpdateHostKeys": "no",
    "CheckHostIP": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "ClearAllForwardings": "yes",
    "ControlMaster": "no",
    "ControlPath": "none",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "LogLevel": "ERROR",
}


def _cannot_tell(code: int | None, words: str) -> WindlassError | None:
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """`explain` says what is meant by an exit code and last words, as long as the login lasts."""

    argv: list[str]
    env: dict[str, str]
    explain: Callable[[int | None, str], WindlassError | None] = _cannot_tell


def remote_command(python: str) -> str:
    return _COMMAND.format(python=python)


def opening(code: bytes, data: bytes = b"") -> bytes:
    """What `remote_command` reads first: the program, as one line; then what that reads itself."""
    packed = base64.b64encode(zlib.compress(code, 9))
    return b"import base64,zlib;exec(zlib.decompress(base64.b64decode(b'" + packed + b"')))\n" + data


@contextmanager
def logging_in(hop: Hop, command: str, jump: Hop | None = None) -> Iterator[Call]:
    """How ssh is called. What it needs for the login is there until the context ends."""
    with ExitStack() as stack:
        folder = _folder(stack)
        _refuse_silent(hop, jump)
        words, env = _login(stack, folder / "target", hop)
        words += _through(stack, folder, jump)
        argv = ["ssh", *words, "--", _goal(hop.address), command]
        yield Call(argv, {**_variables(), **env}, partial(_explain, hop, jump, folder))


@contextmanager
def knocking(hop: Hop, jump: Hop | None = None) -> Iterator[tuple[Call, Path]]:
    """How ssh is called to learn a host's key, which it writes into the file. No credential is sent there."""
    with ExitStack() as stack:
        folder = _folder(stack)
        known = folder / "learned"
        words = _common(hop, known) + _spell(
            {"StrictHostKeyChecking": "accept-new", "PreferredAuthentications": "none", "BatchMode": "yes"}
        )
        if jump is not None:
            _refuse_silent(hop, jump)
        words += _through(stack, folder, jump)
        argv = ["ssh", *words, "--", _goal(hop.address), "exit"]
        yield Call(argv, _variables(), partial(_explain, hop, jump, folder)), known


def run(call: Call, data: bytes = b"", seconds: float = 30.0) -> subprocess.CompletedProcess[bytes]:
    """Call ssh and wait, as long as it says little: whoever answers may talk without end."""
    pipe = subprocess.PIPE
    try:
        ssh = subprocess.Popen(call.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=call.env, start_new_session=True)
    except FileNotFoundError:
        raise InvalidRequest(
            "OpenSSH's client is not installed here.", "Install it: sudo apt-get install openssh-client"
        ) from None
    with ssh:
        try:
            said = _listen(ssh, data, time.monotonic() + seconds)
        except TimeoutError:
            raise TargetUnreachable(f"The machine did not answer within {seconds:g} s.") from None
        finally:
            ssh.kill()
    return subprocess.CompletedProcess(call.argv, ssh.returncode, *said)


def _listen(ssh: subprocess.Popen[bytes], data: bytes, deadline: float) -> list[bytes]:
    """What it prints and complains, until it ends."""
    assert ssh.stdin is not None and ssh.stdout is not None and ssh.stderr is not None
    with contextlib.suppress(BrokenPipeError), ssh.stdin:
        ssh.stdin.write(data)
    said = {ssh.stdout.fileno(): b"", ssh.stderr.fileno(): b""}
    with selectors.DefaultSelector() as news:
        for fd in said:
            news.register(fd, selectors.EVENT_READ)
        while news.get_map():
            for key, _ in news.select(_left(deadline)):
                words = os.read(key.fd, _MOST_WORDS)
                said[key.fd] += words
                if not words:
                    news.unregister(key.fd)
                elif len(said[key.fd]) > _MOST_WORDS:
                    raise TargetUnreachable("The machine prints without end.", "Look at what its login shell does.")
    try:
        ssh.wait(_left(deadline))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return list(said.values())


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _explain(hop: Hop, jump: Hop | None, folder: Path, code: int | None, words: str) -> WindlassError | None:
    if jump is None:
        return diagnostics.explain(hop, code, words)
    said = folder / _JUMP_WORDS
    jump_words = said.read_text("utf-8", "replace") if said.exists() else ""
    return diagnostics.explain_behind(hop, jump, code, words, jump_words)


def _refuse_silent(hop: Hop, jump: Hop | None) -> None:
    """Before anything is taken from the key store: a machine that is away for weeks would fill the audit."""
    first = jump or hop
    destination = _destination(first.address)
    if destination is None:
        return
    try:
        socket.create_connection(destination, _CONNECT_SECONDS).close()
    except OSError as e:
        host, port = destination
        is_unknown = isinstance(e, socket.gaierror)
        to = f"Could not resolve hostname {host}" if is_unknown else f"connect to host {host} port {port}"
        words = f"ssh: {to}: {e.strerror or e}"
        problem = diagnostics.explain(first, None, words) or diagnostics.unreachable(first, words)
        raise (problem if jump is None else diagnostics.of_jump(hop, problem)) from None


def _destination(address: Address) -> tuple[str, int] | None:
    """Where ssh would connect to; None if ~/.ssh/config leads it another way, or is not in order."""
    done = run(Call(["ssh", "-G", *_place(address), "--", _goal(address)], _variables()), seconds=_CONNECT_SECONDS)
    said = dict(line.split(" ", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if " " in line)
    if done.returncode or said.keys() & _OTHER_WAYS:
        return None
    return said["hostname"], int(said["port"])


def _folder(stack: ExitStack) -> Path:
    """Ours alone, for the time of one login. Sockets and a public key are in it."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-ssh-")))


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


def _goal(address: Address) -> str:
    return address.checked or address.host


def _place(address: Address) -> list[str]:
    """The options that say where a machine is. Without a port, it is the one of ~/.ssh/config or the usual one."""
    words: list[str] = [] if address.reads_user_files else ["-F", "none"]
    port = {} if address.port is None else {"Port": address.port}
    return words + _spell({**port, "User": address.user})


def _common(hop: Hop, known: Path) -> list[str]:
    return _place(hop.address) + _spell({**_OPTIONS, "UserKnownHostsFile": known, "HostKeyAlias": hop.alias})


def _spell(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _login(stack: ExitStack, place: Path, hop: Hop) -> tuple[list[str], dict[str, str]]:
    """Options and variables of one ssh."""
    known = place.with_suffix(".known")
    if hop.address.host_key is None:
        raise InvalidRequest("The host key of the machine is not pinned yet.", "Attach it first.")
    known.write_text(f"{hop.alias} {keys.host_key(hop.address.host_key)}\n", encoding="ascii")
    words = [*_common(hop, known), *_spell({"StrictHostKeyChecking": "yes"})]
    credential = hop.credential()
    if credential.password is not None:
        env = stack.enter_context(asking(place.with_suffix(".ask"), hop.alias, credential.password))
        return words + _spell({
            "PreferredAuthentications": "password,keyboard-interactive", "PubkeyAuthentication": "no",
            "NumberOfPasswordPrompts": 1, "BatchMode": "no",
        }), env  # fmt: skip
    words += _spell({"BatchMode": "yes", "PreferredAuthentications": "publickey,hostbased,gssapi-with-mic"})
    if credential.private_key is not None:
        agent = stack.enter_context(_agent(place.with_suffix(".agent"), credential.private_key))
        words += _spell({"IdentityAgent": agent, "IdentityFile": "none", "CertificateFile": "none"})
    return words, {}


def _through(stack: ExitStack, folder: Path, jump: Hop | None) -> list[str]:
    """The option by which ssh gets through a jump host: a command for a shell, whose words are ours or checked.

    What that ssh says goes to a file: who refuses us is not to be mistaken for the machine behind it.
    """
    if jump is None:
        return []
    words, env = _login(stack, folder / "jump", jump)
    given = [f"{name}={value}" for name, value in env.items()]
    said = str(folder / _JUMP_WORDS)
    command = ["env", *given, "ssh", "-E", said, *words, "-W", "%h:%p", "--", _goal(jump.address)]
    return _spell({"ProxyCommand": shlex.join(command)})


@contextmanager
def _agent(path: Path, key: SecretStr) -> Iterator[Path]:
    """An agent with one key, for one login."""
    for tool in ("ssh-agent", "ssh-add"):
        if shutil.which(tool) is None:
            raise InvalidRequest(f"{tool} is not installed here.", "Install it: sudo apt-get install openssh-client")
    agent = subprocess.Popen(
        ["ssh-agent", "-a", str(path), "sh", "-c", _AGENT_LIFE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    with agent:
        assert agent.stdout is not None
        is_up = select.select([agent.stdout], [], [], _AGENT_SECONDS)[0]
        pid = agent.stdout.readline().strip() if is_up else b""
        try:
            if not pid:
                raise TargetUnreachable("No machine can be reached by a key just now: ssh-agent does not start here.")
            _add_key(path, key)
            yield path
        finally:
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)
            agent.kill()


def _add_key(agent: Path, key: SecretStr) -> None:
    argv = ["ssh-add", "-q", "-t", str(_KEY_SECONDS), "-"]
    try:
        added = subprocess.run(argv, input=key.get_secret_value().encode(), capture_output=True,
                               env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, timeout=30, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TargetUnreachable("No machine can be reached by a key just now: ssh-add does not end here.") from None
    if added.returncode and not _answers(agent):
        raise TargetUnreachable("No machine can be reached by a key just now: ssh-agent ended here.")
    if added.returncode:
        raise InvalidRequest(f"ssh-add does not take the private key: {diagnostics.last_line(added.stderr.decode())}")


def _answers(path: Path) -> bool:
    """Whether somebody listens there. The file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(path))
        except OSError:
            return False
        return True
