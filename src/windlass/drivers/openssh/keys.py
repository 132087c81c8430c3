"""SSH keys: private keys of users, generated key pairs of workspaces, and host keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING

from windlass.core.errors import CredentialsNeeded, InvalidRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
import math
import struct
from collections.abc import Iterator
from itertools import takewhile

LARGEST = 64 * 1024  # a private key of 16,384 bits has 13 KB
LEAST_RSA_BITS = 2048
_HOST_KEY = re.compile(r"(ssh-[a-z0-9-]+|ecdsa-sha2-[a-z0-9-]+|sk-[a-z0-9-]+@openssh\.com) ([A-Za-z0-9+/]+={0,2})\Z")


def read_private_key(text: str, passphrase: str | None = None) -> str:
    """Decrypt and convert a user's private key to OpenSSH's format without a passphrase: the key store encrypts it."""
    text = _clean(text)
    refuse_costly(text)
    key = _open(text, passphrase)
    _refuse_weak(key)
    return _serialize(key)


def make_key_pair(comment: str) -> tuple[str, str]:
    """Generate a private key, and its public half as a line of authorized_keys."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = _serialize(Ed25519PrivateKey.generate())
    return private, f"{public_of(private)} {comment}"


def public_of(private: str) -> str:
    """The public half of a private key in OpenSSH's format: "ssh-ed25519 AAAA…"."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    public = load_ssh_private_key(private.encode(), None).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def host_key(text: str) -> str:
    """Validate the public key of a host: "ssh-ed25519 AAAA…"."""
    words = text.split()
    if len(words) < 2 or not _HOST_KEY.match(" ".join(words[:2])) or not _blob(words[1]):
        raise InvalidRequest(f"Not a host's public key: {ascii(text)[:80]}", "It reads like: ssh-ed25519 AAAAC3Nz…")
    return " ".join(words[:2])


def fingerprint(key: str) -> str:
    """As `ssh-keygen -l` shows it: SHA256:…"""
    digest = hashlib.sha256(_blob(key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _clean(text: str) -> str:
    """Normalize line ends, and refuse a text that is not a private key, with a hint on what it is."""
    if len(text) > LARGEST:
        raise InvalidRequest(f"A private key has at most {LARGEST} characters; this one has {len(text)}.")
    text = text.replace("\r\n", "\n").strip() + "\n"
    if "\0" in text or not text.isascii():
        raise InvalidRequest("This is not a private key: it has characters that no key has.", "Is it the right file?")
    first = text.split("\n", 1)[0]
    if first.startswith("PuTTY-User-Key-File"):
        raise InvalidRequest(
            "The private key is in PuTTY's format.", "Convert it: puttygen key.ppk -O private-openssh -o key"
        )
    if first.startswith(("ssh-", "ecdsa-", "sk-")):
        raise InvalidRequest("This is a public key; the private one is needed.", "It is the file without .pub.")
    if "PRIVATE KEY-----" not in first:
        raise InvalidRequest("This is not a private key.", "It begins with -----BEGIN … PRIVATE KEY-----.")
    return text


def _open(text: str, passphrase: str | None) -> PrivateKeyTypes:
    try:
        return _load(text, None)
    except TypeError:  # how the library says that it is encrypted
        pass
    if passphrase is None:
        raise CredentialsNeeded(
            "The private key has a passphrase, and none was given.", details={"fields": ["passphrase"]}
        )
    try:
        return _load(text, passphrase)
    except InvalidRequest:
        raise InvalidRequest("The passphrase does not open the private key.") from None


def _load(text: str, passphrase: str | None) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    load = load_ssh_private_key if "OPENSSH" in text.split("\n", 1)[0] else load_pem_private_key
    try:
        return load(text.encode(), None if passphrase is None else passphrase.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidRequest("The private key is broken, or of a kind that is not known.") from None


def _refuse_weak(key: PrivateKeyTypes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if isinstance(key, RSAPrivateKey) and key.key_size < LEAST_RSA_BITS:
        raise InvalidRequest(
            f"The private key is too weak: RSA of {key.key_size} bits.", "Make another: ssh-keygen -t ed25519"
        )
    if not isinstance(key, (RSAPrivateKey, Ed25519PrivateKey, EllipticCurvePrivateKey)):
        raise InvalidRequest("SSH no longer takes keys of this kind.", "Make another: ssh-keygen -t ed25519")


def _serialize(key: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


# Limits of the key derivation: each takes a few seconds. ssh-keygen uses 16 or 24 rounds, openssl 2,048 iterations.
MOST_ROUNDS = 500  # of bcrypt, in OpenSSH's own format
MOST_ITERATIONS = 4_000_000  # of PBKDF2 or scrypt, in PKCS#8

_BLOCK = re.compile(r"-----BEGIN (OPENSSH|ENCRYPTED) PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30  # of ASN.1


def refuse_costly(text: str) -> None:
    """Refuse keys whose passphrase takes minutes of CPU time. Checks all keys of the text: the parser picks one."""
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
    """Rounds of the KDF. The layout is: magic, cipher name, KDF name, KDF options (salt, rounds)."""
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
    """Iterations of PBKDF2, or the product of scrypt's three parameters: the numbers after the salt, which is the first
    octet string.
    """
    values = _values(data)
    for tag, _ in values:
        if tag == _OCTETS:
            break
    numbers = [int.from_bytes(content, "big") for _, content in takewhile(lambda value: value[0] == _INTEGER, values)]
    return math.prod(numbers[:3]) if len(numbers) > 2 else numbers[0]


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """All primitive ASN.1 values with their tags; sequences are flattened."""
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
