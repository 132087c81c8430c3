"""A machine that can be reached by SSH: an address, an sshd, an account, processes and a boot id of its own.

It is a set of namespaces on this computer. Its home is a folder that is seen from here under the same path.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.hosts import mounts, sshd
from tests.hosts.account import Account
from tests.hosts.commands import run
from tests.hosts.keys import Key
from tests.hosts.processes import HostProcess, processes_of
from tests.hosts.space import Space
from tests.hosts.wire import Wire


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How a host differs from a usual one."""

    user: str = "ada"
    shell: str = "/bin/bash"  # a path, or the text of a script
    takes_passwords: bool = True
    takes_keys: bool = True
    authorized: tuple[str, ...] = ()  # public keys that may log in
    authority: Key | None = None  # whose certificates let in
    host_keys: tuple[str, ...] = ("ed25519",)
    host_keys_of: Path | None = None  # the folder of another one, whose place it takes
    forced_command: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  # lines of sshd_config that go before ours
    has_python: bool = True
    python_prefix: Path | None = None  # the only Python there is the one installed here
    disk_kb: int | None = None  # the home is a disk of this size
    is_home_read_only: bool = False
    is_noexec: bool = False  # neither the home nor /tmp may hold programs
    clock: str | None = None  # by libfaketime: "+10y", "-1h"


