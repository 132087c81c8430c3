"""Driver for machines that are reached by SSH: runs the runner's host over a connection of OpenSSH's client.

Nothing is installed on the machine. Its host key is pinned; if it shows another one, nothing is sent to it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from windlass.core import coordinates, names
from windlass.core.entities import EnvironmentSpec
from windlass.core.errors import (
    CredentialsNeeded,
    InvalidRequest,
    LoginRefused,
    NotFound,
    TargetRejected,
    TargetUnreachable,
    WindlassError,
)
from windlass.drivers.base import (
    Attachable,
    Credentials,
    Features,
    Handle,
    Identity,
    TargetConfig,
    TargetGroup,
    WorkspaceCredential,
    shown_as_option,
    shown_in_form,
    shown_in_python,
)
from windlass.drivers.containers.config import CONTAINER_SETTINGS, ContainerConfig
from windlass.drivers.machine import build_tools, network, runner_package
from windlass.drivers.machine.build_tools import Program
from windlass.drivers.machine.channels import InteractiveMachine
from windlass.drivers.machine.driver import MachineDriver
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess
from windlass.drivers.openssh import client as openssh_client
from windlass.drivers.openssh import keys as openssh_keys
from windlass.drivers.openssh.client import SshCommand
from windlass.drivers.openssh.login import Address, Credential, LoginHop

USUAL_PORT = 22
PASSWORD, PRIVATE_KEY = "password", "private-key"  # how the secrets of a target are named
WORKSPACE_KEY = "workspace/ssh-key"
_OPEN_SECONDS = 25.0
_INSTALL_KEY = b"""\
import os
folder = os.path.expanduser("~/.ssh")
key = f.readline().decode("ascii").strip()
os.makedirs(folder, 0o700, exist_ok=True)
path = folder + "/authorized_keys"
there = open(path).read() if os.path.exists(path) else ""
if not any(key.split()[1] in line.split() for line in there.splitlines() if not line.startswith("#")):
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
        file.write(("" if there.endswith(chr(10)) or not there else chr(10)) + key + chr(10))
