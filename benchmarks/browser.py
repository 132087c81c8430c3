"""Benchmark of the studio in Chromium: the first page, scrolling, charts and logs. Needs `make studio`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.copies import fill
from benchmarks.home import Api, Home, temporary_home
from benchmarks.rounds import Effort, median, p99
from benchmarks.row import Row, at_most

OPTIONS = (
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-gpu",
    "--disable-quic", "--disable-sync", "--no-first-run", "--no-sandbox",
)  # fmt: skip
_LINES = """
import sys
for first in range(0, {count}, 1000):
    sys.stdout.write("".join(f"line {{n}} of the log, as long as lines are\\n" for n in range(first, first + 1000)))
"""
_POINTS = """
import math
from windlass import Run
run = Run.get_context()
for number in range({count}):
    run.log("loss", math.sin(number / 1000))
"""
_TICKS = """
import time
for number in range({count}):
    print(f"tick {{time.time_ns() // 1000}}", flush=True)
    time.sleep(0.1)
"""
# Notes when each line that begins with "tick" is in the page, in milliseconds since its script printed it.
_WATCH_TICKS = """() => {
  window.delays = new Map();
  const look = () => document.querySelectorAll("[data-line]").forEach((row) => {
    const found = /tick (\\d+)/.exec(row.textContent);
    if (found && !window.delays.has(found[1]))
      window.delays.set(found[1], performance.timeOrigin + performance.now() - Number(found[1]) / 1000);
  });
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
  look();
}"""
# Opens a tab, and returns the milliseconds until a part of it is painted.
_OPEN_TAB = """async ([name, selector]) => {
  const tab = [...document.querySelectorAll("[role=tab]")].find((each) => each.textContent.startsWith(name));
  const frame = () => new Promise(requestAnimationFrame);
  const since = performance.now();
  tab.click();
  while (!document.querySelector(selector)) await frame();
  await frame();
  await frame();
  return performance.now() - since;
}"""
# Scrolls the table by `step` pixels a frame, and returns for how long at most its middle showed no row.
_SCROLL = """async ([frames, step]) => {
  const grid = document.querySelector("[role=grid][aria-label=Runs]");
  const box = grid.getBoundingClientRect();
  let since = null, longest = 0;
  for (let frame = 0; frame < frames; frame++) {
    grid.scrollTop += step;
    const now = await new Promise(requestAnimationFrame);
    const shown = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)?.closest("[data-row]");
    if (shown?.textContent) { if (since !== null) longest = Math.max(longest, now - since); since = null; }
    else since ??= now;
  }
  return {longest: since === null ? longest : Math.max(longest, performance.now() - since), top: grid.scrollTop};
}"""


@contextmanager
def _chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise RuntimeError("chromium is not installed: tools/setup system")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield browser
        browser.close()


def _sign_in(browser: Browser, home: Home) -> Page:
    api = home.api()
    api.workspace = ""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(api.call("POST", "/session-codes")["url"])
    page.wait_for_selector("nav")
    return page


def first_page(effort: Effort) -> Iterator[Row]:
    """The table of runs in an empty browser, with 100,000 runs, and a scroll through it."""
    count = effort.times(100_000, 2_000)
    with temporary_home() as home, _chromium() as browser:
        fill(home, count)
        signed_in = _sign_in(browser, home)
        state = signed_in.context.storage_state()
        base, path = _address(signed_in.url)
        times = [
            _until(browser, f"{base}{path}/runs", "[data-row]", storage_state=state) for _ in range(effort.times(9, 2))
        ]
        scrolled = _scroll(signed_in, f"{base}{path}/runs", effort)
    what = f"first page usable, an empty browser, {count:,} runs"
    yield Row(what, median(times), "ms", None, "", at_most(1000))
    yield Row("a scripted scroll through the table, longest time without a row", scrolled, "ms", None, "", at_most(100))


def _scroll(page: Page, address: str, effort: Effort) -> float:
    page.goto(address)
    page.wait_for_selector("[data-row]")
    found: dict[str, float] = page.evaluate(_SCROLL, [effort.times(600, 60), 120])
    if found["top"] < 1000:
        raise RuntimeError("the table did not scroll")
    return found["longest"]


def _until(browser: Browser, address: str, selector: str, **options: Any) -> float:
    """Milliseconds from an empty browser until a part of a page is visible."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
    page = context.new_page()
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(selector, timeout=60_000)
    taken = (time.perf_counter() - start) * 1e3
    context.close()
    return taken


def charts_and_logs(effort: Effort) -> Iterator[Row]:
    """A run's page: a chart of 1,000,000 points, a log of 1,000,000 lines, and a line that is printed."""
    count = effort.times(1_000_000, 20_000)
    with temporary_home() as home, _chromium() as browser:
        api = home.api()
        points = _finished(api, ["python3", "-c", _POINTS.format(count=count)])
        log = _finished(api, ["python3", "-c", _LINES.format(count=count)])
        page = _sign_in(browser, home)
        base, path = _address(page.url)
        drawn, opened = [], []
        for _ in range(effort.times(7, 2)):
            home.stop()  # nothing is cached
            home.start()
            page = _sign_in(browser, home)
            base, path = _address(page.url)
            drawn.append(_open_tab(page, f"{base}{path}/runs/{points}", "Metrics", "figure canvas"))
            opened.append(_open_tab(page, f"{base}{path}/runs/{log}", "Logs", "[data-line]"))
        yield Row(f"a chart of {count:,} points, from the click", median(drawn), "ms", None, "", at_most(300))
        yield Row(f"a log of {count:,} lines, from the click", median(opened), "ms", None, "", at_most(500))
        delays = _delays(page, f"{base}{path}/runs/", home.api(), effort)
        note = f"Median {median(delays):.0f} ms."
        yield Row("line printed to line on the page, p99", p99(delays), "ms", None, "", at_most(150), note)


def _open_tab(page: Page, address: str, tab: str, selector: str) -> float:
    page.goto(f"{address}?tab=code")  # a tab without charts and lines
    page.get_by_role("tab", name=tab).wait_for()
    page.wait_for_timeout(1000)  # what the page loads besides
    taken: float = page.evaluate(_OPEN_TAB, [tab, selector])
    return taken


def _delays(page: Page, runs: str, api: Api, effort: Effort) -> list[float]:
    run = api.submit(["python3", "-u", "-c", _TICKS.format(count=effort.times(100, 10))])
    page.goto(f"{runs}{run}?tab=logs")
    page.evaluate(_WATCH_TICKS)
    _wait_for_end(api, run)
    page.wait_for_timeout(1000)
    found: list[float] = page.evaluate("() => [...window.delays.values()]")
    return found[3:]  # those before the page was open


def _finished(api: Api, command: list[str]) -> str:
    run = api.submit(command)
    _wait_for_end(api, run)
    return run


def _wait_for_end(api: Api, run: str) -> None:
    while (state := api.call("GET", f"/runs/{run}")["state"]) not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.1)
    if state != "Completed":
        raise RuntimeError(f"the run {run} is {state}")


def _address(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


MEASURES = (first_page, charts_and_logs)
