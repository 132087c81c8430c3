"""Pictures of the ten main pages in both themes, for the docs: `WINDLASS_PICTURES=docs/images make test-studio` writes
them. Without the variable they are taken all the same, and each page must show its content.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.studio.browser import Studio
from tests.studio.conftest import OpenPage
from tests.studio.content import Content, W, submit, wait_for_run
from tests.studio.test_accessibility import settle

PICTURES = ("home", "runs", "compare", "run", "run-logs", "run-metrics", "compute", "new-compute", "target", "submit")
SIZE = {"width": 1280, "height": 800}
_COLORS = 128  # of a picture: enough for these pages, and a third of the bytes
_LARGEST = 120_000

_TRAINING = """
import argparse, math, random, time
from windlass import Run
parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float)
parser.add_argument("--depth", type=int)
options = parser.parse_args()
chance = random.Random(options.depth)
run = Run.get_context()
for epoch in range(120):
    loss = math.exp(-epoch * options.alpha / 10) + 0.03 * chance.random()
    run.log("loss", loss)
    run.log("val_loss", loss * 1.1 + 0.02 * chance.random())
    run.log("accuracy", 1 - loss / 1.3)
    print(f"\\033[36mepoch {epoch:3}\\033[0m  loss {loss:.4f}", end="  ")
    print(f"accuracy \\033[32m{1 - loss / 1.3:.4f}\\033[0m", flush=True)
"""
_WAITING = "import time\nprint('training', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def shown(studio: Studio, content: Content, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Content]:
    """The content, with more runs: an experiment of eight, a failure, one that runs."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(8):
        arguments = ("--alpha", str(round(0.2 + number / 10, 1)), "--depth", str(2 + number % 4))
        options = ("-n", f"ridge {number + 1}", "-c", content.cluster if number == 0 else "local")
        submit(studio, folder, _TRAINING, *arguments, experiment="churn", options=options)
    running = submit(studio, folder, _WAITING, experiment="churn", options=("-n", "boosted trees"), detach=True)
    wait_for_run(studio, running["id"], ("Running",))
    yield content
    studio.call("POST", f"{W}/runs/{running['id']}/cancel")
    wait_for_run(studio, running["id"])


@contextmanager
def _scheme(open_page: OpenPage, scheme: str) -> Iterator[Page]:
    page = open_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")
    yield page
    page.close()


def _address(studio: Studio, content: Content, name: str) -> str:
    runs = studio.call("GET", f"{W}/runs?experiment=churn&state=Completed&sort=name")["runs"]
    ids = [run["id"] for run in runs if re.fullmatch(r"ridge \d", run["name"])]
    special = {
        "runs": f"{W}/experiments/churn",
        "compare": f"{W}/compare?" + "&".join(f"run={each}" for each in ids[:4]),
        "run": f"{W}/runs/{ids[0]}",
        "run-logs": f"{W}/runs/{ids[0]}?tab=logs",
        "run-metrics": f"{W}/runs/{ids[0]}?tab=metrics",
        "submit": f"{W}/submit?from={ids[0]}",
    }
    return studio.url + (special.get(name) or content.pages()[name])


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_main_pages(open_page: OpenPage, studio: Studio, shown: Content, scheme: str) -> None:
    folder = os.environ.get("WINDLASS_PICTURES")
    with _scheme(open_page, scheme) as page:
        for name in PICTURES:
            page.goto(_address(studio, shown, name))
            settle(page)
            if name in ("compare", "run", "run-metrics"):
                expect(page.locator("figure canvas").first).to_be_visible()
            page.mouse.move(0, 0)
            taken = page.screenshot()
            picture = Image.open(io.BytesIO(taken)).convert("RGB").quantize(_COLORS)
            assert picture.size == (SIZE["width"], SIZE["height"])
            if folder:
                path = Path(folder) / f"{name}-{scheme}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                picture.save(path, optimize=True)
                assert path.stat().st_size < _LARGEST, path
