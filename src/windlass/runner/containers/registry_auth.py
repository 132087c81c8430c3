"""Credentials for image registries: the logins that `docker login` has stored on this machine, and nothing else.

They are in Docker's config.json, or in a credential helper that is named there and called as Docker does: the registry
on stdin, JSON on stdout.
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
_IS_TOKEN = "<token>"  # user name of an identity token
_HAS_NONE = "credentials not found"

Account = Dict[str, str]


class Login(NamedTuple):
    headers: Dict[str, str]
    problems: List[str]  # why a stored login could not be read


def for_image(reference: str) -> Login:
    """Headers for pulling an image."""
    logins = _Logins()
    account = logins.account(_registry_of(reference))
    return Login({"X-Registry-Auth": _encoded(account)} if account else {}, logins.problems)


def for_build(bases: Iterable[str]) -> Login:
    """Headers for a build: logins for the registries of its known bases, and all others that are stored."""
    logins = _Logins()
    registries = {*map(_registry_of, bases), *logins.known}
    accounts = {registry: logins.account(registry) for registry in sorted(registries)}
    found = {registry: account for registry, account in accounts.items() if account}
    return Login({"X-Registry-Config": _encoded(found)} if found else {}, logins.problems)


class _Logins:
    def __init__(self) -> None:
        folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
        config = read_json(f"{folder}/config.json") or {}
        self._entries = _by_registry(config.get("auths"))
        self._helpers = _by_registry(config.get("credHelpers"))
        self._helper = config.get("credsStore")
        self.problems: List[str] = []

    @property
    def known(self) -> List[str]:
        return [*self._entries, *self._helpers]

    def account(self, registry: str) -> Optional[Account]:
        helper = self._helpers.get(registry) or self._helper
        found = self._ask_helper(str(helper), registry) if helper else None
        found = found or _account_from_config(self._entries.get(registry))
        return {**found, "serveraddress": registry} if found else None

    def _ask_helper(self, helper: str, registry: str) -> Optional[Account]:
        import subprocess

        program = f"docker-credential-{helper}"
        try:
            done = subprocess.run(
                [program, "get"], input=registry.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=_HELPER_SECONDS, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return _account_from_helper(json.loads(done.stdout))
            problem = done.stdout.decode("utf-8", "replace").strip()[:200]
        except (OSError, subprocess.TimeoutExpired) as e:
            problem = str(e)
        except (ValueError, KeyError, TypeError):
            problem = "its answer is not understood"
        if _HAS_NONE not in problem:
            self.problems.append(f"The login for {registry} is kept by {program}, which failed: {problem}")
        return None


def _account_from_helper(answer: Mapping[str, str]) -> Account:
    user, secret = answer["Username"], answer["Secret"]
    return {"identitytoken": secret} if user == _IS_TOKEN else {"username": user, "password": secret}


def _account_from_config(entry: Any) -> Optional[Account]:
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
    """Entries by registry: people write them with or without https:// and a path; the plain form takes precedence."""
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
    """The registry as the engine names it: a host, or the full address of Docker Hub."""
    host = address.rpartition("://")[2].partition("/")[0]
    return _HUB if host in _HOSTS_OF_HUB else host


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii")
