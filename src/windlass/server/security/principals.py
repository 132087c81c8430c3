"""Principals and their permissions; the cache of tokens, and the counts of wrong secrets by address."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar

from windlass.core import names
from windlass.core.entities import Run
from windlass.core.errors import Denied, InvalidRequest, NotFound, TooMany, WindlassError
from windlass.server.http.errors import Unauthenticated
from windlass.server.security.run_tokens import TokenOfRun, check_run_token
from windlass.store import Store, Token

log = logging.getLogger(__name__)

OPEN = "open"

_READER = frozenset({
    "api.read", "workspaces.read", "workspace.read", "runs.read", "targets.read", "environments.read", "models.read",
})  # fmt: skip
_CONTRIBUTOR = _READER | {
    "experiments.write", "runs.submit", "runs.write", "runs.cancel", "targets.use", "secrets.use", "environments.write",
    "models.write", "runs.exec",
}  # fmt: skip
_OWNER = _CONTRIBUTOR | {"targets.exec", "targets.write", "secrets.write", "audit.read", "tokens.read", "tokens.write"}
_SERVER = frozenset({
    "server.read", "server.stop", "server.gc", "settings.read", "settings.write", "workspaces.create", "secrets.rotate",
    "quotas.write",
})  # fmt: skip
_ADMIN = _READER | _SERVER | {"runs.cancel", "targets.use", "targets.write", "audit.read"}
_RUN = frozenset({
    "api.read", "workspace.read", "runs.read", "runs.submit", "runs.write", "runs.cancel", "environments.read",
    "models.read", "models.write",
})  # fmt: skip

ROLES = {"reader": _READER, "contributor": _CONTRIBUTOR, "owner": _OWNER, "admin": _ADMIN}
PERMISSIONS = _OWNER | _SERVER | {OPEN}

# A token that another server revoked is good here for at most this long, also for streams that are open.
TRUST_SECONDS = 10.0
USE_STORED_EVERY = timedelta(minutes=1)
RUN_TOKEN_GRACE = timedelta(hours=1)
WRONG_PER_SECOND = 100
_CACHE_SIZE = 4096
_LONGEST_TOKEN = 600
_ASK = "Ask an owner of the workspace for a new one."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Principal:
    """The bearer of a valid token. Without a workspace, it is for all; with a run, for that run and its descendants."""

    name: str
    permissions: frozenset[str]
    workspace: str | None = None
    run: str | None = None
    # Whether it may write to and cancel runs that other members submitted.
    acts_for_others: bool = False
    role: str = ""
    expires_at: datetime | None = None

    def may(self, permission: str) -> bool:
        return permission in self.permissions

    def may_see(self, workspace: str) -> bool:
        return self.workspace is None or self.workspace == workspace

    def check_acts_on(self, run: Run) -> None:
        """Refuse to change or cancel a run that another member submitted."""
        if self.run is None and not self.acts_for_others and run.submitted_by != self.name:
            raise Denied(
                f"Run {run.id} was submitted by {run.submitted_by or 'somebody else'}; you may change only your own.",
                "Ask an owner of the workspace.",
            )


ANONYMOUS = Principal("", frozenset())


def check_own(store: Store, principal: Principal, run: Run, is_reading: bool) -> None:
    """Raise NotFound for a run that the token of another run is not for. It is for that run and its descendants, and to
    read its ancestors.
    """
    if principal.run is None or run.id == principal.run or principal.run in _above(store, run):
        return
    if is_reading and run.id in _above(store, store.runs.get(run.workspace, principal.run)):
        return
    raise NotFound(f"There is no run {run.id} in workspace {run.workspace}.")


def _above(store: Store, run: Run) -> Iterator[str]:
    """The ancestors of a run, from its parent to the root."""
    for _ in range(100):
        if run.parent is None:
            return
        yield run.parent
        run = store.runs.get(run.workspace, run.parent)


class Expiring(Protocol):
    @property
    def expires_at(self) -> datetime | None: ...


E = TypeVar("E", bound=Expiring)


class LookupCache(Generic[E]):
    """Results of recent lookups, by the digest of the secret. They are trusted for a moment, and not beyond their
    expiry.
    """

    def __init__(self) -> None:
        self.revocations = 0
        self._known: OrderedDict[bytes, tuple[E, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, secret: str) -> E | None:
        found = self._known.get(_digest(secret))
        if found is None or time.monotonic() - found[1] >= TRUST_SECONDS:
            return None
        expires_at = found[0].expires_at
        return found[0] if expires_at is None or expires_at > datetime.now(UTC) else None

    def put(self, secret: str, found: E, revocations: int) -> None:
        """`revocations` is their count before the lookup: after a later one the result may be outdated."""
        with self._lock:
            if revocations == self.revocations:
                self._known[_digest(secret)] = found, time.monotonic()
            while len(self._known) > _CACHE_SIZE:
                self._known.popitem(last=False)

    def drop(self, is_revoked: Callable[[bytes, E], bool]) -> None:
        """Drop what was revoked in the store, by digest and result."""
        with self._lock:
            self.revocations += 1
            for digest in [digest for digest, (found, _) in self._known.items() if is_revoked(digest, found)]:
                del self._known[digest]


class WrongSecrets:
    """Counts wrong tokens, codes and cookies by the address that they come from."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def guard(self, address: str, lookup: Callable[[], T]) -> T:
        """The result of a lookup. If that raises Unauthenticated, count it, and raise TooMany when the address has sent
        many wrong secrets in this second.
        """
        try:
            return lookup()
        except Unauthenticated:
            if self._count(address, 1) > WRONG_PER_SECOND:
                raise TooMany(
                    "Too many wrong tokens came from this address.", "Wait a second, then use the right token."
                ) from None
            raise

    def is_suspect(self, address: str) -> bool:
        """Whether an address sent so many wrong secrets in this second that its lookups get threads of their own."""
        return self._count(address, 0) >= WRONG_PER_SECOND

    def _count(self, address: str, more: int) -> int:
        """How many wrong secrets came from an address in the current second."""
        now = time.monotonic()
        with self._lock:
            since, count = self._counts.pop(address, (now, 0))
            if now - since >= 1:
                since, count = now, 0
            count += more
            if count:
                self._counts[address] = since, count
            while len(self._counts) > _CACHE_SIZE:
                self._counts.popitem(last=False)
        return count


