"""The run page in a real browser; the answers of its addresses without one."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.browser import PROGRAM, Browser
from tests.sdk.conftest import Project
from windlass import Experiment, ScriptRunConfig

SCRIPT = """
import os, sys, time
from windlass import Run
run = Run.get_context()
sys.stdout.write("10 %\\r20 %\\r\\x1b[32m30 %\\x1b[0m\\nabc\\bd\\n\\x1b]0;title\\x07")
sys.stdout.flush()
for value in (1.5, 2.5):
    run.log("loss", value)
    run.flush()
    while not os.path.exists(f"{sys.argv[1]}/{value}"):
        time.sleep(0.05)
"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    assert PROGRAM, "chromium is not installed: tools/setup system"
    made = Browser(tmp_path / "profile")
    yield made
    made.close()


def sign_in(browser: Browser, home: Path) -> None:
    token = json.dumps((home / "token").read_text().strip())
    browser.wait("!document.getElementById('login').hidden")
    browser.run(f"document.getElementById('token').value = {token}; document.querySelector('#login button').click()")


def test_a_run_is_followed_in_a_browser(
    exp: Experiment, project: Project, tmp_path: Path, shared_home: Path, browser: Browser
) -> None:
    run = exp.submit(ScriptRunConfig(project(train=SCRIPT), "train.py", [str(tmp_path)]))
    browser.open(run.get_portal_url())
    sign_in(browser, shared_home)
    browser.wait("document.body.innerText.includes('1.5')")
    browser.wait("document.querySelector('pre').textContent === '30 %\\nabd\\n'")
    (tmp_path / "1.5").touch()
    browser.wait("document.body.innerText.includes('2.5')")
    assert "Running" in browser.text() and "Completed" not in browser.text(), "metrics move while it runs"
    (tmp_path / "2.5").touch()
    browser.wait("document.body.innerText.includes('Completed')")
    assert "None yet." not in browser.text()
    browser.screenshot(tmp_path / "run.png")
    browser.new_window()
    browser.open(exp.get_portal_url())
    browser.wait(f"document.body.innerText.includes('{run.id}')")
    assert browser.run("document.getElementById('login').hidden"), "the sign-in lasts beyond the tab"
    browser.run("document.getElementById('leave').click()")
    browser.wait("!document.getElementById('login').hidden")


def test_an_ended_run_without_metrics_does_not_promise_any(
    exp: Experiment, project: Project, shared_home: Path, browser: Browser
) -> None:
    run = exp.submit(ScriptRunConfig(project(train="pass"), "train.py"))
    run.wait_for_completion()
    run.add_properties({"replaced.python": "python 3.5.2 → 3.8.18"})  # as the runner says it of an environment
    browser.open(run.get_portal_url())
    sign_in(browser, shared_home)
    browser.wait("document.body.innerText.includes('None.')")
    assert "None yet." not in browser.text()
    assert "python 3.5.2 → 3.8.18" in browser.text()


def test_links_to_experiments_and_workspaces_lead_to_a_page(exp: Experiment) -> None:
    url = exp.get_portal_url()
    for address in (url, url.partition("/experiments/")[0]):
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["content-type"].startswith("text/html")
            assert b"/page.js" in answer.read()
