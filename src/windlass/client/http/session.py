"""HTTP session with the server: connection reuse, retries, and errors rebuilt from their codes.

Every call of the API may be repeated (creating ones carry an Idempotency-Key), so after a lost connection the request
is retried, at the server's current address: it may have been restarted.
"""

from __future__ import annotations

import json
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from windlass._version import __version__
from windlass.client.http.connection import Body, Connection, Response, Url
from windlass.core import backoff, errors
from windlass.core.errors import Denied, ServerUnavailable, TooMany, WindlassError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Query = Mapping[str, Any]

T = TypeVar("T")

API = "/api/v1"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
# The server's event stream sends something every 15 s.
STREAM_SILENCE_SECONDS = 45.0
RETRY_SECONDS = 15.0
# A server that never answered yet more likely has a wrong address than a restart.
FIRST_RETRY_SECONDS = 1.0
_FIRST_DELAY = 0.05
_LONGEST_DELAY = 1.0
_LONGEST_WAIT = 10
_DOWNLOAD_FAILURES = 5
_BY_STATUS = {
    400: errors.InvalidRequest,
    401: errors.Denied,
    403: errors.Denied,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    429: errors.TooMany,
    502: errors.ServerUnavailable,
    503: errors.ServerUnavailable,
    504: errors.ServerUnavailable,
    507: errors.StorageFull,
}


class Address(NamedTuple):
    """URL and token of a server. `home` is set for the private server of this machine; `relay` is a local socket, for a
    server that can be reached only through that."""

    url: str
    token: str
    home: str = ""
    relay: str = ""


