"""Which variables of the server go to other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.drivers.machine import network

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("around", "is_shared", "sent"),
    [
        ({"HTTPS_PROXY": "http://proxy", "no_proxy": "localhost", "HOME": "/root"}, True, ("HTTPS_PROXY", "no_proxy")),
        ({"HTTPS_PROXY": "http://127.0.0.1:3128", "ALL_PROXY": "socks5://localhost:1"}, False, ()),
        ({"HTTP_PROXY": "localhost:3128", "http_proxy": "http://a:b@[::1]:1"}, False, ()),
        ({"https_proxy": "localhosts:1"}, False, ("https_proxy",)),
        ({"PIP_INDEX_URL": "https://a:b@index/simple", "UV_INDEX": "https://i"}, False, ("PIP_INDEX_URL", "UV_INDEX")),
        ({"PIP_INDEX_URL": "https://a:b@index/simple", "UV_INDEX": "https://index"}, True, ("UV_INDEX",)),
        ({"HTTP_PROXY": "a:b@proxy:3128"}, True, ()),
        ({"AWS_SECRET_ACCESS_KEY": "x", "PIP_CONFIG_FILE": "/root/pip.conf", "UV_INDEX_X_PASSWORD": "x"}, False, ()),
    ],
)  # fmt: skip
def test_what_is_good_on_another_machine(around: dict[str, str], is_shared: bool, sent: tuple[str, ...]) -> None:
    """Where people share a server, what its account logs in with stays there."""
    assert network.variables(around, with_credentials=not is_shared) == {name: around[name] for name in sent}


@pytest.mark.parametrize(
    ("data", "is_sent"),
    [
        (CERTIFICATE, True),
        (b"root:x:0:0\n", False),
        (CERTIFICATE + b"-----BEGIN PRIVATE KEY-----\n", False),
        (CERTIFICATE + b"#" * (4 << 20), False),
        (None, False),
    ],
)
def test_only_certificates_are_sent_as_such(data: bytes | None, is_sent: bool, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "ca.pem").write_bytes(data)
    found = network.certificates({"SSL_CERT_FILE": "", "REQUESTS_CA_BUNDLE": str(tmp_path / "ca.pem")})
    assert (found is not None) == is_sent
    if found is not None:
        with found.open() as file:
            assert file.read() == data
    assert network.certificates({}) is None