class TokenCache:
    """Looks up tokens. Valid ones are cached for a moment, so that few requests cost a query of the store."""

    def __init__(self, store: Store, key: bytes) -> None:
        self.wrong = WrongSecrets()
        self._store = store
        self._key = key
        self._known = LookupCache[Principal]()

    def cached(self, secret: str) -> Principal | None:
        """The principal of a token that was looked up a moment ago; never queries the store."""
        return self._known.get(secret)

    def lookup(self, secret: str, address: str) -> Principal:
        """The principal of a token. A valid token is accepted however many wrong ones came from the same address.

        Raises Unauthenticated for a wrong one, or TooMany when the address has sent many in this second.
        """
        principal = self.cached(secret)
        if principal is not None:
            return principal
        revocations = self._known.revocations
        principal = self.wrong.guard(address, lambda: self._look_up(secret))
        self._known.put(secret, principal, revocations)
        return principal

    def drop_revoked(self, digests: Iterable[str]) -> None:
        """Drop tokens that were revoked in the store, by the digests of their secrets."""
        gone = {bytes.fromhex(digest) for digest in digests}
        self._known.drop(lambda digest, _: digest in gone)

    def use(self, token: Token) -> Principal:
        """The principal of a token, whose use is stored. Raises Unauthenticated if it was revoked or has expired."""
        principal = _token_principal(token)
        self._store_use(token)
        return principal

    def _look_up(self, secret: str) -> Principal:
        if not secret.isascii() or not secret.isprintable() or len(secret) > _LONGEST_TOKEN:
            raise Unauthenticated("This token is not valid.", "Check that the whole token was given.")
        owned = check_run_token(self._key, secret)
        if owned is not None:
            return self._run_principal(owned)
        token = self._store.tokens.find(secret)
        if token is None:
            raise Unauthenticated(
                "This token is not known here.",
                "Use one of this server: from an owner of the workspace, or the file `token` in its home.",
            )
        return self.use(token)

    def _store_use(self, token: Token) -> None:
        """Store when a token was last used. A failure is logged only: the request goes on."""
        at, before = datetime.now(UTC), token.last_used_at
        if token.workspace is None or (before is not None and at - before < USE_STORED_EVERY):
            return
        try:
            self._store.tokens.record_use(token.id, at)
        except WindlassError as e:
            log.warning("the last use of the token of %s could not be stored: %s", token.principal, e.message)

    def _run_principal(self, token: TokenOfRun) -> Principal:
        run = self._find(token.run_id)
        over = run.ended_at is not None and datetime.now(UTC) - run.ended_at > RUN_TOKEN_GRACE
        if over or not token.is_of(run.attempt, run.created_at):
            raise Unauthenticated(
                f"The token of run {run.id} has expired.", "It is good until an hour after the run's end."
            )
        return Principal(run.submitted_by, _RUN, run.workspace, run.id, role="run")

    def _find(self, run_id: str) -> Run:
        for workspace in self._store.workspaces.list():
            try:
                return self._store.runs.get(workspace.name, names.run_id(run_id))
            except InvalidRequest:
                continue
        raise Unauthenticated(f"There is no run {run_id[:60]!r} any more.")


def _token_principal(token: Token) -> Principal:
    if token.revoked_at is not None:
        raise Unauthenticated("This token was revoked.", _ASK)
    if token.expires_at is not None and token.expires_at <= datetime.now(UTC):
        raise Unauthenticated("This token has expired.", _ASK)
    permissions = ROLES.get(token.role, frozenset())
    if token.role == "owner" and token.workspace is None:
        permissions |= _ADMIN
    return Principal(
        token.principal,
        permissions,
        token.workspace,
        acts_for_others=token.role in ("owner", "admin"),
        role=token.role,
        expires_at=token.expires_at,
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
