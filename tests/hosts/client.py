"""Plain ssh, as a person would use it: to see that hosts are what they should be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.hosts.host import Host


class Client:
    """Knows the keys of hosts; logs in with a password, a key, or what else OpenSSH can."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known = folder / "known_hosts"
        self._askpass = folder / "askpass"
        self._askpass.write_text('#!/bin/sh\nprintf "%s\\n" "$TEST_PASSWORD"\n')
        self._askpass.chmod(0o700)

    def meet(self, *hosts: Host) -> None:
        with open(self._known, "a") as known:
            known.writelines(host.known_hosts() for host in hosts)

    def argv(self, host: Host, *options: str) -> list[str]:
        known = [f"-oUserKnownHostsFile={self._known}", "-oGlobalKnownHostsFile=/dev/null"]
        quick = ["-oStrictHostKeyChecking=yes", "-oConnectTimeout=5", "-oNumberOfPasswordPrompts=1"]
        return ["ssh", "-F", "none", *known, *quick, *options, f"{host.user}@{host.address}"]

    def run(
        self, host: Host, command: str, *options: str, key: Path | None = None, password: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        identity = ["-oIdentitiesOnly=yes", "-oPreferredAuthentications=publickey", f"-i{key}"] if key else []
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"},
            "SSH_ASKPASS": str(self._askpass),
            "SSH_ASKPASS_REQUIRE": "force",
            "TEST_PASSWORD": password or "",
        }
        return subprocess.run(
            [*self.argv(host, *identity, *options), command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, env=environment,
        )  # fmt: skip
