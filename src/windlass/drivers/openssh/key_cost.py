"""How much work it is to open a private key by its passphrase. Whoever wrote it has named that: it may be hours."""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterator
from itertools import takewhile

from windlass.core.errors import InvalidRequest

# Each takes a few seconds. `ssh-keygen` asks for 16 or 24 rounds, `openssl` for 2,048 iterations.
MOST_ROUNDS = 500  # of bcrypt, in OpenSSH's own format
MOST_ITERATIONS = 4_000_000  # of PBKDF2 or scrypt, in PKCS#8

_BLOCK = re.compile(r"-----BEGIN (OPENSSH|ENCRYPTED) PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30  # of ASN.1


def refuse_endless(text: str) -> None:
    """Of all keys in the text, since who reads it chooses one."""
    for form, body in _BLOCK.findall(text):
        try:
            data = base64.b64decode("".join(body.split()), validate=True)
            work, most = (_rounds(data), MOST_ROUNDS) if form == "OPENSSH" else (_iterations(data), MOST_ITERATIONS)
        except (binascii.Error, struct.error, IndexError):
            raise InvalidRequest("The private key is broken, or of a kind that is not known.") from None
        if work > most:
            raise InvalidRequest(
                f"Its passphrase opens the private key after {work:,} rounds of work; at most {most:,} are taken.",
                "Write it anew with fewer: ssh-keygen -p -a 100 -f KEY",
            )


def _rounds(data: bytes) -> int:
    """The magic, the cipher's name, the name and the options of what makes a key of a passphrase: salt and rounds."""
    _cipher, rest = _string(data[len(_MAGIC) :])
    name, rest = _string(rest)
    options, _ = _string(rest)
    if name == b"none":
        return 0
    _salt, rest = _string(options)
    (rounds,) = struct.unpack_from(">I", rest)
    return int(rounds)


def _string(data: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from(">I", data)
    return data[4 : 4 + length], data[4 + length :]


def _iterations(data: bytes) -> int:
    """The numbers after the salt, which is the first string of bytes: a count and perhaps the length of the key, or
    the three of scrypt, which multiply.
    """
    values = _values(data)
    for tag, _ in values:
        if tag == _OCTETS:
            break
    numbers = [int.from_bytes(content, "big") for _, content in takewhile(lambda value: value[0] == _INTEGER, values)]
    return math.prod(numbers[:3]) if len(numbers) > 2 else numbers[0]


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """All plain values, with their tags; of sequences, what is in them."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        if tag != _SEQUENCE:
            yield tag, data[at : at + length]
            at += length
