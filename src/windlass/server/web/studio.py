"""The studio: the front end that `make studio` builds into the folder `studio` beside this module. Its script gets the
content from the API; what is served here is the same for everybody.
"""

from __future__ import annotations

import html
import os
import re
import secrets
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.core.errors import NotFound
from windlass.server.http.errors import error_response
from windlass.server.http.threads import RequestThreads, run_in_thread

BUILT = Path(__file__).with_name("studio")
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_FILE = re.compile(r"/(?:assets/)?[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
# Names of assets have a digest of the content.
_FOREVER = "public, max-age=31536000, immutable"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' blob: data:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self' blob:; worker-src 'self'; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_BASE = '<base href="/" />'
_NONCE = '<meta name="csp-nonce" content="" />'
_NOT_BUILT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Windlass</title></head>
<body>
<h1>Windlass</h1>
<p>The server runs. Its studio was not built in this checkout: type <code>make studio</code>, then load this page again.
</p>
<p>Everything is also possible by the command line: <code>windlass --help</code></p>
</body>
</html>
"""


class Studio:
    """Serves what no route of the API matches: the page at every other path, and the files that it loads."""

    def __init__(self, prefix: str, threads: RequestThreads, folder: Path = BUILT) -> None:
        """`prefix` is the path of the public URL."""
        self._prefix = prefix
        self._threads = threads
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = None
        if scope["method"] in ("GET", "HEAD"):
            response = await run_in_thread(self._threads.requests, self._respond, scope["path"], Headers(scope=scope))
        await (response or _nothing_at(scope["path"]))(scope, receive, send)

    def _respond(self, path: str, headers: Headers) -> Response | None:
        if path.startswith("/assets/") or (path.count("/") == 1 and Path(path).suffix in _MEDIA_TYPES):
            return self._file(path, headers)
        return self._page() if _is_page(path) else None

    def _page(self) -> Response:
        try:
            page = (self._folder / "index.html").read_text(encoding="utf-8")
        except FileNotFoundError:
            return Response(_NOT_BUILT, media_type="text/html")
        nonce = secrets.token_urlsafe(16)
        page = page.replace(_BASE, f'<base href="{html.escape(self._prefix)}/" />', 1)
        page = page.replace(_NONCE, f'<meta name="csp-nonce" content="{nonce}" />', 1)
        policy = _POLICY.format(nonce=f" 'nonce-{nonce}'")
        return Response(page, media_type="text/html", headers={"content-security-policy": policy})

    def _file(self, path: str, headers: Headers) -> Response | None:
        """A file of the build, compressed if that was built and the browser takes it."""
        media_type = _MEDIA_TYPES.get(Path(path).suffix)
        if media_type is None or not _FILE.match(path):
            return None
        known = self._folder / path[1:]
        packed = known.with_name(f"{known.name}.gz")
        is_packed = _takes_gzip(headers.get("accept-encoding", "")) and packed.is_file()
        try:
            with open(packed if is_packed else known, "rb") as file:
                about = os.fstat(file.fileno())
                content = file.read()
        except (FileNotFoundError, IsADirectoryError):
            return None
        answer = {
            "etag": f'"{about.st_mtime_ns:x}-{about.st_size:x}"',
            "vary": "accept-encoding",
            "cache-control": _FOREVER if path.startswith("/assets/") else "no-cache",
            "content-security-policy": _POLICY.format(nonce=""),
        }
        if answer["etag"] in headers.get("if-none-match", "").replace("W/", "").replace(",", " ").split():
            return Response(status_code=304, headers=answer)
        if is_packed:
            answer["content-encoding"] = "gzip"
        return Response(content, headers={**answer, "content-type": media_type})


def _is_page(path: str) -> bool:
    """Whether a path can be one of the studio's pages. Other spellings of the API's paths are not."""
    first, *others = path[1:].removesuffix("/").split("/")
    if first.casefold() in ("api", "assets") or _UNSAFE.search(path):
        return False
    return not others if not first else not {"", ".", ".."} & {first, *others}


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.lower().split(","):
        name, _, quality = each.partition(";")
        if name.strip() in ("gzip", "*"):
            return re.search(r"q=0(\.0*)?\s*\Z", quality) is None
    return False


def _nothing_at(path: str) -> Response:
    return error_response(
        NotFound(f"There is nothing at {ascii(path[:100])[1:-1]}.", "/api/v1/openapi.json lists the routes.")
    )