class Host(Wire):
    """`address` and `port` are where its sshd listens; `user`, `password` and the authorized keys let in."""

    port = 22

    def __init__(self, folder: Path, name: str, number: int, address: str, uid: int, traits: Traits) -> None:
        self.folder = folder
        self.name = name
        self.number = number
        self.address = address
        self.traits = traits
        shell = self._shell()
        password = f"canary-{secrets.token_hex(12)}"
        self._account = Account(traits.user, uid, folder / "home", shell, password)
        self._account.write(folder)
        self._account.make_home()
        self._authorize(self._account.home)
        self.host_keys = {kind: self._host_key(kind) for kind in traits.host_keys}
        self.set_boot_id(str(uuid.uuid4()))
        self._configure()
        daemon = [sshd.PROGRAM, "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "sshd.log")]
        self._space = Space(name, list(self._mounts()), daemon)
        if traits.disk_kb is not None:
            self._authorize(Path(f"/proc/{self._space.pid}/root{self._account.home}"))
        super().__init__(self._space.pid, "02:00:" + uid.to_bytes(4, "big").hex(":"))

    @property
    def user(self) -> str:
        return self._account.name

    @property
    def uid(self) -> int:
        return self._account.uid

    @property
    def password(self) -> str:
        return self._account.password

    @property
    def home(self) -> Path:
        """The account's home, as the host sees it, whatever is mounted there."""
        return Path(f"/proc/{self.pid}/root{self._account.home}")

    @property
    def inner_home(self) -> Path:
        """Its path on the host; the same files are there for others too, unless it is a disk of its own."""
        return self._account.home

    @property
    def log(self) -> str:
        """What its sshd says."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    @property
    def host_key(self) -> str:
        """Its first one, as it is pinned: type and key."""
        return " ".join(next(iter(self.host_keys.values())).public.split()[:2])

    def known_hosts(self) -> str:
        """Lines for a known_hosts file that pin all its keys."""
        return "".join(f"{self.address} {key.public}\n" for key in self.host_keys.values())

    # ---- its life ----

    def start_sshd(self) -> None:
        (self.folder / "sshd.pid").unlink(missing_ok=True)
        self._space.do("start")
        deadline = time.monotonic() + 30
        while not self._listener():  # it is written when sshd listens
            assert time.monotonic() < deadline, self.log
            time.sleep(0.002)

    def stop_sshd(self) -> None:
        """From now on connections are refused; those that stand, stay."""
        listener = self._listener()
        _kill(self.outer_pid(listener))
        while any(process.inner_pid == listener for process in self.processes()):
            time.sleep(0.002)
        (self.folder / "sshd.pid").unlink()

    def kill_connections(self) -> None:
        """The sshd processes of all sessions die; sshd itself goes on."""
        listener = self._listener()
        for process in self.processes():
            if process.name == "sshd" and process.inner_pid != listener:
                _kill(process.pid)

    def reboot(self, boot_id: str | None = None) -> None:
        """All its processes die at once, and it comes up with another boot id."""
        self._space.do("kill")
        self.set_boot_id(boot_id or str(uuid.uuid4()))
        self.start_sshd()

    def kill_all(self) -> None:
        """All its processes die, and nothing comes up: it was switched off, but answers who knocks."""
        self._space.do("kill")

    def end(self) -> None:
        """It is gone, with all its processes."""
        self._space.end()

    def set_boot_id(self, boot_id: str) -> None:
        self.boot_id = boot_id
        (self.folder / "boot_id").write_text(f"{boot_id}\n")

    def set_clock(self, offset: str) -> None:
        """Put the clock of a host that has one of its own (`clock`), also under programs that run."""
        (self.folder / "clock").write_text(f"{offset}\n")

    # ---- looking in ----

    def processes(self) -> list[HostProcess]:
        """What lives there beside init."""
        return [process for process in processes_of(self.pid) if process.pid != self.pid and process.is_alive]

    def run(self, *argv: str | Path, is_root: bool = False) -> str:
        """Run something there without SSH, as its account."""
        who = () if is_root else ("--setuid", str(self.uid), "--setgid", str(self.uid))
        return run("nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--uts", "--ipc", *who, "--", *argv)

    def outer_pid(self, inner: int) -> int:
        """The number here of a process that has this number there. Never 0: that would be all of us."""
        [process] = [process for process in processes_of(self.pid) if process.inner_pid == inner]
        return process.pid

    # ---- how it is made ----

    def _authorize(self, home: Path) -> None:
        file = home / ".ssh" / "authorized_keys"
        file.parent.mkdir(mode=0o700)
        file.write_text("".join(f"{line}\n" for line in self.traits.authorized))
        file.chmod(0o600)
        self._account.own(file.parent, file)

    def _host_key(self, kind: str) -> Key:
        path = self.folder / f"host_{kind}"
        if self.traits.host_keys_of is None:
            return Key.make(path, kind)
        for name in (path.name, f"{path.name}.pub"):
            shutil.copy2(self.traits.host_keys_of / name, self.folder / name)
        return Key(path)

    def _shell(self) -> str:
        if not self.traits.shell.startswith("#!"):
            return self.traits.shell
        script = self.folder / "shell"
        script.write_text(self.traits.shell)
        script.chmod(0o755)
        return str(script)

    def _configure(self) -> None:
        traits = self.traits
        text = sshd.configuration(
            self.folder,
            host_keys=traits.host_keys,
            takes_passwords=traits.takes_passwords,
            takes_keys=traits.takes_keys,
            authority=traits.authority.public if traits.authority else None,
            forced_command=traits.forced_command,
            environment={**traits.environment, **self._clock()},
            settings=traits.settings,
        )
        (self.folder / "sshd_config").write_text(text)
        os.makedirs("/run/sshd", 0o755, exist_ok=True)  # its service unit would make it

    def _clock(self) -> dict[str, str]:
        if self.traits.clock is None:
            return {}
        self.set_clock(self.traits.clock)
        [library] = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
        sleep = self.folder / "sleep.so"
        run("cc", "-shared", "-fPIC", "-o", sleep, Path(__file__).with_name("sleep.c"))
        return {
            "LD_PRELOAD": f"{sleep}:{library}",
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "clock"),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def _mounts(self) -> Iterator[mounts.Mount]:
        traits, home = self.traits, self._account.home
        yield from mounts.own_files(self.folder)
        if not traits.has_python or traits.python_prefix is not None:
            yield from mounts.programs_with_other_python(self.folder, traits.python_prefix)
        if traits.python_prefix is not None:
            yield from mounts.reachable(self.folder, traits.python_prefix)
        if traits.disk_kb is not None:
            yield mounts.small_disk(home, traits.disk_kb, self.uid)
        if traits.is_home_read_only or traits.is_noexec:
            yield from mounts.restricted(home, traits.is_home_read_only, traits.is_noexec)
        if traits.is_noexec:
            yield mounts.private_tmp(is_noexec=True)

    def _listener(self) -> int:
        try:
            return int((self.folder / "sshd.pid").read_text())
        except (FileNotFoundError, ValueError):
            return 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
