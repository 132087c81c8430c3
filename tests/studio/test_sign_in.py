"""Ways in: by a one-time code, by a token, to the page that was asked for; and out again."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.studio.browser import Studio, Watch
from tests.studio.conftest import OpenPage


def test_a_code_signs_in_and_is_removed_from_the_address(page: Page, studio: Studio) -> None:
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    assert page.url == f"{studio.url}/workspaces/default"
    assert "code" not in str(page.evaluate("JSON.stringify([history.state, location.href, localStorage])"))


def test_a_token_signs_in_and_leads_to_the_page_that_was_asked_for(open_page: OpenPage, studio: Studio) -> None:
    page = open_page(None)
    page.goto(f"{studio.url}/workspaces/default/compute?x=1")
    expect(page.get_by_role("heading", name=re.compile("Sign in"))).to_be_visible()
    page.get_by_label("Token").fill(studio.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{studio.url}/workspaces/default/compute?x=1")
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def test_a_wrong_token_says_so(open_page: OpenPage, studio: Studio, watch: Watch) -> None:
    watch.allow(401)
    page = open_page(None)
    page.goto(studio.url)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")


def test_signing_out_ends_the_session(page: Page, studio: Studio, watch: Watch) -> None:
    page.get_by_role("button", name=re.compile("Signed in as")).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name=re.compile("Sign in"))).to_be_visible()
    assert page.context.cookies() == []
    page.goto(f"{studio.url}/workspaces/default")
    expect(page.get_by_role("heading", name=re.compile("Sign in"))).to_be_visible()
