"""axe finds no violation of WCAG 2 A and AA on any page, in both themes, and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.studio.browser import DESKTOP, PHONE, Studio
from tests.studio.conftest import OpenPage
from tests.studio.content import Content

AXE = Path(__file__).parents[2] / "studio" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# In `make test`: those with the most different parts.
FEW = ("home", "runs")


def violations(page: Page) -> list[str]:
    """What axe finds, a line for each place."""
    page.evaluate(AXE.read_text("utf-8"))  # not a script tag: the content security policy forbids those
    found: dict[str, Any] = page.evaluate(
        "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES
    )
    return [
        f"{violation['id']}: {node['html'][:200]}  {node['failureSummary'][:300]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


def settle(page: Page) -> None:
    """Wait until the page shows its content."""
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    page.wait_for_timeout(300)  # transitions: axe would see colours half way


def check(page: Page, studio: Studio, pages: dict[str, str]) -> None:
    found = {}
    for name, path in pages.items():
        page.goto(studio.url + path)
        settle(page)
        if problems := violations(page):
            found[name] = problems
    assert not found, "\n".join(f"{name}: {line}" for name, lines in found.items() for line in lines)


def test_the_first_pages(open_page: OpenPage, studio: Studio, content: Content) -> None:
    check(open_page(), studio, {name: path for name, path in content.pages().items() if name in FEW})


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_all_pages(
    open_page: OpenPage, studio: Studio, content: Content, scheme: str, viewport: dict[str, int]
) -> None:
    page = open_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    check(page, studio, content.pages())


@pytest.mark.slow
def test_signing_in(open_page: OpenPage, studio: Studio) -> None:
    page = open_page(None)
    page.goto(f"{studio.url}/signin")
    settle(page)
    assert violations(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window(open_page: OpenPage, studio: Studio, content: Content, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 800})
    wide = {}
    for name, path in content.pages().items():
        page.goto(studio.url + path)
        settle(page)
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if overflow > 0:
            wide[name] = overflow
    assert wide == {}
