"""What installers are told of the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windlass.runner.containers.dockerfile import build_arguments
from windlass.runner.environments import network
from windlass.runner.environments.build_context import masked
from windlass.runner.workdir.machine_folder import Machine

PROXY = "http://proxy.example:3128"
INDEX = "https://index.example/simple"


@pytest.mark.parametrize(
    ("here", "sent", "known"),
    [
        ({}, {}, {}),
        ({"HTTPS_PROXY": PROXY}, {}, {"HTTPS_PROXY": PROXY}),
        ({}, {"https_proxy": PROXY}, {"https_proxy": PROXY}),
        ({"https_proxy": "http://own"}, {"HTTPS_PROXY": PROXY}, {"https_proxy": "http://own"}),
        ({"HTTPS_PROXY": ""}, {"HTTPS_PROXY": PROXY}, {"HTTPS_PROXY": PROXY}),
        ({"PIP_INDEX_URL": INDEX}, {}, {"PIP_INDEX_URL": INDEX, "UV_DEFAULT_INDEX": INDEX}),
        ({"UV_INDEX_URL": INDEX}, {"PIP_INDEX_URL": "https://other"}, {"UV_INDEX_URL": INDEX, "PIP_INDEX_URL": INDEX}),
        ({"UV_DEFAULT_INDEX": f"own={INDEX}"}, {}, {"UV_DEFAULT_INDEX": f"own={INDEX}", "PIP_INDEX_URL": INDEX}),
        ({"UV_INDEX": f"a={INDEX} {INDEX}?b=c"}, {},
         {"UV_INDEX": f"a={INDEX} {INDEX}?b=c", "PIP_EXTRA_INDEX_URL": f"{INDEX} {INDEX}?b=c"}),
        ({}, {"PIP_TRUSTED_HOST": "a"}, {"PIP_TRUSTED_HOST": "a", "UV_INSECURE_HOST": "a"}),
        ({"SSL_CERT_FILE": "/ca"}, {}, dict.fromkeys(network.CERTIFICATES, "/ca")),
        ({"REQUESTS_CA_BUNDLE": "/ca", "PIP_CERT": "/b"}, {},
         {**dict.fromkeys(network.CERTIFICATES, "/ca"), "PIP_CERT": "/b"}),
        ({}, {"LD_PRELOAD": "/evil.so", "PATH": "/evil"}, {}),
    ],
)  # fmt: skip
def test_what_is_set_here_comes_first_and_has_all_names(
    here: dict[str, str], sent: dict[str, str], known: dict[str, str], tmp_path: Path
) -> None:
    assert network.variables(Machine(str(tmp_path)), {"network": sent}, here) == known


def test_certificates_that_were_sent_are_used_where_none_are_named(tmp_path: Path) -> None:
    machine = Machine(str(tmp_path))
    machine.make()
    given = {"certificates": {"digest": "ab" * 32, "size": 3}}
    assert network.variables(machine, given, {}) == {}, "they have not come"
    Path(machine.files, "ab" * 32).write_bytes(b"pem")
    assert set(network.variables(machine, given, {}).values()) == {f"{machine.files}/{'ab' * 32}"}
    assert network.variables(machine, given, {"PIP_CERT": "/own"})["SSL_CERT_FILE"] == "/own"


def test_a_dockerfile_gets_what_no_image_keeps_or_what_it_asks_for() -> None:
    known = {"HTTPS_PROXY": PROXY, "PIP_INDEX_URL": INDEX, "UV_DEFAULT_INDEX": INDEX, "SSL_CERT_FILE": os.devnull}
    assert build_arguments("FROM a\nRUN b", known) == {"HTTPS_PROXY": PROXY}
    asked = build_arguments("FROM a\nARG PIP_INDEX_URL=https://else\nRUN b", known)
    assert asked == {"HTTPS_PROXY": PROXY, "PIP_INDEX_URL": INDEX}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("HTTPS_PROXY=http://a:pass@proxy:3128", "HTTPS_PROXY=http://***@proxy:3128"),
        ("https_proxy=a:pass@proxy:3128 x", "https_proxy=***@proxy:3128 x"),
        ("{'HTTP_PROXY': 'a:pass@proxy:3128'}", "{'HTTP_PROXY': '***@proxy:3128'}"),
        ("ALL_PROXY=socks5h://a:pass@proxy:1080", "ALL_PROXY=socks5h://***@proxy:1080"),
        ("NO_PROXY=localhost,10.0.0.0/8", "NO_PROXY=localhost,10.0.0.0/8"),
        ("mail me@example.com", "mail me@example.com"),
    ],
)
def test_credentials_of_proxies_are_not_told(text: str, told: str) -> None:
    assert masked(text) == told
