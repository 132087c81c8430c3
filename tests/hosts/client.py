"""Plain ssh, as a person would use it: to see that hosts are what they should be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.hosts.host import Host
from tests.hosts.keys import Key


class Client:
    """Logs in with a key, or a password. It believes in a host's key from the first time on."""

    def __init__(self, folder: Path, key: Key) -> None:
        self._key = key
        self._known = folder / "known_hosts"
        self._met: set[str] = set()
        self._askpass = folder / "askpass"
        self._askpass.write_text('#!/bin/sh\nprintf "%s\\n" "$TEST_PASSWORD"\n')
        self._askpass.chmod(0o700)

    def meet(self, *hosts: Host) -> None:
        with open(self._known, "a") as known:
            known.writelines(host.known_hosts() for host in hosts if host.address not in self._met)
        self._met.update(host.address for host in hosts)

    def forget(self) -> None:
        self._known.unlink()
        self._met.clear()

    def argv(self, host: Host, *options: str) -> list[str]:
        known = [f"-oUserKnownHostsFile={self._known}", "-oGlobalKnownHostsFile=/dev/null"]
        quick = ["-oStrictHostKeyChecking=yes", "-oConnectTimeout=30", "-oNumberOfPasswordPrompts=1"]
        return ["ssh", "-F", "none", *options, *known, *quick, f"{host.user}@{host.address}"]

    def start(
        self, host: Host, command: str, *options: str, key: Key | None = None, password: str | None = None
    ) -> subprocess.Popen[str]:
        self.meet(host)
        if password is None:
            options += ("-oIdentitiesOnly=yes", f"-i{(key or self._key).path}", "-oPasswordAuthentication=no")
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"},
            "SSH_ASKPASS": str(self._askpass),
            "SSH_ASKPASS_REQUIRE": "force",
            "TEST_PASSWORD": password or "",
        }
        return subprocess.Popen(
            [*self.argv(host, *options), command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def run(
        self,
        host: Host,
        command: str,
        *options: str,
        key: Key | None = None,
        password: str | None = None,
        seconds: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        with self.start(host, command, *options, key=key, password=password) as process:
            said, errors = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, said, errors)

    def say(self, host: Host, command: str) -> str:
        """What the host answers to a command that must succeed there."""
        done = self.run(host, command)
        assert done.returncode == 0, done
        return done.stdout
