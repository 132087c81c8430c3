"""Who we are to registries of images: what `docker login` has left on this machine, and nothing else.

That stands in Docker's configuration, or is kept by a program that is named there (a credential helper), which is asked
as Docker does it: an address on its standard input, JSON on its output.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

from ..workdir.run_folder import read_json

_HUB = "https://index.docker.io/v1/"
_HOSTS_OF_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HELPER_SECONDS = 10.0
_IS_TOKEN = "<token>"  # in the place of a user
_HAS_NONE = "credentials not found"

Account = Dict[str, str]


class Login(NamedTuple):
    headers: Dict[str, str]
    troubles: List[str]  # why what there is could not be had


def for_image(reference: str) -> Login:
    """For pulling it."""
    logins = _Logins()
    account = logins.account(_registry_of(reference))
    return Login({"X-Registry-Auth": _coded(account)} if account else {}, logins.troubles)


def for_build(bases: Iterable[str]) -> Login:
    """For a build, which may begin with any image: those that it is known to begin with, and all that we know."""
    logins = _Logins()
    registries = {*map(_registry_of, bases), *logins.known}
    accounts = {registry: logins.account(registry) for registry in sorted(registries)}
    found = {registry: account for registry, account in accounts.items() if account}
    return Login({"X-Registry-Config": _coded(found)} if found else {}, logins.troubles)


class _Logins:
    def __init__(self) -> None:
        folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
        config = read_json(f"{folder}/config.json") or {}
        self._entries = _by_registry(config.get("auths"))
        self._helpers = _by_registry(config.get("credHelpers"))
        self._helper = config.get("credsStore")
        self.troubles: List[str] = []

    @property
    def known(self) -> List[str]:
        return [*self._entries, *self._helpers]

    def account(self, registry: str) -> Optional[Account]:
        helper = self._helpers.get(registry) or self._helper
        found = (self._ask(str(helper), registry) if helper else None) or _written(self._entries.get(registry))
        return {**found, "serveraddress": registry} if found else None

    def _ask(self, helper: str, registry: str) -> Optional[Account]:
        import subprocess

        program = f"docker-credential-{helper}"
        try:
            done = subprocess.run(
                [program, "get"], input=registry.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=_HELPER_SECONDS, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return _told(json.loads(done.stdout))
            trouble = done.stdout.decode("utf-8", "replace").strip()[:200]
        except (OSError, subprocess.TimeoutExpired) as e:
            trouble = str(e)
        except (ValueError, KeyError, TypeError):
            trouble = "its answer is not understood"
        if _HAS_NONE not in trouble:
            self.troubles.append(f"The login for {registry} is kept by {program}, which does not tell it: {trouble}")
        return None


def _told(answer: Mapping[str, str]) -> Account:
    user, secret = answer["Username"], answer["Secret"]
    return {"identitytoken": secret} if user == _IS_TOKEN else {"username": user, "password": secret}


def _written(entry: Any) -> Optional[Account]:
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"])}
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth") or "")).decode("utf-8").partition(":")
    except ValueError:
        return None
    return {"username": user, "password": password} if colon else None


def _by_registry(entries: Any) -> Dict[str, Any]:
    """What people wrote with or without https:// and a path; if several are of one registry, the plain one counts."""
    found: Dict[str, Any] = {}
    for address, entry in entries.items() if isinstance(entries, dict) else ():
        registry = _registry(address)
        if registry == address or registry not in found:
            found[registry] = entry
    return found


def _registry_of(reference: str) -> str:
    first, slash, _ = reference.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return _registry(first) if is_host else _HUB


def _registry(address: str) -> str:
    """As the engine names it in its own words: a host, or the Hub's whole address."""
    host = address.rpartition("://")[2].partition("/")[0]
    return _HUB if host in _HOSTS_OF_HUB else host


def _coded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii")
