"""What a machine by SSH is attached by: which login is meant, and what of it is kept. Nothing is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from pydantic import ValidationError

from windlass import drivers
from windlass.core.errors import CredentialsNeeded, InvalidRequest, LoginRefused, TargetUnreachable
from windlass.drivers.base import DriverContext
from windlass.drivers.kinds.ssh import SshConfig, SshCredentials, SshDriver
from windlass.drivers.openssh import keys

PRIVATE, _ = keys.make_key_pair("")
LOCKED = Ed25519PrivateKey.generate().private_bytes(
    Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(b"open")
)


def driver(is_shared: bool = False, **config: Any) -> SshDriver:
    given = {"address": "10.0.0.7", "username": "jane", **config}
    made = drivers.unconnected("ssh", "box", given)
    assert isinstance(made, SshDriver)
    made.context = DriverContext(reads_user_files=not is_shared)
    return made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the account that the server runs by: without agent and keys."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("config", "given", "login", "kept"),
    [
        ({}, {"password": "x"}, "password", ["password"]),
        ({}, {"private_key": PRIVATE}, "key", ["private-key"]),
        ({}, {"private_key": LOCKED.decode(), "passphrase": "open"}, "key", ["private-key"]),
        ({"login": "workspace-key"}, {}, "workspace-key", []),
        ({"login": "workspace-key"}, {"password": "x"}, "workspace-key", ["password"]),
        ({"login": "agent"}, {}, "agent", []),
    ],
)
def test_the_login_follows_from_what_is_given(
    config: dict[str, Any], given: dict[str, Any], login: str, kept: list[str]
) -> None:
    accepted, secrets = driver(**config).accept(SshCredentials(**given))
    assert isinstance(accepted, SshConfig) and accepted.login == login
    assert list(secrets) == kept


def test_a_private_key_is_kept_without_its_passphrase() -> None:
    _, secrets = driver().accept(SshCredentials(private_key=LOCKED.decode(), passphrase="open"))  # type: ignore[arg-type]
    assert keys.public_of(secrets["private-key"].get_secret_value()).startswith("ssh-ed25519 ")


def test_without_credentials_the_keys_of_the_account_are_used_where_there_are_any(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CredentialsNeeded) as caught:
        driver().accept(SshCredentials())
    assert caught.value.details == {"fields": ["password"]} and "jane@10.0.0.7" in caught.value.message
    (home / ".ssh" / "id_ed25519.pub").touch()
    with pytest.raises(CredentialsNeeded):
        driver().accept(SshCredentials())
    (home / ".ssh" / "id_ed25519").touch()
    assert driver().accept(SshCredentials())[0].login == "agent"  # type: ignore[attr-defined]
    with pytest.raises(CredentialsNeeded):
        driver(is_shared=True).accept(SshCredentials())
    (home / ".ssh" / "id_ed25519").unlink()
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert driver().accept(SshCredentials())[0].login == "agent"  # type: ignore[attr-defined]


def test_a_passphrase_that_is_missing_is_named() -> None:
    with pytest.raises(CredentialsNeeded) as caught:
        driver().accept(SshCredentials(private_key=LOCKED.decode()))  # type: ignore[arg-type]
    assert caught.value.details == {"fields": ["passphrase"]}
    with pytest.raises(CredentialsNeeded) as caught:
        driver(login="password").accept(SshCredentials())
    assert caught.value.details == {"fields": ["password"]}


@pytest.mark.parametrize(
    ("config", "given", "word"),
    [
        ({}, {"password": "x", "private_key": PRIVATE}, "needs password, and got password, private-key"),
        ({"login": "key"}, {"password": "x"}, "needs private-key, and got password"),
        ({"login": "key"}, {}, "needs private-key, and got none"),
        ({"login": "agent"}, {"password": "x"}, "needs no credentials"),
        ({"is_shared": True, "login": "agent"}, {}, "are not for its users"),
        ({}, {"passphrase": "x"}, "no private key"),
    ],
)
def test_what_contradicts_itself_is_refused(config: dict[str, Any], given: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        driver(**config).accept(SshCredentials(**given))


@pytest.mark.parametrize("password", ["a\nb", "a\rb", "a\0b"])
def test_a_password_can_be_typed(password: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be typed"):
        SshCredentials(password=password)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [{"password": ""}, {"password": "x" * 1025}, {"private_key": "x" * (keys.LARGEST + 1)}]
)
def test_the_length_of_credentials_is_limited_and_their_text_is_not_shown(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        SshCredentials(**given)
    assert "xxx" not in str(caught.value)


# where it is


@pytest.mark.parametrize(
    ("config", "location", "endpoint"),
    [
        ({}, "jane@10.0.0.7", "10.0.0.7:22"),
        ({"port": 22}, "jane@10.0.0.7", "10.0.0.7:22"),
        ({"address": "10.0.0.7:2222"}, "jane@10.0.0.7:2222", "10.0.0.7:2222"),
        ({"address": "[fd00::7]:2222"}, "jane@[fd00::7]:2222", "[fd00::7]:2222"),
        ({"address": "gpu.lab:22", "port": 22}, "jane@gpu.lab", "gpu.lab:22"),
    ],
)
def test_where_it_is(config: dict[str, Any], location: str, endpoint: str) -> None:
    made = driver(**config)
    assert (made.location(), made.endpoint(), made.left_at()) == (location, endpoint, f"{location}:~/.windlass/ssh")


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"address": "gpu.lab:2222", "port": 22}, "names port 2222"),
        ({"address": "gpu.lab:0"}, "1 to 65535"),
        ({"address": "gpu.lab:65536"}, "1 to 65535"),
    ],
)
def test_ports_that_cannot_be(config: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        driver(**config)


def test_a_machine_that_refuses_the_workspaces_key_is_told_where_that_belongs() -> None:
    refused = LoginRefused("box does not let us in", "Check the credentials.")
    assert driver(login="password").explain(refused) is refused
    ours = driver(login="workspace-key")
    assert "~/.ssh/authorized_keys of jane there: windlass compute public-key" in ours.explain(refused).hint
    other = TargetUnreachable("it is off")
    assert ours.explain(other) is other
    assert ours.uses_workspace_credential() and "echo 'ssh-x'" in ours.enrollment_problem("ssh-x")["fix"]
