"""A host's connection to the others, and what can happen to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.hosts.commands import inside, ip


class Wire:
    """One end is `eth0` in the network of process `pid`, the other is in that of another process."""

    def __init__(self, pid: int, hardware: str) -> None:
        self.pid = pid
        self._hardware = hardware
        self._hub = 0
        self._end = self._plug = self._unplug = ""

    def lead_to_bridge(self, hub: int, end: str, address: str, gateway: str) -> None:
        """The other end, of this name, becomes a port of the bridge there. Addresses have a prefix: 10.0.0.2/24."""
        self._lead_to(hub, end, address, gateway)
        # Both ends keep their carrier when it is unplugged: nobody is told, and healing takes no time.
        self._plug, self._unplug = f"link set {end} master bridge", f"link set {end} nomaster"
        ip(hub, f"link set {end} up", self._plug)

    def lead_to_host(self, other: int, end: str, address: str, gateway: str) -> None:
        """The other end is in a host, and has an address of its own there."""
        self._lead_to(other, end, address, gateway)
        self._plug, self._unplug = f"link set {end} up", f"link set {end} down"
        ip(other, f"address add {gateway} dev {end}", self._plug)

    def _lead_to(self, hub: int, end: str, address: str, gateway: str) -> None:
        self._hub, self._end = hub, end
        ip(hub, f"link add {end} type veth peer name eth0 address {self._hardware} netns {self.pid}")
        via = gateway.partition("/")[0]
        up = ("link set lo up", f"address add {address} dev eth0", "link set eth0 up", f"route add default via {via}")
        ip(self.pid, *up)

    def cut(self) -> None:
        """Pull the cable: neither side hears anything any more, and nobody is told."""
        ip(self._hub, self._unplug)

    def block(self, *, incoming: bool = False, outgoing: bool = False) -> None:
        """Drop what comes in, what goes out, or both: a black hole, with the cable in place."""
        self._forbid("-j", "DROP", incoming=incoming, outgoing=outgoing)

    def loss(self, percent: float) -> None:
        """Lose packets at random, in each direction."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", f"{percent / 100:.4f}")
        self._forbid(*chance, "-j", "DROP", incoming=True, outgoing=True)

    def bandwidth(self, kbit: int) -> None:
        """Let no more through than this, in each direction."""
        limit = f"rate {kbit}kbit burst 16kb latency 1s"
        inside(self._hub, "tc", *f"qdisc replace dev {self._end} root tbf {limit}".split())
        inside(self.pid, "tc", *f"qdisc replace dev eth0 root tbf {limit}".split())

    def heal(self) -> None:
        """As if nothing had ever happened to it."""
        ip(self._hub, self._plug)
        inside(self.pid, "iptables", "-F")
        for pid, end in ((self._hub, self._end), (self.pid, "eth0")):
            if "tbf" in inside(pid, "tc", "qdisc", "show", "dev", end):
                inside(pid, "tc", "qdisc", "del", "dev", end, "root")

    @contextmanager
    def partition(self) -> Iterator[None]:
        """Cut while the block lasts."""
        self.cut()
        try:
            yield
        finally:
            self.heal()

    def reset_connections(self) -> None:
        """Every connection that stands is torn, and both sides are told so at once; new ones may be made."""
        inside(self.pid, "ss", "-K", "-t", "state", "established")

    def _forbid(self, *rule: str, incoming: bool, outgoing: bool) -> None:
        for is_meant, chain in ((incoming, "INPUT"), (outgoing, "OUTPUT")):
            if is_meant:
                inside(self.pid, "iptables", "-A", chain, *rule)
