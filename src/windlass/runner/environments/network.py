"""What installers are told of the network: proxies, package indexes, and whom to trust.

`tools` of run.json has what the server knows: {"network": variables, "certificates": {"digest", "size"}}. What is set
on this machine comes first: it knows its own network. uv and pip have different names for the same things; what is said
to one of them counts for the other.
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
# Names that mean the same. If none of a line is set here, the server's count.
_SAME = (
    ("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), ("ALL_PROXY", "all_proxy"), ("NO_PROXY", "no_proxy"),
    ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"), ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX"),
    ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"),
)  # fmt: skip


def variables(machine: Machine, given: Mapping[str, Any], around: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """All that is known of the network here, under all of its names."""
    around = os.environ if around is None else around
    sent = given.get("network")
    found = {}
    for names in _SAME:
        here = {name: around[name] for name in names if around.get(name)}
        found.update(here or {name: str(sent[name]) for name in names if isinstance(sent, dict) and sent.get(name)})
    path = next((around[name] for name in CERTIFICATES if around.get(name)), None) or _sent_certificates(machine, given)
    if path:
        found.update({name: around.get(name) or path for name in CERTIFICATES})
    return {**_translated(found), **found}


def _sent_certificates(machine: Machine, given: Mapping[str, Any]) -> Optional[str]:
    sent = given.get("certificates")
    path = f"{machine.files}/{check_digest(sent['digest'])}" if isinstance(sent, dict) else ""
    return path if path and os.path.exists(path) else None


def _translated(found: Mapping[str, str]) -> Dict[str, str]:
    """What uv is told by its own name, for pip, and the other way around."""
    more: Dict[str, str] = {}
    for pip, *uv in _SAME[4:]:
        theirs = next((found[name] for name in uv if name in found), None)
        if pip in found and theirs is None:
            more[uv[0]] = found[pip]
        elif pip not in found and theirs is not None:
            more[pip] = " ".join(_address(word) for word in theirs.split())
    return more


def _address(index: str) -> str:
    """uv gives indexes names: `name=https://…`."""
    name, equals, address = index.partition("=")
    return address if equals and "/" not in name else index


def files_to_send(given: Mapping[str, Any]) -> List[List[Any]]:
    """The server's certificates, if this machine names none of its own; in the form of a snapshot's files."""
    sent = given.get("certificates")
    if not isinstance(sent, dict) or any(os.environ.get(name) for name in CERTIFICATES):
        return []
    return [["certificates", sent["digest"], sent["size"], False]]
