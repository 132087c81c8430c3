"""Network settings for installers on machines: proxies, package indexes and CA certificates.

They come from environment variables of the server, and apply on machines that set none of their own
(docs/how-to/company-network.md). `runner/environments/network.py` applies them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Mapping
from pathlib import Path

from windlass.drivers.machine.build_tools import Program

log = logging.getLogger(__name__)

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_INDEXES = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX",
    "UV_EXTRA_INDEX_URL", "UV_INSECURE_HOST",
)  # fmt: skip
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
_SENT = (*_PROXIES, *(name.lower() for name in _PROXIES), *_INDEXES)
_CREDENTIALS = re.compile(r"(^|//)[^/@\s]+@")
# Loopback addresses, which mean another machine there.
_LOOPBACK = re.compile(r"(^|//|@)(localhost|127\.[\d.]+|\[::1\]|::1)(?=[:/]|\Z)", re.IGNORECASE)
_MOST_CERTIFICATES = 4 << 20  # bytes


def variables(around: Mapping[str, str], with_credentials: bool) -> dict[str, str]:
    """The variables of the server that hold on other machines too. Without `with_credentials`, addresses that contain
    credentials are left out: on a shared server they are not for machines of its users.
    """
    found = {name: around[name] for name in _SENT if around.get(name)}
    return {name: value for name, value in found.items() if _is_good(name, value, with_credentials)}


def _is_good(name: str, value: str, with_credentials: bool) -> bool:
    if name.upper() == "NO_PROXY":
        return True
    return not _LOOPBACK.search(value) and (with_credentials or not _CREDENTIALS.search(value))


def certificates(around: Mapping[str, str]) -> Program | None:
    """The file of CA certificates that the server's variables name, if any."""
    path = next((around[name] for name in _CERTIFICATES if around.get(name)), None)
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_CERTIFICATES + 1)
    except OSError as e:
        log.warning("the certificates of %s are not sent to machines: %s", path, e.strerror)
        return None
    if b"-----BEGIN CERTIFICATE-----" not in data or b"PRIVATE KEY" in data or len(data) > _MOST_CERTIFICATES:
        log.warning("the certificates of %s are not sent to machines: it is no list of certificates in PEM", path)
        return None
    return Program(lambda: io.BytesIO(data), hashlib.sha256(data).hexdigest(), len(data))
