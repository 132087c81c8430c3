"""A Linux machine that is reached by SSH: the same runner as on this computer, at the far end of OpenSSH's client.

Nothing is installed there: it needs an account and Python 3.8 or newer. Its host key is pinned; if that changes,
nothing is sent any more.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from windlass.core import coordinates, names
from windlass.core.entities import EnvironmentSpec
from windlass.core.errors import InvalidRequest, TargetRejected, TargetUnreachable
from windlass.drivers.base import Attachable, Features, Handle, Identity
from windlass.drivers.containers.config import ContainerConfig
from windlass.drivers.machine import build_tools, network, runner_package
from windlass.drivers.machine.build_tools import Program
from windlass.drivers.machine.driver import MachineDriver
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess
from windlass.drivers.openssh import client as openssh_client
from windlass.drivers.openssh import keys as openssh_keys
from windlass.drivers.openssh.client import Call
from windlass.drivers.openssh.login import Address, Credential, Hop

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


def _resource_id(text: str) -> str:
    coordinates.of_resource_id(text)
    return text


class SshConfig(ContainerConfig):
    address: Annotated[str, AfterValidator(names.host_address)] = Field(
        description="Its name or IP address, or a Host of ~/.ssh/config."
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="The port of its SSH server; by default what ~/.ssh/config says, else 22.",
    )
    username: Annotated[str, AfterValidator(names.user_name)] = Field(description="The account that runs are run by.")
    login: Literal["agent", "password", "key", "workspace-key"] = Field(
        default="agent",
        description="What lets us in: the agent and keys of whoever runs the server, a password or a private key from "
        "the key store, or the key that the workspace made.",
    )
    host_key: Annotated[str, AfterValidator(openssh_keys.host_key)] | None = Field(
        default=None, description="Its public host key, pinned when it was attached."
    )
    host_key_confirmed: bool = Field(default=False, description="Whether somebody compared the fingerprint.")
    jump: Annotated[str, AfterValidator(names.target_name)] | None = Field(
        default=None, description="Another attached machine, through which this one is reached."
    )
    resource_id: Annotated[str, AfterValidator(_resource_id)] | None = Field(
        default=None, description="Azure's id of the machine, if it was attached by that."
    )
    python: Annotated[str, AfterValidator(names.program_path)] = Field(
        default="python3", description="The Python there that runs the runner: 3.8 or newer."
    )
    root: Annotated[str, AfterValidator(names.remote_folder)] = Field(
        default="~/.windlass/ssh", description="The folder there: run folders, files of snapshots, environments."
    )


class SshDriver(MachineDriver[SshConfig], Attachable):
    kind = "ssh"
    config_model = SshConfig
    features = Features(gpus=True, built_environments=True, containers=True)

    def probe(self) -> Identity:
        with openssh_client.knocking(Hop(self.name, self._address(self.config)), self._jump()) as (call, learned):
            done = openssh_client.run(call, seconds=_OPEN_SECONDS)
            words = done.stderr.decode("utf-8", "replace")
            keys = [line.split(" ", 1)[1] for line in _lines(learned.read_text("ascii"))] if learned.exists() else []
            if not keys:
                problem = call.explain(done.returncode, words)
                raise problem or TargetUnreachable(f"{self.name} cannot be reached: {words.strip()[-300:]}")
        key = openssh_keys.host_key(keys[0])
        return Identity(
            pin=key,
            shown_as=openssh_keys.fingerprint(key),
            what="host key",
            how_to_compare=f"ssh-keygen -lf /etc/ssh/ssh_host_{_key_file(key)}_key.pub",
            details={"key_type": key.split(" ", 1)[0], "accepts": list(_methods(words))},
        )

    def location(self) -> str:
        return f"{self.config.username}@{self.config.address}"

    def enroll(self, public_key: str) -> None:
        opening = openssh_client.opening(_INSTALL_KEY, public_key.encode("ascii") + b"\n")
        with self._login() as call:
            done = openssh_client.run(call, opening, seconds=_OPEN_SECONDS)
            if done.returncode or b"installed" not in done.stdout:
                words = done.stderr.decode("utf-8", "replace")
                problem = call.explain(done.returncode, words)
                said = words.strip()[-300:]
                raise problem or TargetRejected(f"The key could not be installed on {self.name}: {said}")

    def _key(self) -> str:
        config = self.config
        whose = f"{self.context.workspace}/{self.name}"
        where = f"{config.username}@{config.address}:{config.port or ''} {config.host_key or ''}"
        return f"ssh {whose} {where} {config.login} {config.jump or ''} {config.python} {config.root}"

    def _root(self) -> PurePosixPath:
        return PurePosixPath(self.config.root)

    def _tools(self) -> Mapping[str, Any]:
        return {"network": network.variables(os.environ, self.context.reads_user_files)}

    def _programs(self, environment: EnvironmentSpec) -> Mapping[str, Program]:
        trusted = network.certificates(os.environ) if environment.is_built else None
        return {**build_tools.to_send(environment), **({"certificates": trusted} if trusted is not None else {})}

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        runner = runner_package.runner()
        packed = zlib.compress(runner.data, 9)
        order = {"root": self.config.root, "digest": runner.digest, "size": len(packed)}
        opening = openssh_client.opening(runner_package.arrival(), json.dumps(order).encode("ascii") + b"\n" + packed)
        with self._login() as call:
            return HostClient(
                ChildProcess(self.name, call.argv, call.env),
                on_event=feed.publish,
                on_break=feed.publish_all,
                open_seconds=_OPEN_SECONDS,
                opening=opening,
                explain=call.explain,
            )

    def _login(self) -> AbstractContextManager[Call]:
        command = openssh_client.remote_command(self.config.python)
        return openssh_client.logging_in(self._hop(self.name, self.config), command, self._jump())

    def _hop(self, name: str, config: SshConfig) -> Hop:
        return Hop(name, self._address(config), partial(self._credential, name, config))

    def _address(self, config: SshConfig) -> Address:
        around = self.context
        # Where the user's own files are read, a name may be one of ~/.ssh/config, and ssh knows what it means. Behind
        # a jump host it means what it means there.
        resolved = around.resolve(config.address) if config.jump is None else None
        checked = None if around.reads_user_files else resolved
        return Address(config.address, config.port, config.username, config.host_key, checked, around.reads_user_files)

    def _credential(self, name: str, config: SshConfig) -> Credential:
        match config.login:
            case "password":
                return Credential(password=self.secrets.get(f"target/{name}/password"))
            case "key":
                return Credential(private_key=self.secrets.get(f"target/{name}/private-key"))
            case "workspace-key":
                return Credential(private_key=self.secrets.get("workspace/ssh-key"))
        if not self.context.reads_user_files:
            raise TargetRejected(
                f"{name} was attached with the keys of the account that this server runs by, which people share now.",
                "Attach it anew with a password, a private key, or the workspace's key (-k): --update",
            )
        return Credential()

    def _jump(self) -> Hop | None:
        name = self.config.jump
        if name is None:
            return None
        try:
            config = SshConfig(**self.context.target(name).config)
        except ValidationError:
            raise InvalidRequest(f"{name} is not a machine that is reached by SSH, so it is no jump host.") from None
        if config.jump is not None:
            raise InvalidRequest(f"The jump host {name} has a jump host itself; one is enough.")
        return self._hop(name, config)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _key_file(key: str) -> str:
    """The part of the file's name on the machine."""
    return {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(key.split(" ", 1)[0], "ecdsa")


def _methods(words: str) -> tuple[str, ...]:
    """ "Permission denied (publickey,password)." names the ways that are open."""
    _, _, rest = words.rpartition("Permission denied (")
    return tuple(rest.partition(")")[0].split(",")) if rest else ()


DRIVER = SshDriver
