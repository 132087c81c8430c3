"""Validation of a kubeconfig. It must be self-contained, since the server stores its text and no other file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.core.errors import InvalidRequest

_FLATTEN = "This writes one without references: kubectl config view --flatten --minify > kubeconfig"
# Settings that name files of the computer on which the kubeconfig was written.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_PROGRAMS = ("exec", "auth-provider")


def check_kubeconfig(text: str, context: str | None, is_shared: bool) -> None:
    """Refuse a text that is no kubeconfig, lacks the context, refers to files, or runs programs on a shared server."""
    document = _read(text)
    known = [str(entry.get("name")) for entry in _entries(document, "contexts")]
    wanted = context or document.get("current-context")
    if not known or wanted not in known:
        raise InvalidRequest(
            f"The kubeconfig has no context {ascii(str(wanted or ''))[:100]}.",
            f"It has: {', '.join(ascii(name[:60])[1:-1] for name in known[:20]) or 'none'}. Name one with --context.",
        )
    for section, inner in (("clusters", "cluster"), ("users", "user")):
        for entry in _entries(document, section):
            settings = entry.get(inner)
            _check_settings(settings if isinstance(settings, dict) else {}, is_shared)


def _read(text: str) -> dict[str, Any]:
    from ruamel.yaml import YAML  # imported here: few servers need it
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidRequest("This is no kubeconfig: it is not a YAML document with clusters, users and contexts.")
    return document


def _entries(document: dict[str, Any], section: str) -> Iterator[dict[str, Any]]:
    listed = document.get(section)
    return (entry for entry in (listed if isinstance(listed, list) else ()) if isinstance(entry, dict))


def _check_settings(settings: dict[str, Any], is_shared: bool) -> None:
    for key in _FILES:
        if key in settings:
            raise InvalidRequest(f"The kubeconfig names a file of another computer: {key}.", _FLATTEN)
    for key in _PROGRAMS:
        if key in settings and is_shared:
            raise InvalidRequest(
                f"The kubeconfig starts a program to log in ({key}), and people share this server.",
                "Use the token of a service account: kubectl create token NAME",
            )
