"""Egress policy: the addresses that the server may connect to for a user (docs/dev/trust.md).

A user who names an address makes the server connect there from its place in the network (SSRF). A private server serves
its own user, who could connect there as well: refused are only addresses that are certainly a mistake. A shared server
does not open its own machine to its users, unless its administrator lists that in `allowed_addresses`.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Sequence

from windlass.core import names
from windlass.core.errors import Denied, TargetUnreachable
from windlass.server.settings import Settings, is_loopback

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

RESOLVE_SECONDS = 8.0
# Metadata services of clouds, which return credentials of the machine. Most are link-local; these are not.
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")
)
_UNASSIGNED = {
    4: ipaddress.ip_address("240.0.0.1"),
    6: ipaddress.ip_address("100::1"),
}  # no machine has these addresses
_METADATA_NAMES = frozenset({"metadata.google.internal", "instance-data.ec2.internal"})
# IPv6 networks that embed an IPv4 address in their last four bytes.
_IPV4_EMBEDDING = tuple(ipaddress.ip_network(text) for text in ("::/96", "::ffff:0:0/96", "64:ff9b::/96"))


def is_shared(settings: Settings) -> bool:
    """Whether people who do not own this server's account may use it."""
    is_sqlite = settings.database.startswith("sqlite:")
    return not is_loopback(settings.host) or settings.behind_proxy or bool(settings.public_url) or not is_sqlite


def checked_address(address: str, is_shared: bool, allowed: Sequence[str] = ()) -> str | None:
    """The IP address to connect to, after all addresses of the name were checked.

    None for a name that cannot be resolved here on a private server: it may be one of the user's own files.
    """
    names.host_address(address)
    if address.lower().rstrip(".") in _METADATA_NAMES:
        raise _refusal(address, "is where a cloud keeps credentials of its machines")
    found = _resolve(address)
    if not found and is_shared:
        raise TargetUnreachable(
            f"The name {address} cannot be resolved.", "Check its spelling, or give an IP address instead."
        )
    for ip in found:
        check_ip(address, ip, is_shared, allowed)
    return str(found[0]) if found else None


def check_ip(address: str, ip: Ip, is_shared: bool, allowed: Sequence[str] = ()) -> None:
    """Raise Denied if the server must not connect to an IP address; `address` is the name for the message."""
    ip = _embedded_ipv4(ip)
    if any(ip in ipaddress.ip_network(network, strict=False) for network in allowed):
        return
    if ip in _METADATA:
        raise _refusal(address, "is where a cloud keeps credentials of its machines")
    if ip.is_link_local:
        raise _refusal(address, "is link-local, where clouds keep credentials of their machines")
    if not ip.is_loopback and (ip.is_unspecified or ip.is_multicast or ip.is_reserved):
        raise _refusal(address, "is not the address of a machine")
    if is_shared and (ip.is_loopback or _is_ours(ip)):
        raise _refusal(address, "is the server's own machine, which it does not open to its users")


def _is_ours(ip: Ip) -> bool:
    """Whether it is an address of this machine: a socket can be bound to it. False where the kernel is set to allow
    binding to any address (ip_nonlocal_bind), since that says nothing then.
    """
    return _can_bind(ip) and not _can_bind(_UNASSIGNED[ip.version])


def _can_bind(ip: Ip) -> bool:
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as line:
            line.bind((str(ip), 0))
    except OSError:
        return False
    return True


def _embedded_ipv4(ip: Ip) -> Ip:
    """The IPv4 address that an IPv6 address embeds, or the address itself."""
    if isinstance(ip, ipaddress.IPv4Address) or int(ip) < 2:  # :: and ::1 are themselves
        return ip
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    is_embedding = any(ip in network for network in _IPV4_EMBEDDING)
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if is_embedding else ip


def _resolve(address: str) -> list[Ip]:
    try:
        return [ipaddress.ip_address(address)]
    except ValueError:
        pass
    answers: queue.SimpleQueue[list[Ip]] = queue.SimpleQueue()
    # In a thread: getaddrinfo has no timeout.
    threading.Thread(target=lambda: answers.put(_look_up(address)), name="resolve", daemon=True).start()
    try:
        return answers.get(timeout=RESOLVE_SECONDS)
    except queue.Empty:
        raise TargetUnreachable(
            f"The name {address} could not be resolved within {RESOLVE_SECONDS:g} s.", "Give an IP address instead."
        ) from None


def _look_up(name: str) -> list[Ip]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _refusal(address: str, why: str) -> Denied:
    return Denied(
        f"{address} {why}; nothing is attached there.",
        "If that is meant, list it in allowed_addresses of the server's settings.json.",
    )
