"""A real server, a real browser, and pages that are watched.

`page` is signed in as the owner and shows the home page. `open_page(...)` opens further ones. After each test, what the
pages did wrong fails it: errors on the console, exceptions, violations of the content security policy, dialogs, and
requests that were refused, unless the test allows them: `watch.allow(409)`.

What takes more than about two seconds is marked `slow`: `make test-studio` runs it, `make test` does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.studio.browser import DESKTOP, PATIENCE_MS, Studio, Watch, chromium, using
from tests.studio.content import Content, fill

expect.set_options(timeout=PATIENCE_MS)


class OpenPage(Protocol):
    def __call__(
        self,
        path: str | None = "/workspaces/default",
        *,
        server: Studio | None = None,
        token: str | None = None,
        viewport: dict[str, int] = DESKTOP,
        **options: Any,
    ) -> Page:
        """Open a page in a browser of its own (cookies, storage), signed in with the owner's token or another one; with
        the path None, an empty page without a session. Further options are those of Playwright's `new_context`.
        """


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A server that tests share. They make experiments, targets and members of names of their own."""
    with using(tmp_path_factory.mktemp("studio") / "home") as shared:
        shared.start_server()
        yield shared


@pytest.fixture(scope="session")
def content(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """One of each thing on the shared server."""
    return fill(studio, tmp_path_factory.mktemp("content") / "alphas")


@pytest.fixture
def own_studio(tmp_path: Path, watch: Watch) -> Iterator[Studio]:
    """A server of this test alone, with nothing in it, which it may stop and start."""
    with using(tmp_path / "own home") as own:
        own.start_server()
        yield own
        watch.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Not of the session: while it runs, tests of other modules could not run an event loop."""
    with chromium() as made:
        yield made


@pytest.fixture
def watch() -> Iterator[Watch]:
    found = Watch()
    yield found
    found.check()


@pytest.fixture
def open_page(browser: Browser, studio: Studio, watch: Watch) -> Iterator[OpenPage]:
    def make(
        path: str | None = "/workspaces/default",
        *,
        server: Studio | None = None,
        token: str | None = None,
        viewport: dict[str, int] = DESKTOP,
        **options: Any,
    ) -> Page:
        context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        watch.observe(context)
        page = context.new_page()
        if path is not None:
            (server or studio).sign_in(page, path, token)
        return page

    yield make
    watch.close()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()