class Session:
    """Thread-safe, and usable after a fork. `locate` returns the server's current address."""

    def __init__(
        self,
        locate: Callable[[], Address],
        retry_seconds: float = RETRY_SECONDS,
        first_retry_seconds: float = FIRST_RETRY_SECONDS,
    ) -> None:
        self.retry_seconds = retry_seconds
        self.first_retry_seconds = min(first_retry_seconds, retry_seconds)
        self._locate = locate
        self._has_answered = False
        self._address: Address | None = None
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def address(self) -> Address:
        if self._address is None:
            self._address = self._locate()
        return self._address

    def call(self, method: str, path: str, body: Any = None, query: Query | None = None, key: str = "") -> Any:
        """Send a request and return its response, both as JSON. `path` is relative to /api/v1."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if key:
            headers["Idempotency-Key"] = key
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        answer = self._retry(lambda: self._read(self._request(method, path, query, headers, content, len(content))))
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            raise errors.InternalError(
                f"What answers at {self.address.url} is no Windlass server: it does not speak JSON.",
                "Check the address: WINDLASS_URL, --url.",
            ) from None

    def transfer(self, method: str, path: str, body: Body, length: int) -> None:
        """Send bytes; the response's body is ignored."""
        headers = {"Content-Type": "application/octet-stream"}
        self._retry(lambda: self._read(self._request(method, path, None, headers, body, length)))

    def download(
        self, path: str, query: Query | None = None, expect: Callable[[int], None] = lambda length: None
    ) -> Iterator[bytes]:
        """The bytes of a file, resumed at the offset where the connection broke. `expect` is called with their number
        if the server gives it.
        """
        done = 0
        failures = 0
        while True:
            headers = {"Range": f"bytes={done}-"} if done else {}
            response = self._retry(partial(self._request, "GET", path, query, headers))
            skip = done if response.status == 200 else 0
            length = response.headers.get("content-length", "")
            if not done and length.isdigit():
                expect(int(length))
            try:
                for piece in self._pieces(response):
                    fresh, skip = piece[skip:], max(0, skip - len(piece))
                    done += len(fresh)
                    if fresh:
                        failures = 0
                        yield fresh
                return
            except OSError as e:
                failures += 1
                if failures > _DOWNLOAD_FAILURES:
                    raise self._unreachable(e) from e

    def events(self, path: str, query: Query | None = None) -> Iterator[tuple[str, str]]:
        """Server-sent events (name, data) until the server ends the stream; OSError when the connection breaks."""
        headers = {"Accept": "text/event-stream"}
        response = self._retry(lambda: self._request("GET", path, query, headers, timeout=STREAM_SILENCE_SECONDS))
        name = "message"
        data: list[str] = []
        for line in _lines(self._pieces(response)):
            if not line:
                if data:
                    yield name, "\n".join(data)
                name, data = "message", []
                continue
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)

    def stream(self, path: str, query: Query | None = None) -> Iterator[bytes]:
        """The bytes of a response as they arrive; OSError when the connection breaks."""
        return self._pieces(self._retry(lambda: self._request("GET", path, query, {}, timeout=STREAM_SILENCE_SECONDS)))

    def send(self, path: str, data: bytes, query: Query | None = None) -> Any:
        """POST bytes; the response as JSON."""
        headers = {"Content-Type": "application/octet-stream"}
        answer = self._retry(lambda: self._read(self._request("POST", path, query, headers, data, len(data))))
        return json.loads(answer)

    def close(self) -> None:
        for connection in self._take_all():
            connection.close()

    def _retry(self, attempt: Callable[[], T]) -> T:
        """Repeat after transient errors until the deadline; after a lost connection at the server's current address."""
        retry_seconds = self.retry_seconds if self._has_answered else self.first_retry_seconds
        deadline = time.monotonic() + retry_seconds
        failures = 0
        while True:
            _ = self.address  # outside of the try: an error of finding or starting the server is not retried
            try:
                result = attempt()
                self._has_answered = True
                return result
            except Denied:
                if not self._has_new_token():
                    raise
                continue
            except OSError as e:
                problem: WindlassError = self._unreachable(e)
                self._address = None
            except (TooMany, ServerUnavailable) as e:
                problem = e
            failures += 1
            delay = backoff.delay(failures, _FIRST_DELAY, _LONGEST_DELAY)
            wait = max(delay, float(problem.details.get("retry_after", 0)))
            if time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait)

    def _has_new_token(self) -> bool:
        """After a 401 or 403: whether another token is configured by now (WINDLASS_TOKEN was set, the file changed)."""
        before, now = self.address, self._locate()
        if now.token == before.token or now.url != before.url:
            return False
        self._address = now
        return True

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        body: Body = b"",
        length: int = 0,
        timeout: float = ANSWER_SECONDS,
    ) -> Response:
        """Send one request; the response's body is not read yet. Raises the error of a response that is one."""
        address = self.address
        common = {"Authorization": f"Bearer {address.token}", "User-Agent": f"windlass/{__version__}", **headers}
        target = API + path + _query_string(query)
        while True:
            connection = self._connection(address)
            try:
                response = connection.request(method, target, common, body, length, timeout)
                break
            except BaseException as e:
                is_stale = isinstance(e, OSError) and not connection.is_fresh
                connection.close()
                # The server may close an idle connection at any moment: not a failure, repeat on a new one.
                if not is_stale:
                    raise
        if response.status >= 400:
            raise self._error(response)
        return response

    def _connection(self, address: Address) -> Connection:
        if self._pid != os.getpid():
            # After a fork: the connections are the parent's, and the lock may be held by a thread of the parent.
            self._idle, self._lock, self._pid = [], threading.Lock(), os.getpid()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Connection(Url(address.url), CONNECT_SECONDS, address.relay)

    def _read(self, response: Response) -> bytes:
        return b"".join(self._pieces(response))

    def _pieces(self, response: Response) -> Iterator[bytes]:
        """The body. Afterwards the connection is kept for the next request, or closed if the body was not all read."""
        connection = response.connection
        try:
            yield from response.pieces()
        finally:
            address = self._address
            if connection.is_reusable and address is not None and connection.url.text == address.url:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _take_all(self) -> list[Connection]:
        with self._lock:
            taken, self._idle = self._idle, []
            return taken

    def _error(self, response: Response) -> WindlassError:
        content = self._read(response)
        try:
            error = errors.from_wire(dict(json.loads(content)["error"]))
        except (ValueError, KeyError, TypeError):
            otherwise = errors.InternalError if response.status >= 500 else errors.InvalidRequest
            text = content[:200].decode("utf-8", "replace").strip()
            error = _BY_STATUS.get(response.status, otherwise)(f"The server answered {response.status}: {text}")
        from windlass.client.exceptions import as_azure

        error = as_azure(error)
        wait = response.headers.get("retry-after", "")
        if wait.isdigit():
            error.details["retry_after"] = min(int(wait), _LONGEST_WAIT)
        return error

    def _unreachable(self, reason: OSError) -> ServerUnavailable:
        where = self._address.url if self._address else "its address"
        is_relayed = bool(self._address and self._address.relay)
        self.close()
        if is_relayed:
            return ServerUnavailable(
                f"The server cannot be reached from this machine now: {reason.strerror or reason}",
                "It calls this machine again as soon as it can; what is logged meanwhile is kept here.",
            )
        return ServerUnavailable(
            f"The server does not answer at {where}: {reason.strerror or reason}",
            "windlass server status says more; windlass server start starts it.",
        )


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")


def _query_string(query: Query | None) -> str:
    if not query:
        return ""
    from urllib.parse import urlencode

    given = {name: value for name, value in query.items() if value is not None}
    return "?" + urlencode(given, doseq=True) if given else ""
