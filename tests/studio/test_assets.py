"""Models, environments, secrets, members, audit, settings, run configurations and experiments in the browser."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.studio.browser import Studio, Watch, field, pick
from tests.studio.conftest import OpenPage
from tests.studio.content import Content, W, submit, wait_for_run


def _open(page: Page, studio: Studio, path: str) -> None:
    page.goto(f"{studio.url}{W}/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def _confirm(page: Page, name: str) -> None:
    """Press a button of the dialog, which then closes."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def _press(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("button", name=name, exact=True).click()


def _row(page: Page, name: str) -> Locator:
    return page.get_by_role("main").get_by_role("row").filter(has_text=name)


def test_a_secret_is_set_granted_and_deleted(page: Page, studio: Studio) -> None:
    value = f"canary-{uuid.uuid4().hex}"
    _open(page, studio, "secrets")
    _press(page, "Set a secret")
    field(page, "Name").fill("database-password")
    field(page, "Value").fill(value)
    _confirm(page, "Set")
    row = _row(page, "database-password")
    expect(row).to_be_visible()
    pick(page, "Runs that may use database-password", "Runs that name it")
    expect(field(page, "Runs that may use database-password").and_(page.locator("input"))).to_have_value(
        "Runs that name it"
    )
    page.reload()
    expect(row).to_contain_text("owner")
    assert value not in page.content()
    found = studio.call("GET", f"{W}/secrets")["secrets"]
    assert [each["granted_to"] for each in found if each["name"] == "database-password"] == ["named runs"]
    page.get_by_role("button", name="Delete database-password").click()
    _confirm(page, "Delete")
    expect(row).to_have_count(0)


_MODEL = """
import os
os.makedirs("outputs/nested", exist_ok=True)
with open("outputs/nested/the weights.txt", "w") as file:
    file.write("1.5 -0.25")
"""


@pytest.fixture
def model(studio: Studio, tmp_path: Path) -> str:
    """A model with two versions."""
    folder = tmp_path / "project"
    folder.mkdir()
    run = submit(studio, folder, _MODEL, experiment="models")
    for _ in range(2):
        done = studio("model", "register", "lasso", "outputs", "--run", run["id"], cwd=folder)
        assert done.code == 0, done.err
    return "lasso"


@pytest.mark.slow
def test_a_model_is_edited_downloaded_and_deleted(page: Page, studio: Studio, model: str) -> None:
    _open(page, studio, "models")
    page.get_by_role("link", name=model, exact=True).click()
    page.wait_for_url(f"{studio.url}{W}/models/{model}")
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
    _press(page, "Edit")
    field(page, "Description").fill("for the house prices")
    field(page, "Tags").fill("stage=production\nowner=ann")
    _confirm(page, "Save")
    expect(page.get_by_text("for the house prices")).to_be_visible()
    expect(page.locator("dl").first).to_contain_text("production")
    with page.expect_download() as downloaded:
        page.get_by_role("button", name=re.compile("Download .*the weights.txt")).click()
    assert downloaded.value.suggested_filename == "the weights.txt"
    assert Path(downloaded.value.path()).read_text() == "1.5 -0.25"
    assert studio.token not in downloaded.value.url
    pick(page, "Version", "Version 1")
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    _press(page, "Delete")
    _confirm(page, "Delete")
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
    assert [each["version"] for each in studio.call("GET", f"{W}/models?name={model}")["models"]] == [2]
    _press(page, "Delete")
    _confirm(page, "Delete")
    page.wait_for_url(f"{studio.url}{W}/models")
    expect(page.get_by_role("link", name=model, exact=True)).to_have_count(0)


@pytest.mark.slow
def test_an_environment_gets_versions(page: Page, studio: Studio) -> None:
    _open(page, studio, "environments")
    _press(page, "New environment")
    field(page, "Name").fill("forest")
    field(page, "Version of Python").fill("3.12")
    field(page, "pip packages").fill("numpy==2.1.0\nscikit-learn")
    _confirm(page, "Register")
    page.wait_for_url(re.compile(f"{W}/environments/forest"))
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    expect(page.get_by_text("pip    scikit-learn")).to_be_visible()
    _press(page, "New version")
    definition = field(page, "Definition").and_(page.locator("textarea"))
    changed = json.loads(definition.input_value())
    definition.fill("{")
    definition.blur()
    expect(page.get_by_text("This is not JSON.")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Register")).to_be_disabled()
    definition.fill(json.dumps(changed))
    page.get_by_role("dialog").get_by_role("button", name="Register").click()
    expect(page.get_by_text("It is equal to version 1: there is no new one.")).to_be_visible()
    changed["python"]["condaDependencies"]["dependencies"][-1]["pip"].append("lightgbm")
    definition.fill(json.dumps(changed))
    _confirm(page, "Register")
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
    expect(page.get_by_text("pip    lightgbm")).to_be_visible()
    pick(page, "Version", "Version 1")
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    expect(page.get_by_text("pip    lightgbm")).to_have_count(0)


@pytest.mark.slow
def test_a_member_is_added_and_revoked(page: Page, studio: Studio, open_page: OpenPage, watch: Watch) -> None:
    _open(page, studio, "members")
    _press(page, "Add a member")
    field(page, "Name").fill("bob")
    page.get_by_role("dialog").get_by_role("button", name="Create the token").click()
    expect(page.get_by_text("Copy it now: it is not shown again.")).to_be_visible()
    token = page.get_by_role("dialog").locator("pre").first.inner_text().strip()
    _confirm(page, "Done")
    expect(_row(page, "bob")).to_contain_text("contributor")
    assert token not in page.content()
    other = open_page(None)
    other.goto(f"{studio.url}{W}/models")
    other.get_by_label("Token").fill(token)
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("button", name="Signed in as bob")).to_be_visible()
    expect(other.get_by_role("link", name="Members")).to_have_count(0)
    watch.allow(401)
    page.get_by_role("button", name="Revoke the token of bob").click()
    _confirm(page, "Revoke")
    expect(_row(page, "bob")).to_have_count(0)
    other.get_by_role("link", name="Environments", exact=True).click()
    expect(other.get_by_role("heading", name=re.compile("Sign in"))).to_be_visible()


