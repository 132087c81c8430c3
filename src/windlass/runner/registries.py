"""Who we are to registries of images: what `docker login` has written on this machine, and nothing else."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Dict, Mapping

from .folder import read_json

_HUB = "https://index.docker.io/v1/"


def header_for(reference: str) -> Dict[str, str]:
    """For pulling an image."""
    auth = _known().get(_registry_of(reference))
    return {"X-Registry-Auth": _coded(auth)} if auth else {}


def header_for_builds() -> Dict[str, str]:
    """For a build, which may begin with any image."""
    known = _known()
    return {"X-Registry-Config": _coded(known)} if known else {}


def _registry_of(reference: str) -> str:
    first, slash, _ = reference.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if is_host else _HUB


def _known() -> Dict[str, Dict[str, str]]:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    auths = (read_json(f"{folder}/config.json") or {}).get("auths")
    found: Dict[str, Dict[str, str]] = {}
    for address, entry in auths.items() if isinstance(auths, dict) else ():
        account = _account(entry) if isinstance(entry, dict) else {}
        if account:
            found[address] = {**account, "serveraddress": address}
    return found


def _account(entry: Mapping[str, Any]) -> Dict[str, str]:
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"])}
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or "")).decode("utf-8").partition(":")
    except ValueError:
        return {}
    return {"username": user, "password": password} if colon else {}


def _coded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii")
