"""Command lines for OpenSSH's client, and the credentials for a login.

No text of a user is in a remote command, and no credential is in an argv, an environment variable or a file. ssh gets
a password from a helper program that reads it from our socket (askpass.py), and a private key from an agent that lives
as long as the login.
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
from windlass.drivers.openssh.askpass import serve_password
from windlass.drivers.openssh.login import Address, LoginHop

# One line without characters that any login shell would interpret.
_COMMAND = """{python} -I -S -c 'f=open(0,"rb",0);exec(f.readline())'"""
_CONNECT_SECONDS = 8  # until keys are exchanged
_ALIVE_SECONDS = 15
_ALIVE_TRIES = 2  # the first keepalive is sent after 15 s of silence: a dead connection ends after 45 s
_AGENT_SECONDS = 5.0
_KEY_SECONDS = 120  # an agent keeps a key no longer than the longest login
_MAX_OUTPUT = 1 << 18
# The agent lives as long as this command, which ends with its stdin: also if the server is killed.
_AGENT_LIFE = 'echo "$SSH_AGENT_PID"; exec cat'
_JUMP_LOG = "jump.words"
# Options of ~/.ssh/config with which a plain TCP connection of ours does not show whether ssh can connect.
_INDIRECT = {"proxycommand", "proxyjump", "bindaddress", "bindinterface"}

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


def _no_explanation(code: int | None, words: str) -> WindlassError | None:
    return None


@dataclass(frozen=True, slots=True)
class SshCommand:
    """How to run ssh. `explain` turns its exit code and error output into an error, until the login ends."""

    argv: list[str]
    env: dict[str, str]
    explain: Callable[[int | None, str], WindlassError | None] = _no_explanation


def remote_command(python: str) -> str:
    return _COMMAND.format(python=python)


def stdin_preamble(code: bytes, data: bytes = b"") -> bytes:
    """What is sent to `remote_command` on stdin: the program as one line, then the input of that program."""
    packed = base64.b64encode(zlib.compress(code, 9))
    return b"import base64,zlib;exec(zlib.decompress(base64.b64decode(b'" + packed + b"')))\n" + data


@contextmanager
def login(hop: LoginHop, command: str, jump: LoginHop | None = None) -> Iterator[SshCommand]:
    """The ssh command that runs `command` on a machine. Its credentials are available until the context ends."""
    with ExitStack() as stack:
        folder = _folder(stack)
        _check_reachable(hop, jump)
        words, env = _login_options(stack, folder / "target", hop)
        words += _proxy_option(stack, folder, jump)
        argv = ["ssh", *words, "--", _destination(hop.address), command]
        yield SshCommand(argv, {**_environment(), **env}, partial(_explain, hop, jump, folder))


@contextmanager
def scan_host_key(hop: LoginHop, jump: LoginHop | None = None) -> Iterator[tuple[SshCommand, Path]]:
    """The ssh command that writes the host key of a machine into the returned file. No credential is sent."""
    with ExitStack() as stack:
        folder = _folder(stack)
        known = folder / "learned"
        words = _common_options(hop, known) + _as_options(
            {"StrictHostKeyChecking": "accept-new", "PreferredAuthentications": "none", "BatchMode": "yes"}
        )
        if jump is not None:
            _check_reachable(hop, jump)
        words += _proxy_option(stack, folder, jump)
        argv = ["ssh", *words, "--", _destination(hop.address), "exit"]
        yield SshCommand(argv, _environment(), partial(_explain, hop, jump, folder)), known


def run(call: SshCommand, data: bytes = b"", seconds: float = 30.0) -> subprocess.CompletedProcess[bytes]:
    """Run ssh and wait for its end. Too much output ends it: a machine may print without end."""
    pipe = subprocess.PIPE
    try:
        ssh = subprocess.Popen(call.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=call.env, start_new_session=True)
    except FileNotFoundError:
        raise InvalidRequest(
            "OpenSSH's client is not installed here.", "Install it: sudo apt-get install openssh-client"
        ) from None
    with ssh:
        try:
            said = _read_output(ssh, data, time.monotonic() + seconds)
        except TimeoutError:
            raise TargetUnreachable(f"The machine did not answer within {seconds:g} s.") from None
        finally:
            ssh.kill()
    return subprocess.CompletedProcess(call.argv, ssh.returncode, *said)


def _read_output(ssh: subprocess.Popen[bytes], data: bytes, deadline: float) -> list[bytes]:
    """stdout and stderr of ssh, until it ends."""
    assert ssh.stdin is not None and ssh.stdout is not None and ssh.stderr is not None
    with contextlib.suppress(BrokenPipeError), ssh.stdin:
        ssh.stdin.write(data)
    said = {ssh.stdout.fileno(): b"", ssh.stderr.fileno(): b""}
    with selectors.DefaultSelector() as selector:
        for fd in said:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_remaining(deadline)):
                words = os.read(key.fd, _MAX_OUTPUT)
                said[key.fd] += words
                if not words:
                    selector.unregister(key.fd)
                elif len(said[key.fd]) > _MAX_OUTPUT:
                    raise TargetUnreachable("The machine prints without end.", "Look at what its login shell does.")
    try:
        ssh.wait(_remaining(deadline))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return list(said.values())


def _remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _explain(hop: LoginHop, jump: LoginHop | None, folder: Path, code: int | None, words: str) -> WindlassError | None:
    if jump is None:
        return diagnostics.explain(hop, code, words)
    said = folder / _JUMP_LOG
    jump_words = said.read_text("utf-8", "replace") if said.exists() else ""
    return diagnostics.explain_behind(hop, jump, code, words, jump_words)


def _check_reachable(hop: LoginHop, jump: LoginHop | None) -> None:
    """Try a plain TCP connection before a secret is read: retries for a machine that is off would fill the audit."""
    first = jump or hop
    destination = _endpoint(first.address)
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


def _endpoint(address: Address) -> tuple[str, int] | None:
    """Host and port that ssh would connect to. None if ~/.ssh/config has it connect in another way, or is not valid."""
    done = run(
        SshCommand(["ssh", "-G", *_address_options(address), "--", _destination(address)], _environment()),
        seconds=_CONNECT_SECONDS,
    )
    said = dict(line.split(" ", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if " " in line)
    if done.returncode or said.keys() & _INDIRECT:
        return None
    return said["hostname"], int(said["port"])


def _folder(stack: ExitStack) -> Path:
    """A private folder for one login: sockets and a known_hosts file."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-ssh-")))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


