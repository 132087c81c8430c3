"""The web page of runs, experiments and workspaces: static files. Its script gets the content from the API."""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.server.security.principals import OPEN

_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"
_FILES = {
    "/": ("page.html", "text/html"),
    "/workspaces/{workspace}": ("page.html", "text/html"),
    "/workspaces/{workspace}/experiments/{experiment}": ("page.html", "text/html"),
    "/workspaces/{workspace}/runs/{id}": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


class Page(Route):
    """A static file; it needs no token."""

    permission = OPEN

    def __init__(self, path: str, name: str, media_type: str) -> None:
        super().__init__(path, self._answer, methods=["GET"])
        self._name = name
        self._media_type = media_type

    def _answer(self, request: Request) -> Response:
        content = resources.files("windlass.server.web").joinpath("static", self._name).read_bytes()
        return Response(content, media_type=self._media_type, headers={"content-security-policy": _POLICY})


def make_pages() -> list[Page]:
    return [Page(path, name, media_type) for path, (name, media_type) in _FILES.items()]
