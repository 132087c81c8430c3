"""Chromium for tests of the studio, and a look at what no page may do: log errors, break the policy, open dialogs."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    Response,
    sync_playwright,
)

from tests import server_process
from tests.cli.shell import Shell

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-gpu",
    "--disable-quic", "--disable-sync", "--no-first-run", "--no-sandbox",
)  # fmt: skip
PATIENCE_MS = 30_000
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
"""
# Chromium logs each of these too: they are judged by their status, or as requests that failed.
_FAILED_REQUEST = re.compile(r"Failed to load resource")


@contextmanager
def chromium() -> Iterator[Browser]:
    assert PROGRAM, "chromium is not installed: tools/setup system"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(OPTIONS))
        yield browser
        browser.close()


class Watch:
    """Collects what pages did that no page may do. `check` fails the test for it."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._contexts: list[BrowserContext] = []
        self._statuses: set[int] = set()
        self._may_lose_server = False

    def allow(self, *statuses: int) -> None:
        """The test makes requests that are refused with these statuses."""
        self._statuses.update(statuses)

    def allow_unreachable(self) -> None:
        """The test stops the server."""
        self._may_lose_server = True

    def close(self) -> None:
        """Close all pages: before their server is stopped, which they would rightly complain of."""
        while self._contexts:
            self._contexts.pop().close()

    def observe(self, context: BrowserContext) -> None:
        self._contexts.append(context)
        context.add_init_script(_REPORT_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.problems.append(f"exception: {error.error}"))
        context.on("dialog", self._on_dialog)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failure)

    def check(self) -> None:
        assert not self.problems, "\n".join(self.problems)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _FAILED_REQUEST.search(message.text):
            self.problems.append(f"console {message.type}: {message.text}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_response(self, response: Response) -> None:
        is_early = response.status == 404 and "/lines?" in response.url  # a log is asked for before it is there
        if response.status >= 400 and response.status not in self._statuses and not is_early:
            self.problems.append(f"{response.status}: {response.request.method} {response.url}")

    def _on_failure(self, request: Request) -> None:
        # Pages abort requests when they are left, and streams whenever they end. Another test may make machines
        # (tests/hosts), which is a change of network to Chromium.
        is_usual = re.search("ERR_ABORTED|ERR_NETWORK_CHANGED", str(request.failure))
        if not is_usual and not self._may_lose_server:
            self.problems.append(f"{request.failure}: {request.method} {request.url}")


def field(page: Page | Locator, label: str) -> Locator:
    """The input with a label, which may be marked as required."""
    return page.get_by_label(re.compile(rf"^{re.escape(label)}( \*)?$"))


def pick(page: Page, label: str, option: str, *, within: Locator | None = None) -> None:
    """Choose from a list that opens. An option may say more than its name."""
    field(within or page, label).and_(page.locator("input")).click()
    page.get_by_role("option", name=re.compile(rf"^{re.escape(option)}(?!\w)")).click()


def act(page: Page, name: str) -> None:
    """Choose from the menu of further actions."""
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=name).click()


class Studio(Shell):
    """A home whose server serves the studio, with the command for it."""

    @property
    def url(self) -> str:
        return str(json.loads((self.home / "server.json").read_text())["url"])

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    def stop_server(self) -> None:
        server_process.stop(self.home)
        if self.server is not None:
            self.server.wait(server_process.STOP_SECONDS)

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """A request to the API, `path` relative to /api/v1."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self.url}/api/v1{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def sign_in(self, page: Page, path: str = "/workspaces/default", token: str | None = None) -> None:
        """Sign in by a one-time code, as `windlass studio` does, and go to a page."""
        address = self.call("POST", "/session-codes", token=token)["url"]
        page.goto(f"{address}&next={path}")
        page.wait_for_url(f"{self.url}{path}")


@contextmanager
def using(home: Path, make: Callable[[Path], Studio] = Studio) -> Iterator[Studio]:
    """A home whose server is ended afterwards, by its own id."""
    studio = make(home)
    try:
        yield studio
    finally:
        studio.stop_server()
