"""The home page: what a new workspace shows, and what runs."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.studio.browser import Studio
from tests.studio.conftest import OpenPage


def test_a_new_workspace_shows_how_to_begin(open_page: OpenPage, own_studio: Studio) -> None:
    page = open_page(server=own_studio)
    expect(page.get_by_role("heading", name="Welcome to Windlass")).to_be_visible()
    expect(page.get_by_text("windlass submit train.py", exact=True)).to_be_visible()
