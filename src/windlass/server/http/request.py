"""A request to the API: its principal, its body, and access to the runs that the principal may use."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from windlass.core.entities import Run
from windlass.core.errors import InvalidRequest, WindlassError
from windlass.server.http.bodies import Incoming, parse_json
from windlass.server.http.errors import WrongMedia
from windlass.server.http.threads import run_in_thread
from windlass.server.security.principals import ANONYMOUS, Principal, check_own
from windlass.store.files.disk_reserve import DiskReserve

if TYPE_CHECKING:
    from windlass.server.context import Context
    from windlass.server.security.authentication import Authenticator
    from windlass.server.security.sessions import BrowserSession

log = logging.getLogger(__name__)
T = TypeVar("T")

# Permissions of routes that only read from a run.
_READING = ("runs.read", "models.write")


class ApiRequest(Request):
    def __init__(
        self, scope: Scope, receive: Receive, authenticator: Authenticator, permission: str, kept_free: float | None
    ) -> None:
        """`kept_free`: the share of the disk reserve that this request must leave free; None if it may use it up."""
        super().__init__(scope, receive)
        self.authenticator = authenticator
        self.permission = permission
        self._kept_free = kept_free
        self.principal: Principal = ANONYMOUS
        self.browser_session: BrowserSession | None = None  # if it came with a cookie
        self.raw = b""
        self.value: Any = None

    @property
    def context(self) -> Context:
        return self.authenticator.context

    @property
    def workspace(self) -> str:
        return str(self.path_params["workspace"])

    @property
    def address(self) -> str:
        return self.client.host if self.client else ""

    def run(self, run_id: str) -> Run:
        """The run of that id, if the principal may do to it what this route does."""
        context, principal = self.context, self.principal
        is_reading = self.permission in _READING
        if is_reading and principal.run == run_id:
            self._pull(run_id)
        run = context.store.runs.get(self.workspace, run_id)
        check_own(context.store, principal, run, is_reading)
        if self.permission in ("runs.write", "runs.cancel", "runs.exec"):
            principal.check_acts_on(run)
        return run

    def _pull(self, run_id: str) -> None:
        """Store what the script of a run has logged so far, so that it can read it back."""
        try:
            self.context.targets.pull(run_id)
        except WindlassError as e:
            log.warning("run=%s its logs could not be pulled for its own request: %s", run_id, e.message)

    async def load_json(self, limit: int, is_metric: bool) -> None:
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            raise WrongMedia("This takes JSON.", "Send it with Content-Type: application/json.")
        self.raw = await Incoming(self.receive, limit).whole()
        self.value = parse_json(self.raw, is_metric)
        if not isinstance(self.value, dict):
            raise InvalidRequest("The body must be a JSON object.")

    async def take(self, work: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the body to a worker thread as it arrives. Raises StorageFull (507) if it would use the disk reserve."""
        incoming = Incoming(self.receive)
        await incoming.begin()
        return await run_in_thread(self.authenticator.threads.uploads, self._take, work, incoming)

    def _take(self, work: Callable[[Iterable[bytes]], T], incoming: Incoming) -> T:
        length = self.headers.get("content-length", "")
        self.check_room(int(length) if length.isdecimal() else 0)
        files = self._reserve_of(self.context.settings.files)
        return work(incoming if files is None else files.guard(incoming))

    def check_room(self, nbytes: int = 0) -> None:
        """Raise StorageFull if the request adds data and its `nbytes` would use the disk reserve. It blocks."""
        settings = self.context.settings
        for folder, more in ((settings.home, 0), (settings.files, nbytes)):
            reserve = self._reserve_of(folder)
            if reserve is not None:
                reserve.check(more)

    def _reserve_of(self, folder: Path) -> DiskReserve | None:
        if self._kept_free is None:
            return None
        return DiskReserve(folder, int(self.context.settings.disk_reserve_bytes * self._kept_free))


def json_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), status, media_type="application/json")
