"""Keys that users bring: taken as they come from any tool, and refused with a sentence that says what to do."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from windlass.core.errors import InvalidRequest
from windlass.drivers.openssh import keys


def made(folder: Path, *options: str, passphrase: str = "") -> Path:
    path = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-a", "1", "-N", passphrase, "-C", "", "-f", str(path), *options], check=True)
    return path


def public(path: Path) -> str:
    return path.with_suffix(".pub").read_text().strip()


@pytest.mark.parametrize(
    "options",
    [("-t", "ed25519"), ("-t", "ecdsa"), ("-t", "rsa", "-b", "3072"), ("-t", "rsa", "-m", "PEM"),
     ("-t", "ecdsa", "-m", "PKCS8")],
    ids="-".join,
)  # fmt: skip
@pytest.mark.parametrize("passphrase", ["", "open sesame"])
def test_every_usual_key_is_taken(tmp_path: Path, options: tuple[str, ...], passphrase: str) -> None:
    path = made(tmp_path, *options, passphrase=passphrase)
    private = keys.read_private_key(path.read_text(), passphrase or None)
    assert "BEGIN OPENSSH PRIVATE KEY" in private
    assert keys.public_of(private) == public(path)
    again = tmp_path / "again"
    again.write_text(private)
    again.chmod(0o600)
    shown = subprocess.run(["ssh-keygen", "-y", "-P", "", "-f", str(again)], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[:2] == public(path).split()[:2]


def test_line_ends_of_other_systems_do_no_harm(tmp_path: Path) -> None:
    path = made(tmp_path, "-t", "ed25519")
    private = keys.read_private_key("\n" + path.read_text().replace("\n", "\r\n") + "\r\n")
    assert keys.public_of(private) == public(path)


def test_a_passphrase_for_a_key_that_has_none_is_ignored(tmp_path: Path) -> None:
    path = made(tmp_path, "-t", "ed25519")
    assert keys.public_of(keys.read_private_key(path.read_text(), "needless")) == public(path)


def pem(key: rsa.RSAPrivateKey | dsa.DSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_weak_keys_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="1024 bits"):
        keys.read_private_key(pem(rsa.generate_private_key(65537, 1024)))
    with pytest.raises(InvalidRequest, match="no longer"):
        keys.read_private_key(pem(dsa.generate_private_key(2048)))


@pytest.mark.parametrize(
    ("passphrase", "sentence"), [(None, "has a passphrase"), ("", "has a passphrase"), ("wrong", "does not open")]
)
@pytest.mark.parametrize("form", ["RFC4716", "PEM", "PKCS8"])
def test_wrong_passphrases(tmp_path: Path, form: str, passphrase: str | None, sentence: str) -> None:
    path = made(tmp_path, "-t", "rsa", "-m", form, passphrase="right")
    with pytest.raises(InvalidRequest, match=sentence) as caught:
        keys.read_private_key(path.read_text(), passphrase or None)
    assert "right" not in str(caught.value)


def armored(form: str, data: bytes) -> str:
    lines = base64.encodebytes(data).decode()
    return f"-----BEGIN {form} PRIVATE KEY-----\n{lines}-----END {form} PRIVATE KEY-----\n"


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return bytes((tag, len(content))) + content


def pkcs8(*numbers: int) -> str:
    """A key that is encrypted with PBES2; nobody will get as far as to the key."""
    salt = der(0x04, b"salt" * 2)
    counts = [der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in numbers]
    derivation = der(0x30, der(0x06, b"kdf"), der(0x30, salt, *counts))
    cipher = der(0x30, der(0x06, b"aes"), der(0x04, b"initial" * 2))
    return armored(
        "ENCRYPTED", der(0x30, der(0x30, der(0x06, b"pbes2"), der(0x30, derivation, cipher)), der(0x04, b"x" * 16))
    )


def test_a_key_that_makes_hours_of_work_is_refused(tmp_path: Path) -> None:
    """Neither is tried: 2^32 rounds would take a year."""
    path = made(tmp_path, "-t", "ed25519", "-a", "16", passphrase="right")
    data = base64.b64decode("".join(path.read_text().splitlines()[1:-1]))
    assert data.count(b"\0\0\0\x10") > 1, "the length of the salt, and then the rounds"
    at = data.index(b"\0\0\0\x10", data.index(b"\0\0\0\x10") + 4)
    for rounds in (501, 2**32 - 1):
        text = armored("OPENSSH", data[:at] + rounds.to_bytes(4, "big") + data[at + 4 :])
        for trick in (text, "OPENSSH PRIVATE KEY-----\n" + text):
            with pytest.raises(InvalidRequest, match=f"{rounds:,} rounds") as caught:
                keys.read_private_key(trick, "right")
            assert "ssh-keygen -p" in caught.value.hint


@pytest.mark.parametrize("numbers", [(4_000_001,), (2**64, 32), (16384, 8, 10_000)], ids=["count", "length", "scrypt"])
def test_so_is_one_in_pkcs8(numbers: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="rounds of work"):
        keys.read_private_key(pkcs8(*numbers), "right")


@pytest.mark.parametrize("numbers", [(600_000, 32), (16384, 8, 1), ()], ids=["length", "scrypt", "none"])
def test_one_in_pkcs8_that_makes_less_is_tried(numbers: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="broken|does not open"):
        keys.read_private_key(pkcs8(*numbers), "right")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not a private key"),
        ("hello", "not a private key"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIMu me", "public key"),
        ("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none", "PuTTY"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", "broken"),
        ("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----", "broken"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "not a private key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n\0\n", "no key has"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nä\n", "no key has"),
        ("x" * (10 << 20), "at most"),
    ],
    ids=range(10),
)
def test_what_is_no_private_key(text: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence) as caught:
        keys.read_private_key(text)
    assert len(caught.value.message) < 200


def test_a_pair_that_the_workspace_makes(tmp_path: Path) -> None:
    private, line = keys.make_key_pair("windlass default")
    assert line == f"{keys.public_of(private)} windlass default"
    assert keys.make_key_pair("x")[0] != private
    assert keys.read_private_key(private) == private or keys.public_of(keys.read_private_key(private))


def test_fingerprints_are_as_ssh_keygen_shows_them(tmp_path: Path) -> None:
    path = made(tmp_path, "-t", "ed25519")
    shown = subprocess.run(["ssh-keygen", "-l", "-f", f"{path}.pub"], capture_output=True, text=True, check=True)
    assert keys.fingerprint(keys.host_key(public(path) + " comment")) == shown.stdout.split()[1]


@pytest.mark.parametrize("text", ["", "ssh-ed25519", "ssh-ed25519 ???", "x AAAA", "ssh-rsa A", "-oProxyCommand=x AAAA"])
def test_what_is_no_host_key(text: str) -> None:
    with pytest.raises(InvalidRequest, match="host"):
        keys.host_key(text)
