"""Open the studio in a browser, signed in by a one-time code; print its address where there is no browser."""

from __future__ import annotations

import html
import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from windlass.cli.context import CommandContext

_KEPT_SECONDS = 30  # the file that leads a browser to the studio
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Windlass</title>
<p><a href="{url}">To the studio</a></p>
"""


def show(context: CommandContext, path: str, only_print: bool) -> None:
    """Open a page of the studio, or print its address: `path` is below the studio's own, as in `/workspaces/w`."""
    url = sign_in_url(context, path)
    if context.json:
        context.terminal.json({"url": url})
    elif only_print or not _has_display():
        context.terminal.line(url)
        context.terminal.note("It signs in once, within two minutes.")
        tunnel = _tunnel(url)
        if tunnel:
            context.terminal.note(f"If the browser runs on another computer, first type there: {tunnel}")
    elif _open(url):
        context.terminal.note(f"Opening {_public(url)}")
        context.terminal.note("If no page opens, `windlass studio --print` prints an address to copy.")
    else:
        context.terminal.line(url)
        context.terminal.note("No browser could be started. The address signs in once, within two minutes.")


def sign_in_url(context: CommandContext, path: str) -> str:
    """The address of a page with a one-time code. The code stands behind `#`, which browsers send to no server."""
    code = context.request("POST", "/session-codes")
    url = str(code["url"])
    if context.is_remote:  # as the server is reached from here, for example through a tunnel
        url = f"{context.session.address.url}/signin#code={quote(code['code'])}"
    return f"{url}&next={quote(path)}"


def _public(url: str) -> str:
    return url.partition("/signin#")[0]


def _has_display() -> bool:
    """Whether a browser that is started here can be seen by the user."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _tunnel(url: str) -> str:
    """The line that makes the server's port reachable from the computer where the user sits; empty if it is not
    needed.
    """
    import getpass
    import socket

    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK or not parts.port:
        return ""
    # The client's address and port, then those that it reached.
    ends = os.environ.get("SSH_CONNECTION", "").split()
    port = f"-p {ends[3]} " if len(ends) == 4 and ends[3] != "22" else ""
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    return f"ssh -N {port}-L {parts.port}:127.0.0.1:{parts.port} {host}"


def _open(url: str) -> bool:
    """Start the browser with a file that leads to the address: other users of this computer can read command lines, and
    would find the code there.
    """
    import subprocess
    import tempfile
    import webbrowser

    # Browsers that are installed as snaps see neither /tmp nor hidden folders.
    folder = os.path.expanduser("~") if os.path.isdir("/snap") else None
    fd, path = tempfile.mkstemp(prefix="windlass-", suffix=".html", dir=folder)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(url=html.escape(url)))
    remove = f'sleep {_KEPT_SECONDS}; rm -f -- "$1"'
    quiet = subprocess.DEVNULL
    subprocess.Popen(["sh", "-c", remove, "sh", path], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        return webbrowser.open(f"file://{quote(path)}")
    except webbrowser.Error:
        return False
