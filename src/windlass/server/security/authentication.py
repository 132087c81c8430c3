"""Who may come in: every route's request passes here before anything of it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from windlass.core import names
from windlass.core.errors import Denied, NotFound, TooMany, WindlassError
from windlass.server.http.errors import Unauthenticated
from windlass.server.http.threads import RequestThreads, run_in_thread
from windlass.server.security.principals import OPEN, Doorkeeper, Principal

if TYPE_CHECKING:
    from windlass.server.context import Context
    from windlass.server.http.request import Call


class Door:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._doorkeeper = Doorkeeper(context.store, context.token_key)
        self._workspaces: set[str] = set()
        self.threads = RequestThreads()

    async def let_in(self, call: Call, for_runs: bool) -> None:
        """Find out who calls, and whether they may. A token in the wrong place is no token."""
        if call.permission == OPEN:
            return
        secret = _bearer(call)
        call.principal = self._doorkeeper.recall(secret) or await self._ask(secret, call.address)
        call.state.place.authenticate()
        if "workspace" in call.path_params:
            await self._enter(call.principal, call.workspace)
        if not call.principal.may(call.permission):
            raise Denied(
                f"This needs the permission {call.permission}, which your token does not have.",
                "Ask an owner of the workspace, or whoever runs the server.",
            )
        if call.principal.run is not None and not for_runs:
            raise Denied("This is not for the scripts of runs.", "Do it from outside, with a token of your own.")

    async def is_welcome(self, call: Call) -> bool:
        """Whether somebody who was let in before would be let in now; in doubt, yes."""
        secret = _bearer(call)
        if self._doorkeeper.recall(secret) is None:
            try:
                await self._ask(secret, call.address)
            except (Denied, TooMany):
                return False
            except WindlassError:
                pass
        return True

    def forget(self, digests: Iterable[str]) -> None:
        """Tokens that were revoked just now: the next request with one is refused, and streams that it opened end."""
        self._doorkeeper.forget(digests)
        self.context.hub.rouse()

    async def _ask(self, secret: str, address: str) -> Principal:
        pool = self.threads.suspects if self._doorkeeper.is_suspect(address) else self.threads.requests
        return await run_in_thread(pool, self._doorkeeper.admit, secret, address)

    async def _enter(self, principal: Principal, workspace: str) -> None:
        """What belongs to another workspace is not found, and looks like what does not exist."""
        names.workspace_name(workspace)
        if not principal.may_see(workspace):
            raise NotFound(f"There is no workspace {workspace}.")
        if workspace not in self._workspaces:
            await run_in_thread(self.threads.requests, self.context.store.workspaces.get, workspace)
            self._workspaces.add(workspace)


def _bearer(call: Call) -> str:
    scheme, _, secret = call.headers.get("authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated(
            "This needs a token: Authorization: Bearer …",
            "An owner of the workspace gives you one; the server's own stands in the file `token` of its home.",
        )
    return secret
