"""Network variables for installers: proxies, package indexes and certificates.

`tools` of run.json has those of the server: {"network": variables, "certificates": {"digest", "size"}}. Variables set
on this machine take precedence. uv and pip have different names for the same settings; what is set for one of them
counts for the other.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional

from ..workdir.machine_folder import Machine, check_digest

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
INDEXES = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX",
    "UV_EXTRA_INDEX_URL", "UV_INSECURE_HOST",
)  # fmt: skip
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
# Synonyms. If no name of a line is set on this machine, the server's values are used.
_SYNONYMS = (
    ("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), ("ALL_PROXY", "all_proxy"), ("NO_PROXY", "no_proxy"),
    ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"), ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX"),
    ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"),
)  # fmt: skip


def variables(machine: Machine, given: Mapping[str, Any], env: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The network variables of this machine and of the server, under all of their names."""
    env = os.environ if env is None else env
    sent = given.get("network")
    found = {}
    for names in _SYNONYMS:
        here = {name: env[name] for name in names if env.get(name)}
        found.update(here or {name: str(sent[name]) for name in names if isinstance(sent, dict) and sent.get(name)})
    path = next((env[name] for name in CERTIFICATES if env.get(name)), None) or _sent_certificates(machine, given)
    if path:
        found.update({name: env.get(name) or path for name in CERTIFICATES})
    return {**_translated(found), **found}


def _sent_certificates(machine: Machine, given: Mapping[str, Any]) -> Optional[str]:
    sent = given.get("certificates")
    path = f"{machine.files}/{check_digest(sent['digest'])}" if isinstance(sent, dict) else ""
    return path if path and os.path.exists(path) else None


def _translated(found: Mapping[str, str]) -> Dict[str, str]:
    """uv's variables under pip's names, and the other way around."""
    more: Dict[str, str] = {}
    for pip, *uv in _SYNONYMS[4:]:
        uv_value = next((found[name] for name in uv if name in found), None)
        if pip in found and uv_value is None:
            more[uv[0]] = found[pip]
        elif pip not in found and uv_value is not None:
            more[pip] = " ".join(_address(word) for word in uv_value.split())
    return more


def _address(index: str) -> str:
    """An index without the name that uv may give it: `name=https://…`."""
    name, equals, address = index.partition("=")
    return address if equals and "/" not in name else index


def files_to_send(given: Mapping[str, Any]) -> List[List[Any]]:
    """The server's certificates, unless this machine has its own; in the form of a snapshot's files."""
    sent = given.get("certificates")
    if not isinstance(sent, dict) or any(os.environ.get(name) for name in CERTIFICATES):
        return []
    return [["certificates", sent["digest"], sent["size"], False]]
