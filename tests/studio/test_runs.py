"""Runs in the browser: submit one, watch it, cancel it, run it again, compare, and find it among others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.studio.browser import PHONE, Studio, Watch, act, field
from tests.studio.conftest import OpenPage
from tests.studio.content import Content, W, submit, wait_for_run

_SLOW_LOG = """
import os, sys, time
from windlass import Run
run = Run.get_context()
for number in range(10_000):
    print("line", number, flush=True)
    run.log("loss", 1 / (number + 1))
    time.sleep(0.05)
"""


def _folder(path: Path) -> Path:
    path.mkdir()
    (path / "train.py").write_text("import sys\nprint('it got', sys.argv[1:])\n")
    (path / "notes.txt").write_text("not for the run\n")
    (path / ".amlignore").write_text("notes.txt\n")
    return path


def test_a_folder_is_submitted_and_its_log_is_shown(page: Page, studio: Studio, tmp_path: Path) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.locator("input[type=file]").set_input_files(_folder(tmp_path / "project"))
    expect(page.get_by_text("project: 2 files")).to_be_visible()  # train.py and .amlignore
    page.get_by_placeholder("train.py").fill("train.py")
    field(page, "Arguments").fill("--alpha 0.5 'two words'")
    page.get_by_placeholder("demo").fill("browser")
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(rf"{W}/runs/browser_"))
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_text("it got ['--alpha', '0.5', 'two words']")).to_be_visible()
    run = wait_for_run(studio, run_id)
    assert run["state"] == "Completed"
    files = studio.call("GET", f"{W}/runs/{run_id}/snapshot")["files"]
    assert [file["path"] for file in files] == [".amlignore", "train.py"]


def test_mistakes_are_named_before_anything_is_sent(page: Page, studio: Studio) -> None:
    page.goto(f"{studio.url}{W}/submit")
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Name an experiment.")).to_be_visible()
    expect(page.get_by_text("Choose the folder with the script.")).to_be_visible()


@pytest.mark.slow
def test_log_and_charts_move_and_the_run_is_canceled(page: Page, studio: Studio, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    run = submit(studio, folder, _SLOW_LOG, experiment="moving", detach=True)
    page.goto(f"{studio.url}{W}/runs/{run['id']}?tab=logs")
    expect(page.get_by_text("line 5", exact=True)).to_be_visible()
    expect(page.get_by_text("line 40", exact=True)).to_be_visible()  # it follows the end by itself
    page.get_by_role("tab", name="Metrics").click()
    expect(page.get_by_text("loss").first).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("banner").or_(page.get_by_role("main")).get_by_text("Canceled").first).to_be_visible()
    assert wait_for_run(studio, run["id"])["state"] == "Canceled"


@pytest.mark.slow
def test_a_run_is_run_again_with_changes(page: Page, studio: Studio, content: Content) -> None:
    page.goto(f"{studio.url}{W}/runs/{content.good}")
    page.get_by_role("link", name="Rerun").click()
    expect(page.get_by_text(f"The files of run {content.good}")).to_be_visible()
    expect(field(page, "Arguments")).to_have_value("--alpha 0.1")
    field(page, "Arguments").fill("--alpha 0.9 --epochs 3")
    page.get_by_role("main").get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(rf"{W}/runs/alphas_"))
    made = wait_for_run(studio, page.url.rpartition("/")[2].partition("?")[0])
    assert made["spec"]["arguments"] == ["--alpha", "0.9", "--epochs", "3"]
    assert made["properties"]["rerun_of"] == content.good
    assert made["snapshot"] == studio.call("GET", f"{W}/runs/{content.good}")["snapshot"]


@pytest.mark.slow
def test_a_run_is_renamed_noted_and_archived(page: Page, studio: Studio, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    run = submit(studio, folder, "print(1)", experiment="labels")
    page.goto(f"{studio.url}{W}/runs/{run['id']}")
    act(page, "Rename")
    field(page, "Name").fill("first light")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="first light")).to_be_visible()
    act(page, "Archive")
    expect(page.get_by_text("· archived")).to_be_visible()
    assert studio.call("GET", f"{W}/runs?experiment=labels")["runs"] == []
    act(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Delete")).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert studio.call("GET", f"{W}/runs?experiment=labels&archived=all")["runs"] == []


@pytest.mark.slow
def test_runs_are_found_selected_and_compared(page: Page, studio: Studio, content: Content) -> None:
    page.goto(f"{studio.url}{W}/runs")
    page.get_by_label("Search runs", exact=True).fill("slow and steady")
    page.wait_for_url(re.compile("search="))
    expect(page.get_by_role("row").filter(has_text="people")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="slow and steady").first).to_be_visible()
    page.goto(f"{studio.url}{W}/experiments/alphas")
    for name in ("slow and steady", "fast"):
        page.get_by_label(f"Select {name}", exact=True).first.click()
    page.get_by_role("toolbar", name="Selected runs").get_by_role("link", name=re.compile("Compare")).or_(
        page.get_by_role("toolbar", name="Selected runs").get_by_role("button", name=re.compile("Compare"))
    ).first.click()
    expect(page.get_by_role("list", name="Compared runs").get_by_role("listitem")).to_have_count(2)
    expect(page.get_by_role("region", name="Differences of the runs")).to_contain_text("0.5")


@pytest.mark.slow
def test_a_failed_run_shows_its_reason(page: Page, studio: Studio, content: Content) -> None:
    page.goto(f"{studio.url}{W}/runs/{content.failed}")
    expect(page.get_by_text("no column 'age' in people.csv").first).to_be_visible()


@pytest.mark.slow
def test_files_are_shown(page: Page, studio: Studio, content: Content) -> None:
    page.goto(f"{studio.url}{W}/runs/{content.good}?tab=files")
    page.get_by_text("predictions.csv").first.click()
    expect(page.get_by_role("region", name="Table", exact=True)).to_contain_text("found")
    page.get_by_text("model.json").first.click()
    expect(page.get_by_role("region", name="JSON", exact=True)).to_contain_text("weights")
    page.get_by_text("curve.png").first.click()
    expect(page.get_by_role("main").locator("img[src^='blob:']")).to_be_visible()


@pytest.mark.slow
def test_the_page_is_right_after_a_restart_of_the_server(
    open_page: OpenPage, own_studio: Studio, watch: Watch, tmp_path: Path
) -> None:
    watch.allow_unreachable()
    watch.allow(502, 503)
    folder = tmp_path / "project"
    folder.mkdir()
    run = submit(own_studio, folder, _SLOW_LOG, experiment="moving", detach=True)
    page = open_page(f"{W}/runs/{run['id']}?tab=logs", server=own_studio)
    expect(page.get_by_text("line 5", exact=True)).to_be_visible()
    own_studio.stop_server()
    expect(page.get_by_text(re.compile("Reconnecting|does not answer")).first).to_be_visible()
    own_studio.start_server()
    expect(page.get_by_text(re.compile("Reconnecting|does not answer"))).to_have_count(0)
    own_studio.call("POST", f"{W}/runs/{run['id']}/cancel")
    wait_for_run(own_studio, run["id"])
    expect(page.get_by_text("Canceled").first).to_be_visible()
    lines = page.get_by_text(re.compile(r"^line \d+$")).all_inner_texts()
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == sorted(set(numbers)), "the log has a gap or a line twice"
    watch.problems.clear()  # requests that failed while there was no server


@pytest.mark.slow
def test_by_keyboard_only(page: Page, studio: Studio, content: Content) -> None:
    expect(page.get_by_role("heading", name=re.compile("^(Home|Welcome)"))).to_be_visible()  # not that of the sign-in
    for keys, path in (("g r", "/runs"), ("g c", "/compute"), ("g m", "/models"), ("g e", "/experiments")):
        for key in keys.split():
            page.keyboard.press(key)
        page.wait_for_url(f"{studio.url}{W}{path}")
    page.keyboard.press("/")
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("slow and steady")
    option = page.get_by_role("dialog").get_by_text("slow and steady").first
    expect(option).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"{W}/runs/alphas_"))


@pytest.mark.slow
def test_a_reader_sees_noact(open_page: OpenPage, studio: Studio, content: Content) -> None:
    given = studio.call("POST", f"{W}/tokens", {"name": "rita", "role": "reader"})["token"]
    page = open_page(f"{W}/runs/{content.good}", token=given)
    expect(page.get_by_role("tab", name="Logs")).to_be_visible()
    expect(page.get_by_role("link", name="Rerun")).to_have_count(0)
    expect(page.get_by_role("link", name="Submit", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Members")).to_have_count(0)
    page.goto(f"{studio.url}{W}/compute")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("New|Add|Create"))).to_have_count(0)


@pytest.mark.slow
def test_on_a_phone(open_page: OpenPage, studio: Studio, content: Content) -> None:
    page = open_page(viewport=PHONE, has_touch=True)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_url(f"{studio.url}{W}/runs")
    page.get_by_text("slow and steady").first.click()
    page.wait_for_url(re.compile(content.good))
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_text("epoch").first).to_be_visible()