@pytest.mark.slow
def test_the_audit_log_is_filtered_and_verified(page: Page, studio: Studio, content: Content) -> None:
    _open(page, studio, "audit")
    page.get_by_label("Filter entries").fill("warehouse-password")
    rows = page.get_by_role("table", name="Audit log").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("warehouse-password")
    expect(page).to_have_url(re.compile("q=warehouse-password"))
    expect(page.get_by_text("correct horse battery")).to_have_count(0)
    _press(page, "Verify")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"All \d+ entries of the server"))).to_be_visible()


@pytest.mark.slow
def test_settings_are_changed_by_the_owner(open_page: OpenPage, own_studio: Studio) -> None:
    before = own_studio.call("GET", "/settings")
    name = next(key for key, value in before.items() if key.endswith("_days") and value is not None)
    label = name.removesuffix("_days").replace("_", " ").capitalize()
    page = open_page(f"{W}/settings", server=own_studio)
    setting = field(page, label)
    setting.fill(f"{before[name] + 1:g}")
    _press(page, "Discard")
    expect(setting).to_have_value(f"{before[name]:g} days")
    setting.fill(f"{before[name] + 1:g}")
    _press(page, "Save")
    expect(page.get_by_text("The settings are changed.")).to_be_visible()
    assert own_studio.call("GET", "/settings") == {**before, name: before[name] + 1}
    _press(page, "Look what may be removed")
    expect(page.get_by_text("There is nothing to remove.")).to_be_visible()


@pytest.mark.slow
def test_what_a_cleanup_would_remove_is_shown_first(open_page: OpenPage, own_studio: Studio, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    run = submit(own_studio, folder, "print(1)", experiment="short")
    own_studio.call("DELETE", f"{W}/runs/{run['id']}")
    page = open_page(f"{W}/settings", server=own_studio)
    _press(page, "Look what may be removed")
    found = own_studio.call("POST", "/gc", {"apply": False})["items"]
    if not found:
        expect(page.get_by_text("There is nothing to remove.")).to_be_visible()
        return
    rows = page.get_by_role("table", name="What may be removed").get_by_role("row")
    expect(rows).to_have_count(len(found) + 1)
    _press(page, "Remove all of it")
    _confirm(page, "Remove")
    expect(page.get_by_text("There is nothing to remove.")).to_be_visible()


@pytest.mark.slow
def test_a_run_configuration_is_saved_used_and_deleted(page: Page, studio: Studio, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "nightly.py").write_text("import sys\nprint(sys.argv[1:])\n")
    _open(page, studio, "submit")
    page.locator("input[type=file]").set_input_files(folder)
    page.get_by_placeholder("train.py").fill("nightly.py")
    field(page, "Arguments").fill("--alpha 0.25")
    page.get_by_role("button", name="Run configurations").click()
    page.get_by_role("menuitem", name="Save this form as a configuration").click()
    field(page.get_by_role("dialog"), "Name").fill("nightly")
    _confirm(page, "Save")
    expect(page.get_by_text("The run configuration nightly is saved.")).to_be_visible()
    _open(page, studio, "submit")
    page.get_by_role("button", name="Run configurations").click()
    page.get_by_role("menuitem", name=re.compile("^nightly")).click()
    page.wait_for_url(re.compile("configuration=nightly"))
    expect(field(page, "Arguments")).to_have_value("--alpha 0.25")
    page.locator("input[type=file]").set_input_files(folder)
    page.get_by_placeholder("demo").fill("nightly")
    _press(page, "Submit")
    page.wait_for_url(re.compile(rf"{W}/runs/nightly_"))
    made = wait_for_run(studio, page.url.rpartition("/")[2].partition("?")[0])
    assert (made["state"], made["spec"]["arguments"]) == ("Completed", ["--alpha", "0.25"])
    _open(page, studio, "submit?configuration=nightly")
    page.get_by_role("button", name="Configuration nightly").click()
    page.get_by_role("menuitem", name="Delete nightly").click()
    _confirm(page, "Delete")
    expect(page.get_by_role("button", name="Run configurations")).to_be_visible()
    assert studio.call("GET", f"{W}/run-configurations")["run_configurations"] == []


@pytest.mark.slow
def test_an_experiment_is_archived_and_restored(page: Page, studio: Studio, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    submit(studio, folder, "print(1)", experiment="old-idea")
    _open(page, studio, "experiments")
    page.get_by_role("button", name="Archive old-idea").click()
    expect(_row(page, "old-idea")).to_have_count(0)
    page.get_by_label("Also archived").check()
    page.wait_for_url(re.compile("archived=all"))
    expect(_row(page, "old-idea")).to_contain_text("archived")
    page.get_by_role("button", name="Restore old-idea").click()
    expect(page.get_by_role("button", name="Archive old-idea")).to_be_visible()
