"""The server's process: where it reaches itself, and what it cannot start without."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from windlass.core.errors import InvalidRequest
from windlass.server.main import _address


@pytest.mark.parametrize(
    ("listens", "reached"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::1", "::1")],
)
def test_it_reaches_itself_wherever_it_listens(listens: str, reached: str) -> None:
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with socket.create_server((listens, 0), family=family) as listening:
        found = _address(listening, "http://windlass.example.org", "0" * 16, None)
        assert (found.host, found.url, found.certificate) == (reached, "http://windlass.example.org", "")
        with socket.create_connection((found.host, found.port)), listening.accept()[0]:
            pass


def test_it_says_which_certificate_cannot_be_read(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(InvalidRequest, match="gone.pem cannot"):
        _address(listening, "https://windlass.example.org", "0" * 16, tmp_path / "gone.pem")
