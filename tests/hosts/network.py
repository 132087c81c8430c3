"""Hosts that reach each other, and are reached from here, each by its own address.

The bridge is in a network of its own, the hub, so that no rule of this machine (a Docker daemon's, say) applies to it.
Nothing is left when this process ends, however it ends: each host lives as long as its init, and that as long as we.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.commands import ip, run
from tests.hosts.host import Host, Traits
from tests.hosts.keys import Key
from tests.hosts.proxy import Proxy
from tests.hosts.space import Space

_RANGE = ipaddress.IPv4Network("10.64.0.0/10")
_NETWORKS = list(_RANGE.subnets(new_prefix=22))
_FIRST_HOST = 2
_MOST_BEHIND = 128
_FIRST_UID = 100_000


class Network:
    """`key` lets into all hosts that take keys. Seen from the hosts, this process is at `address`."""

    def __init__(self) -> None:
        assert os.geteuid() == 0, "hosts are made of namespaces, which only root may make"
        self._claim, self._number, self._whole = _claim_network()
        # Half of it is what is reached from here, half what lies behind other hosts.
        self._near, self._far = self._whole.subnets(prefixlen_diff=1)
        self.address = str(self._near[1])
        self.interface = f"wl{self._number}"
        self.folder = Path(tempfile.mkdtemp(prefix="wl-hosts-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self._numbers = itertools.count(_FIRST_HOST)
        self._ends = itertools.count()
        self._hosts: list[Host] = []
        self._proxies: list[Proxy] = []
        self._hub = Space("hub", [], [], removes=self.folder)
        self._connect()
        self.key = Key.make(self.folder / "key")

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Network]:
        network = cls()
        try:
            yield network
        finally:
            network.end()

    def host(self, name: str = "box", *, behind: Host | None = None, **traits: Any) -> Host:
        """A new host that answers. `behind`: only that other host can reach it. The rest are `Traits`."""
        traits.setdefault("authorized", (self.key.public,))
        return self._make(name, next(self._numbers), behind, Traits(**traits))

    def replace(self, host: Host, *, keeps_key: bool = False, **traits: Any) -> Host:
        """Another machine in the place of one: the same address, but another home, boot id and (mostly) host key."""
        traits.setdefault("authorized", (self.key.public,))
        traits["host_keys_of"] = host.folder if keeps_key else None
        self._hosts.remove(host)
        host.end()
        other = self._make(host.name, host.number, None, Traits(**traits))
        shutil.rmtree(host.folder, ignore_errors=True)
        return other

    def remove(self, host: Host) -> None:
        self._hosts.remove(host)
        host.end()
        shutil.rmtree(host.folder, ignore_errors=True)

    def proxy(self, host: Host) -> Proxy:
        """A way to a host that delays and breaks connections; it goes with the hosts."""
        self._proxies.append(Proxy(self.address, (host.address, host.port)))
        return self._proxies[-1]

    def clear(self) -> None:
        """Remove all hosts and proxies."""
        while self._proxies:
            self._proxies.pop().close()
        for host in list(self._hosts):
            self.remove(host)

    def end(self) -> None:
        self.clear()
        self._hub.end()
        self._claim.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self, name: str, number: int, behind: Host | None, traits: Traits) -> Host:
        uid = _FIRST_UID + self._number * self._near.num_addresses + number
        pair = list(self._far.subnets(new_prefix=30))[number % _MOST_BEHIND]
        address = self._near[number] if behind is None else pair[2]
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        folder.chmod(0o755)
        host = Host(folder, name, number, str(address), uid, traits)
        self._hosts.append(host)
        end = f"h{next(self._ends)}"  # new also where the host's place is not: the old one may take a moment to go
        if behind is None:
            host.lead_to_bridge(self._hub.pid, end, f"{address}/{self._near.prefixlen}", self.address)
        else:
            host.lead_to_host(behind.pid, end, f"{address}/30", f"{pair[1]}/30")
        host.start_sshd()
        return host

    def _connect(self) -> None:
        """The hub's bridge, and the wire from here to it."""
        here = self.interface
        ip(self._hub.pid, "link set lo up", "link add bridge type bridge", "link set bridge up")
        run("ip", *f"link add {here} type veth peer name here netns {self._hub.pid}".split())
        ip(self._hub.pid, "link set here master bridge up")
        # All of it is sought there, also what cannot be reached: no gateway of this machine shall be asked for that.
        # No further address after a second: browsers drop their connections whenever there is a new one.
        Path(f"/proc/sys/net/ipv6/conf/{here}/disable_ipv6").write_text("1")
        run("ip", *f"address add {self.address}/{self._whole.prefixlen} dev {here}".split())
        run("ip", *f"link set {here} up".split())


def _claim_network() -> tuple[socket.socket, int, ipaddress.IPv4Network]:
    """Addresses that nobody uses here. What claims them is a name that is free again when this process ends."""
    taken = [ipaddress.ip_network(word) for word in run("ip", "-4", "route").split() if _is_network(word)]
    first = os.getpid()
    for number in range(first, first + len(_NETWORKS)):
        network = _NETWORKS[number % len(_NETWORKS)]
        if any(network.overlaps(other) for other in taken):
            continue
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0windlass hosts {number % len(_NETWORKS)}")
        except OSError:
            claim.close()
            continue
        return claim, number % len(_NETWORKS), network
    raise AssertionError(f"all of {_RANGE} is in use")


def _is_network(word: str) -> bool:
    return "/" in word and word[0].isdigit()
