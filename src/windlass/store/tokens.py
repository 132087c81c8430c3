"""Access tokens. The secret is shown once; we keep its digest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    principal: str
    role: str
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Tokens:
    def create(
        self, principal: str, role: str, workspace: str | None = None, expires_at: datetime | None = None
    ) -> tuple[str, str]:
        raise NotImplementedError

    def find(self, secret: str) -> Token | None:
        """The token of that secret, also when it has expired or was revoked: the caller judges."""
        raise NotImplementedError

    def revoke(self, id: str) -> None:
        raise NotImplementedError

    def list(self) -> list[Token]:
        raise NotImplementedError