print("installed")
"""


Login = Literal["agent", "password", "key", "workspace-key"]


def _resource_id(text: str) -> str:
    coordinates.of_resource_id(text)
    return text


class SshConfig(ContainerConfig):
    model_config = ConfigDict(
        json_schema_extra=shown_in_python(
            "RemoteCompute",
            {
                **{name: name for name in ("address", "username", "jump", "python", "root", "docker", "base_image")},
                **{name: name for name in ("network", "engine", "allow_privileged", "password")},
                "port": "ssh_port",
                "login": {"agent": "use_agent", "workspace-key": "use_workspace_key"},
                "private_key": "private_key_file",
                "passphrase": "private_key_passphrase",
                "pin": "host_key",
            },
        )
    )

    address: Annotated[str, AfterValidator(names.host_address)] = Field(
        title="Address",
        examples=["10.0.0.7"],
        description="Its name or IP address, or a Host of ~/.ssh/config; HOST:PORT too.",
        json_schema_extra=shown_as_option("-a", "--address", metavar="HOST"),
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        title="Port",
        examples=[22],
        description="The port of its SSH server; by default that of ~/.ssh/config, else 22.",
        json_schema_extra=shown_as_option("-p", "--port", metavar="PORT"),
    )
    username: Annotated[str, AfterValidator(names.user_name)] = Field(
        title="User name",
        description="The account that runs are run by.",
        json_schema_extra=shown_as_option("-u", "--username", metavar="USER"),
    )
    login: Login | None = Field(
        default=None,
        title="How to log in",
        description="How to log in: with the agent and the keys of ~/.ssh, a password, a private key, or the "
        "workspace's own key (with a password or private key it is installed there); by default with what is given, "
        "else with the agent.",
        json_schema_extra=shown_as_option(
            "",
            values={
                "agent": ["--use-agent", "Log in with the agent and the keys of ~/.ssh; the default if there are."],
                "workspace-key": [
                    "-k",
                    "--use-workspace-key",
                    "Log in with the workspace's own key; with a password or private key it is installed there.",
                ],
            },
        )
        | shown_in_form(
            "login",
            labels={
                "agent": "Agent and keys of the server's account",
                "password": "Password",
                "key": "Private key",
                "workspace-key": "The workspace's own key",
            },
        ),
    )
    jump: Annotated[str, AfterValidator(names.target_name)] | None = Field(
        default=None,
        title="Jump host",
        description="Another attached machine, through which this one is reached.",
        json_schema_extra=shown_as_option("--jump", metavar="TARGET") | shown_in_form("advanced", "target"),
    )
    resource_id: Annotated[str, AfterValidator(_resource_id)] | None = Field(
        default=None,
        title="Azure resource id",
        description="Azure's id of the machine, if it was attached by that.",
        json_schema_extra=shown_in_form("advanced"),
    )
    python: Annotated[str, AfterValidator(names.program_path)] = Field(
        default="python3",
        title="Python",
        description="The Python there that runs the runner: 3.8 or newer.",
        json_schema_extra=shown_as_option("--python", metavar="PATH") | shown_in_form("advanced", "path"),
    )
    root: Annotated[str, AfterValidator(names.remote_folder)] = Field(
        default="~/.windlass/ssh",
        title="Folder",
        description="The folder there: run folders, files of snapshots, environments.",
        json_schema_extra=shown_as_option("--root", metavar="FOLDER") | shown_in_form("advanced", "path"),
    )

    @model_validator(mode="before")
    @classmethod
    def _split_address(cls, given: Any) -> Any:
        """Take the port from an address like HOST:PORT."""
        if not isinstance(given, dict) or not isinstance(given.get("address"), str):
            return given
        host, port = names.split_address(given["address"])
        if port is None:
            return given
        if given.get("port") not in (None, port):
            raise InvalidRequest(f"The address names port {port}, and port is {given['port']}.", "Give one of them.")
        return {**given, "address": host, "port": names.port_number(port)}


def _typed(password: SecretStr) -> SecretStr:
    if any(sign in password.get_secret_value() for sign in "\0\r\n"):
        raise InvalidRequest("The password has a character that cannot be typed at a login.")
    return password


class SshCredentials(Credentials):
    password: Annotated[SecretStr, Field(min_length=1, max_length=1024), AfterValidator(_typed)] | None = Field(
        default=None, description="The password of the account."
    )
    private_key: Annotated[SecretStr, Field(min_length=1, max_length=openssh_keys.LARGEST)] | None = Field(
        default=None,
        description="A private key that the account accepts; it is kept in the key store.",
        json_schema_extra=shown_as_option("--private-key-file", metavar="FILE", is_file=True)
        | shown_in_form(format="multiline"),
    )
    passphrase: Annotated[SecretStr, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, title="Passphrase of the private key", description="The passphrase of the private key."
    )

    def values(self) -> dict[str, SecretStr]:
        """The secrets by the names under which they are stored; a private key without its passphrase."""
        if self.passphrase is not None and self.private_key is None:
            raise InvalidRequest("A passphrase was given, and no private key.")
        found = {PASSWORD: self.password} if self.password is not None else {}
        if self.private_key is not None:
            passphrase = self.passphrase.get_secret_value() if self.passphrase else None
            key = openssh_keys.read_private_key(self.private_key.get_secret_value(), passphrase)
            found[PRIVATE_KEY] = SecretStr(key)
        return found


def _public_half(key: SecretStr, workspace: str) -> str:
    """A line for authorized_keys."""
    return f"{openssh_keys.public_of(key.get_secret_value())} windlass-{workspace}"


def check_login(login: Login, given: set[str], reads_user_files: bool) -> None:
    """Refuse a login whose secrets are missing or do not match it, and the agent on a shared server."""
    if login == "agent" and not reads_user_files:
        raise InvalidRequest(
            "People share this server: the keys of the account that it runs by are not for its users.",
            "Log in with a password, a private key, or the workspace's key: -k",
        )
    wanted = {"password": {PASSWORD}, "key": {PRIVATE_KEY}, "agent": set[str]()}.get(login)
    if len(given) <= 1 and wanted in (None, given):
        return
    needed = " and ".join(sorted(wanted or ())) or "no credentials"
    message = f"The login {login!r} needs {needed}, and got {', '.join(sorted(given)) or 'none'}."
    if login == "password" and not given:
        raise CredentialsNeeded(message, details={"fields": ["password"]})
    raise InvalidRequest(message)


class SshDriver(MachineDriver[SshConfig], Attachable, InteractiveMachine):
    """A Linux machine that is reached by SSH: an account there and Python 3.8 or newer are all that it needs.

    Its host key is shown and pinned: if another machine answers later, nothing is sent there. Passwords and keys go to
    the workspace's key store, which shows them to no one.

    \b
    windlass compute attach ssh gpu-box --address 10.0.0.7 --username jane
    windlass compute attach ssh gpu-box -a 10.0.0.7 -u jane --password-file pw
    windlass compute attach ssh gpu-box -a 10.0.0.7 -u jane -k --ask-password
    """

    kind = "ssh"
    title = "Machine by SSH"
    group: ClassVar[TargetGroup | None] = "attached"
    config_model = SshConfig
    features = Features(gpus=True, built_environments=True, containers=True)
    mutable_settings = CONTAINER_SETTINGS | {"python"}
    checked_inventory = frozenset({"docker", "problems"})
    credentials_model = SshCredentials
    identity_settings = frozenset({"username", "root"})
    workspace_credential = WorkspaceCredential(
        WORKSPACE_KEY, lambda: SecretStr(openssh_keys.make_key_pair("")[0]), _public_half
    )

    def probe(self) -> Identity:
        hop = LoginHop(self.name, self._address(self.config, self.pin))
        with openssh_client.scan_host_key(hop, self._jump()) as (call, learned):
            done = openssh_client.run(call, seconds=_OPEN_SECONDS)
            output = done.stderr.decode("utf-8", "replace")
            keys = [line.split(" ", 1)[1] for line in _lines(learned.read_text("ascii"))] if learned.exists() else []
            if not keys:
                problem = call.explain(done.returncode, output)
                raise problem or TargetUnreachable(f"{self.name} cannot be reached: {output.strip()[-300:]}")
        key = openssh_keys.host_key(keys[0])
        return Identity(
            pin=key,
            shown_as=openssh_keys.fingerprint(key),
            what="host key",
            how_to_compare=f"ssh-keygen -lf /etc/ssh/ssh_host_{_key_file(key)}_key.pub",
            details={"key_type": key.split(" ", 1)[0], "accepts": list(_methods(output))},
        )

    @classmethod
    def read_pin(cls, text: str) -> str:
        return openssh_keys.host_key(text)

    @classmethod
    def show_pin(cls, pin: str) -> str:
        return openssh_keys.fingerprint(pin)

    def location(self) -> str:
        config = self.config
        port = None if config.port == USUAL_PORT else config.port
        return f"{config.username}@{names.join_address(config.address, port)}"

    def left_at(self) -> str:
        return f"{self.location()}:{self.config.root}"

    def endpoint(self) -> str:
        return names.join_address(self.config.address, self.config.port or USUAL_PORT)

    def depends_on(self) -> tuple[str, ...]:
        return (self.config.jump,) if self.config.jump else ()

    def accept(self, given: Credentials) -> tuple[TargetConfig, Mapping[str, SecretStr]]:
        secrets = given.values()
        login = self.config.login or self._choose_login(secrets)
        check_login(login, set(secrets), self.context.reads_user_files)
        return self.config.model_copy(update={"login": login}), secrets

    def uses_workspace_credential(self) -> bool:
        return self.config.login == "workspace-key"

    def enroll(self, public: str) -> None:
        preamble = openssh_client.stdin_preamble(_INSTALL_KEY, public.encode("ascii") + b"\n")
        with self._login_by(self._given_credential) as call:
            done = openssh_client.run(call, preamble, seconds=_OPEN_SECONDS)
            if done.returncode or b"installed" not in done.stdout:
                output = done.stderr.decode("utf-8", "replace")
                problem = call.explain(done.returncode, output)
                said = output.strip()[-300:]
                raise problem or TargetRejected(f"The key could not be installed on {self.name}: {said}")

    def enrollment_problem(self, public: str) -> Mapping[str, str]:
        return {
            "message": f"{self.location()} does not take the workspace's key yet.",
            "fix": f"There: echo '{public}' >> ~/.ssh/authorized_keys",
        }

    def explain(self, error: WindlassError) -> WindlassError:
        if not isinstance(error, LoginRefused) or not self.uses_workspace_credential():
            return error
        where = f"~/.ssh/authorized_keys of {self.config.username} there"
        return LoginRefused(error.message, f"The workspace's key belongs into {where}: windlass compute public-key")

    def _choose_login(self, secrets: Mapping[str, SecretStr]) -> Login:
        if secrets:
            return "password" if PASSWORD in secrets else "key"
        if self.context.reads_user_files and _has_keys():
            return "agent"
        raise CredentialsNeeded(
            f"No password and no key was given for {self.location()}, and ssh has no key of its own here.",
            "Give a password or a private key, or use the workspace's key.",
            {"fields": ["password"]},
        )

    def _key(self) -> str:
        config = self.config
        owner = f"{self.context.workspace}/{self.name}"
        where = f"{config.username}@{config.address}:{config.port or ''} {self.pin or ''}"
        return f"ssh {owner} {where} {config.login or ''} {config.jump or ''} {config.python} {config.root}"

    def _root(self) -> PurePosixPath:
        return PurePosixPath(self.config.root)

    def _tools(self) -> Mapping[str, Any]:
        return {"network": network.variables(os.environ, self.context.reads_user_files)}

    def _programs(self, environment: EnvironmentSpec) -> Mapping[str, Program]:
        trusted = network.certificates(os.environ) if environment.is_built else None
        return {**build_tools.sendable_tools(environment), **({"certificates": trusted} if trusted is not None else {})}

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        runner = runner_package.runner()
        packed = zlib.compress(runner.data, 9)
        header = json.dumps({"root": self.config.root, "digest": runner.digest, "size": len(packed)})
        preamble = openssh_client.stdin_preamble(runner_package.bootstrap(), header.encode("ascii") + b"\n" + packed)
        with self._login() as call:
            return HostClient(
                ChildProcess(self.name, call.argv, call.env),
                on_event=feed.publish,
                on_break=feed.publish_all,
                open_seconds=_OPEN_SECONDS,
                preamble=preamble,
                explain=call.explain,
            )

    def _login(self) -> AbstractContextManager[SshCommand]:
        return self._login_by(partial(self._credential, self.name, self.config))

    def _login_by(self, credential: Callable[[], Credential]) -> AbstractContextManager[SshCommand]:
        command = openssh_client.remote_command(self.config.python)
        hop = LoginHop(self.name, self._address(self.config, self.pin), credential)
        return openssh_client.login(hop, command, self._jump())

    def _address(self, config: SshConfig, pin: str | None) -> Address:
        around = self.context
        # On a private server the name may be a Host of ~/.ssh/config, which ssh resolves. Behind a jump host the jump
        # host resolves it.
        resolved = around.resolve(config.address) if config.jump is None else None
        checked = None if around.reads_user_files else resolved
        return Address(config.address, config.port, config.username, pin, checked, around.reads_user_files)

    def _credential(self, name: str, config: SshConfig) -> Credential:
        match config.login:
            case "password":
                return Credential(password=self.secrets.get(f"target/{name}/{PASSWORD}"))
            case "key":
                return Credential(private_key=self.secrets.get(f"target/{name}/{PRIVATE_KEY}"))
            case "workspace-key":
                return Credential(private_key=self.secrets.get(WORKSPACE_KEY))
        if not self.context.reads_user_files:
            raise TargetRejected(
                f"{name} was attached with the keys of the account that this server runs by, which people share now.",
                "Attach it anew with a password, a private key, or the workspace's key (-k): --update",
            )
        return Credential()

    def _given_credential(self) -> Credential:
        """The credential of the attach request, which installs the workspace's key."""
        try:
            return Credential(password=self.secrets.get(f"target/{self.name}/{PASSWORD}"))
        except NotFound:
            return Credential(private_key=self.secrets.get(f"target/{self.name}/{PRIVATE_KEY}"))

    def _jump(self) -> LoginHop | None:
        name = self.config.jump
        if name is None:
            return None
        other = self.context.target(name)
        try:
            config = SshConfig(**other.config)
        except ValidationError:
            raise InvalidRequest(f"{name} is not a machine that is reached by SSH, so it is no jump host.") from None
        if config.jump is not None:
            raise InvalidRequest(f"The jump host {name} has a jump host itself; one is enough.")
        return LoginHop(name, self._address(config, other.pin), partial(self._credential, name, config))


def _has_keys() -> bool:
    """Whether ssh has a key to offer without options: an agent, or key files of the account."""
    if os.environ.get("SSH_AUTH_SOCK"):
        return True
    try:
        return any(not path.name.endswith(".pub") for path in Path("~/.ssh").expanduser().glob("id_*"))
    except (OSError, RuntimeError):  # the account has no home, or does not let us read it
        return False


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _key_file(key: str) -> str:
    """The key type as in the name of the machine's key file."""
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(key.split(" ", 1)[0], "ecdsa")


def _methods(output: str) -> tuple[str, ...]:
    """The login methods in "Permission denied (publickey,password)."."""
    _, _, rest = output.rpartition("Permission denied (")
    return tuple(rest.partition(")")[0].split(",")) if rest else ()


DRIVER = SshDriver