def _destination(address: Address) -> str:
    return address.checked or address.host


def _address_options(address: Address) -> list[str]:
    """Options for the address of a machine. Without a port, ssh takes that of ~/.ssh/config, or 22."""
    words: list[str] = [] if address.reads_user_files else ["-F", "none"]
    port = {} if address.port is None else {"Port": address.port}
    return words + _as_options({**port, "User": address.user})


def _common_options(hop: LoginHop, known: Path) -> list[str]:
    return _address_options(hop.address) + _as_options(
        {**_OPTIONS, "UserKnownHostsFile": known, "HostKeyAlias": hop.alias}
    )


def _as_options(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _login_options(stack: ExitStack, place: Path, hop: LoginHop) -> tuple[list[str], dict[str, str]]:
    """Options and environment variables for the login at one machine."""
    known = place.with_suffix(".known")
    if hop.address.host_key is None:
        raise InvalidRequest("The host key of the machine is not pinned yet.", "Attach it first.")
    known.write_text(f"{hop.alias} {keys.host_key(hop.address.host_key)}\n", encoding="ascii")
    words = [*_common_options(hop, known), *_as_options({"StrictHostKeyChecking": "yes"})]
    credential = hop.credential()
    if credential.password is not None:
        env = stack.enter_context(serve_password(place.with_suffix(".ask"), hop.alias, credential.password))
        return words + _as_options({
            "PreferredAuthentications": "password,keyboard-interactive", "PubkeyAuthentication": "no",
            "NumberOfPasswordPrompts": 1, "BatchMode": "no",
        }), env  # fmt: skip
    words += _as_options({"BatchMode": "yes", "PreferredAuthentications": "publickey,hostbased,gssapi-with-mic"})
    if credential.private_key is not None:
        agent = stack.enter_context(_agent(place.with_suffix(".agent"), credential.private_key))
        words += _as_options({"IdentityAgent": agent, "IdentityFile": "none", "CertificateFile": "none"})
    return words, {}


def _proxy_option(stack: ExitStack, folder: Path, jump: LoginHop | None) -> list[str]:
    """ProxyCommand for a jump host. ssh runs it in a shell, so every word of it is ours or was validated.

    That ssh logs into a file of its own, so that errors of the jump host are not taken for errors of the machine.
    """
    if jump is None:
        return []
    words, env = _login_options(stack, folder / "jump", jump)
    given = [f"{name}={value}" for name, value in env.items()]
    said = str(folder / _JUMP_LOG)
    command = ["env", *given, "ssh", "-E", said, *words, "-W", "%h:%p", "--", _destination(jump.address)]
    return _as_options({"ProxyCommand": shlex.join(command)})


@contextmanager
def _agent(path: Path, key: SecretStr) -> Iterator[Path]:
    """Start an ssh-agent with one key, for the time of one login."""
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
    if added.returncode and not _is_listening(agent):
        raise TargetUnreachable("No machine can be reached by a key just now: ssh-agent ended here.")
    if added.returncode:
        raise InvalidRequest(f"ssh-add does not take the private key: {diagnostics.last_line(added.stderr.decode())}")


def _is_listening(path: Path) -> bool:
    """Whether the agent listens on its socket. The socket's file exists a moment before that."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True
