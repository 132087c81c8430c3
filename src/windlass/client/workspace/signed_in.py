"""The member whose token is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.client.http.session import Session


def signed_in(session: Session) -> dict[str, Any]:
    """Name, role and workspace of the member that the session's token belongs to, and the server's id and version."""
    found: dict[str, Any] = session.call("GET", "/session")
    return found
