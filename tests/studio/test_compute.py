"""Compute in the browser: create a cluster, attach a machine, change and remove them, and see what they do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.hosts.network import Network
from tests.studio.browser import Studio, Watch, act, field, pick, using
from tests.studio.conftest import OpenPage
from tests.studio.content import Content, W, submit, wait_for_run, wait_for_target

# Runs until there is a file.
_WAITING = """
import pathlib, sys, time
print("waiting")
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""


def _open_form(page: Page, studio: Studio, kind: str) -> Locator:
    page.goto(f"{studio.url}{W}/new-compute?kind={kind}")
    return page.get_by_role("main").get_by_role("form")


def _press(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("button", name=name, exact=True).click()


def _confirm(page: Page, name: str) -> None:
    """Press a button of the dialog, which then closes."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def _code(page: Page) -> Locator:
    return page.get_by_role("complementary", name="The same by command and in Python").locator("pre")


def _row(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name="Targets").get_by_role("row").filter(has_text=name)


def _section(page: Page, title: str) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_mistakes_in_a_form_are_named_while_one_types(page: Page, studio: Studio) -> None:
    form = _open_form(page, studio, "cluster")
    field(form, "Name").fill("9 lives")
    field(form, "Name").blur()
    expect(
        form.get_by_text("A name has 2 to 16 letters, digits and hyphens, and starts with a letter.")
    ).to_be_visible()
    field(form, "Name").fill("a-cluster-with-a-long-name")
    expect(form.get_by_text("26 characters: accepted here, but Azure ML takes at most 16.")).to_be_visible()
    field(form, "Minimum number of nodes").fill("5")
    field(form, "Maximum number of nodes").fill("2")
    field(form, "Maximum number of nodes").blur()
    order = form.get_by_text("This must not be less than minimum number of nodes (5).")
    expect(order).to_be_visible()
    _press(page, "Create")
    expect(field(form, "Maximum number of nodes")).to_be_focused()
    field(form, "Maximum number of nodes").fill("6")
    expect(order).to_have_count(0)
    assert "a-cluster-with-a-long-name" not in str(studio.call("GET", f"{W}/targets"))


def _fill_cluster_form(page: Page, form: Locator) -> None:
    field(form, "Name").fill("by-form")
    form.get_by_text("GPU", exact=True).click()
    pick(page, "Virtual machine size", "Standard_NC6", within=form)
    expect(form.get_by_text(re.compile(r"6 cores · 56 GB of memory · 1 GPU"))).to_be_visible()
    form.get_by_text("CPU", exact=True).click()
    pick(page, "Virtual machine size", "Standard_D2_v2", within=form)
    form.get_by_text("Low priority", exact=True).click()
    field(form, "Minimum number of nodes").fill("0")
    field(form, "Maximum number of nodes").fill("2")
    field(form, "Idle seconds before scale down").fill("2400")
    form.get_by_role("button", name="Advanced").click()
    field(form, "SSH admin user name").fill("ada")
    field(form, "SSH public key of the admin").fill("ssh-ed25519 AAAA ada@desk")


@pytest.mark.slow
def test_a_cluster_is_created_by_its_form(page: Page, studio: Studio) -> None:
    page.get_by_role("link", name="Compute", exact=True).click()
    page.get_by_role("link", name="New", exact=True).click()
    page.get_by_role("link", name=re.compile("Compute cluster")).click()
    form = page.get_by_role("form", name="Compute cluster")
    _fill_cluster_form(page, form)
    for words in ("windlass compute create cluster by-form", "--priority low", "--max-nodes 2", "--idle-seconds 2400"):
        expect(_code(page)).to_contain_text(words)
    page.get_by_role("complementary").get_by_role("tab", name="Python").click()
    expect(_code(page)).to_contain_text("AmlCompute.provisioning_configuration(")
    expect(_code(page)).to_contain_text('vm_priority="lowpriority"')
    _press(page, "Create")
    page.wait_for_url(f"{studio.url}{W}/compute/by-form")
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()
    expect(page.get_by_role("main").locator("dl")).to_contain_text("Succeeded")
    made = wait_for_target(studio, "by-form")["config"]
    wanted = {"vm_priority": "lowpriority", "min_nodes": 0, "max_nodes": 2, "idle_seconds_before_scaledown": 2400}
    assert made == {**made, **wanted, "admin_username": "ada", "admin_user_ssh_key": "ssh-ed25519 AAAA ada@desk"}
    page.goto(f"{studio.url}{W}/compute?group=clusters")
    expect(_row(page, "by-form")).to_contain_text("no nodes of 2")
    expect(_row(page, "local")).to_have_count(0)


def _small_cluster(studio: Studio, name: str) -> None:
    config = {"vm_size": "STANDARD_D1", "max_nodes": 1, "idle_seconds_before_scaledown": 3600}
    studio.call("POST", f"{W}/targets", {"name": name, "kind": "cluster", "config": config})
    wait_for_target(studio, name)


@pytest.mark.slow
def test_a_cluster_is_changed_used_evicted_and_deleted(
    page: Page, studio: Studio, watch: Watch, tmp_path: Path
) -> None:
    watch.allow(404)  # the page of a target that is gone may ask for it before it is left
    _small_cluster(studio, "steered")
    with page.expect_response(re.compile("/targets/steered/nodes")):  # a change ends requests to the target
        page.goto(f"{studio.url}{W}/compute/steered")
    page.get_by_role("button", name="Edit settings").click()
    dialog = page.get_by_role("dialog")
    field(dialog, "Maximum number of nodes").fill("3")
    expect(dialog.locator("pre")).to_contain_text("windlass compute update steered --max-nodes 3")
    _confirm(page, "Save")
    expect(page.get_by_text("no nodes of 3")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Submit a run").click()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(_WAITING)
    page.locator("input[type=file]").set_input_files(tmp_path / "project")
    page.get_by_placeholder("train.py").fill("train.py")
    field(page, "Arguments").fill(str(tmp_path / "end"))
    page.get_by_placeholder("demo").fill("steered")
    _press(page, "Submit")
    page.wait_for_url(re.compile(rf"{W}/runs/steered_"))
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    page.goto(f"{studio.url}{W}/compute/steered")
    expect(page.get_by_text("1 busy of 3")).to_be_visible()
    expect(page.get_by_role("table", name="Nodes").get_by_role("link", name=run_id)).to_be_visible()
    (tmp_path / "end").touch()
    expect(page.get_by_text("1 idle of 3")).to_be_visible()
    assert wait_for_run(studio, run_id)["state"] == "Completed"
    act(page, "Simulate an eviction")
    _confirm(page, "Evict")
    expect(page.get_by_text("Evicted 1 node")).to_be_visible()
    expect(page.get_by_text("no nodes of 3")).to_be_visible()
    events = _section(page, "Events").get_by_role("listitem")
    for words in ("creation was requested by owner", "max_nodes: 1 → 3", "is ready", "eviction was simulated"):
        expect(events.filter(has_text=words).first).to_be_visible()
    act(page, "Delete")
    _confirm(page, "Delete")
    page.wait_for_url(f"{studio.url}{W}/compute")
    expect(_row(page, "steered")).to_have_count(0)


def _fill_machine_form(form: Locator, address: str, username: str) -> None:
    field(form, "Name").fill("gpu-box")
    field(form, "Address").fill(address)
    field(form, "User name").fill(username)


@pytest.mark.slow
def test_a_machine_is_attached_by_its_form(network: Network, page: Page, studio: Studio, watch: Watch) -> None:
    watch.allow(404)  # the page of a target that is gone may ask for it before it is left
    host = network.host()
    form = _open_form(page, studio, "ssh")
    _fill_machine_form(form, host.address, host.user)
    field(form, "Password").fill(host.password)
    expect(_code(page)).to_contain_text("--ask-password")
    _press(page, "Connect")
    key = page.get_by_role("region", name="The host key")
    expect(key.get_by_test_id("fingerprint")).to_contain_text("SHA256:")
    assert "Accepted password" not in host.log and "Failed password" not in host.log, "sent before the key was compared"
    attach = page.get_by_role("main").get_by_role("button", name="Attach", exact=True)
    expect(attach).to_be_disabled()
    key.get_by_label("I have compared it: it is the same").check()
    expect(_code(page)).to_contain_text("--pin SHA256:")
    attach.click()
    page.wait_for_url(f"{studio.url}{W}/compute/gpu-box")
    expect(page.get_by_text("compared by a person")).to_be_visible()
    assert host.password not in page.content()
    _press(page, "Check now")
    expect(page.get_by_role("alert").filter(has_text="Ready")).to_be_visible()
    act(page, "Compare its identity")
    expect(page.get_by_text("It shows the host key that was pinned.")).to_be_visible()
    _confirm(page, "Back")
    act(page, "Detach")
    _confirm(page, "Detach")
    page.wait_for_url(f"{studio.url}{W}/compute")
    expect(_row(page, "gpu-box")).to_have_count(0)


@pytest.mark.slow
def test_mistakes_about_a_machine_are_answered(network: Network, page: Page, studio: Studio, watch: Watch) -> None:
    watch.allow(409, 422, 502, 503)
    host = network.host()
    form = _open_form(page, studio, "ssh")
    _press(page, "Connect")
    expect(form.get_by_text("Address is required.")).to_be_visible()
    expect(field(form, "Name")).to_be_focused()
    _fill_machine_form(form, f"{host.address}:9", host.user)
    _press(page, "Connect")
    unreachable = form.get_by_role("alert")
    expect(unreachable).to_contain_text("refused")
    _fill_machine_form(form, host.address, host.user)
    pick(page, "How to log in", "Password", within=form)
    _press(page, "Connect")
    page.get_by_label("I have compared it: it is the same").check()
    _press(page, "Attach")
    expect(form.get_by_role("alert")).to_contain_text("needs password, and got none")
    expect(form.get_by_text("This is needed to log in.")).to_be_visible()
    field(form, "Password").fill("a wrong one")
    _press(page, "Attach")
    expect(form.get_by_role("alert")).to_contain_text("password")
    assert "gpu-box" not in str(studio.call("GET", f"{W}/targets"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", "docker"])
def test_built_in_targets_are_shown_and_changed(page: Page, studio: Studio, name: str) -> None:
    page.goto(f"{studio.url}{W}/compute?group=built-in")
    _row(page, name).get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(f"{studio.url}{W}/compute/{name}")
    expect(page.get_by_role("button", name="More actions")).to_have_count(0)
    page.get_by_role("button", name="Edit settings").click()
    field(page.get_by_role("dialog"), "Runs at once").fill("7")
    _confirm(page, "Save")
    expect(page.get_by_role("main").locator("dl").first).to_contain_text("Runs at once7")
    assert studio.call("GET", f"{W}/targets/{name}")["slots"] == 7


class _FarmStudio(Studio):
    """A server that has the package of tests/plugin."""

    def __init__(self, home: Path, farm: Path) -> None:
        super().__init__(home)
        self._farm = farm

    def environment(self, **changes: str | None) -> dict[str, str]:
        return super().environment(**{"PYTHONPATH": str(self._farm), **changes})


@pytest.mark.slow
def test_kinds_of_another_package_have_forms(open_page: OpenPage, farm: Path, watch: Watch, tmp_path: Path) -> None:
    shed = tmp_path / "shed"
    shed.mkdir()
    (shed / "seal").write_text("red\n")
    (shed / "token").write_text("sesame\n")
    with using(tmp_path / "home", lambda home: _FarmStudio(home, farm)) as studio:
        studio.start_server()
        page = open_page(f"{W}/new-compute?kind=shed", server=studio)
        form = page.get_by_role("main").get_by_role("form")
        field(form, "Name").fill("yard")
        field(form, "Folder").fill(str(shed))
        field(form, "Token").fill("sesame")
        _press(page, "Connect")
        expect(page.get_by_test_id("fingerprint")).to_have_text("SEAL:red")
        page.get_by_label("I have compared it: it is the same").check()
        _press(page, "Attach")
        page.wait_for_url(f"{studio.url}{W}/compute/yard")
        expect(page.get_by_text("SEAL:red", exact=True)).to_be_visible()
        form = _open_form(page, studio, "barn")
        field(form, "Name").fill("big-barn")
        field(form, "Folder").fill(str(tmp_path / "barn"))
        field(form, "Max stalls").fill("3")
        expect(_code(page)).to_contain_text("--stalls 3")
        _press(page, "Create")
        page.wait_for_url(f"{studio.url}{W}/compute/big-barn")
        expect(page.get_by_text("3 idle")).to_be_visible()
        watch.close()


@pytest.mark.slow
def test_usage_and_quotas_are_shown(page: Page, studio: Studio, content: Content, watch: Watch) -> None:
    page.goto(f"{studio.url}{W}/compute")
    page.get_by_role("link", name="Usage and quotas").click()
    rows = page.get_by_role("table", name="Quotas").get_by_role("row")
    expect(rows.filter(has_text="cores").first).to_be_visible()  # of the cluster that is there
    page.get_by_label("Search families and sizes").fill("NC6s_v3")
    rows.nth(1).get_by_role("button", name=re.compile("Change the quota of")).click()
    page.get_by_role("dialog").get_by_label("Limit the cores of this family").check()
    field(page.get_by_role("dialog"), "Cores").fill("6")
    _confirm(page, "Save")
    expect(rows.nth(1)).to_contain_text("6 cores")
    watch.allow(409, 422)
    form = _open_form(page, studio, "cluster")
    field(form, "Name").fill("too-large")
    form.get_by_text("GPU", exact=True).click()
    pick(page, "Virtual machine size", "Standard_NC6s_v3", within=form)
    expect(form.get_by_role("alert").filter(has_text="quota")).to_be_visible()
    _press(page, "Create")
    expect(page).to_have_url(re.compile("new-compute"))
    assert "too-large" not in str(studio.call("GET", f"{W}/targets"))


@pytest.mark.slow
def test_compute_is_seen_at_a_glance(page: Page, studio: Studio, content: Content, tmp_path: Path) -> None:
    _small_cluster(studio, "glance")
    folder = tmp_path / "project"
    folder.mkdir()
    end = tmp_path / "end"
    runs = [
        submit(studio, folder, _WAITING, str(end), experiment="glance", options=("-c", "glance"), detach=True)["id"]
        for _ in range(2)
    ]
    page.goto(f"{studio.url}{W}")
    target = _section(page, "Targets").get_by_role("listitem").filter(has_text="glance")
    expect(target).to_contain_text("1 running")
    expect(target).to_contain_text("1 active, 1 queued")
    for title in ("Running now", "Waiting"):
        expect(_section(page, title).get_by_role("listitem").filter(has_text="glance").first).to_be_visible()
    page.get_by_role("link", name="Compute", exact=True).click()
    row = _row(page, "glance")
    expect(row).to_contain_text("1 busy of 1")
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")
    expect(row.get_by_role("cell").nth(4)).to_have_text("1")
    end.touch()
    for run in runs:
        assert wait_for_run(studio, run)["state"] == "Completed"
    expect(row).to_contain_text("1 idle of 1")
    expect(row).to_contain_text("an hour")  # what the idle node costs
    page.get_by_label("Search targets").fill("no such target")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_label("Search targets").fill("glan")
    expect(row).to_be_visible()
    page.get_by_role("link", name="Home", exact=True).click()
    expect(_section(page, "Idle, and costs money").get_by_role("listitem").filter(has_text="glance")).to_contain_text(
        "1 idle node"
    )


@pytest.mark.slow
def test_a_reader_sees_no_actions_of_compute(open_page: OpenPage, studio: Studio, content: Content) -> None:
    given = studio.call("POST", f"{W}/tokens", {"name": "looks-on", "role": "reader"})["token"]
    page = open_page(f"{W}/compute/{content.cluster}", token=given)
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    main = page.get_by_role("main")
    actions = re.compile("Edit settings|More actions|Check now|Submit")
    expect(main.get_by_role("button", name=actions).or_(main.get_by_role("link", name=actions))).to_have_count(0)
    page.goto(f"{studio.url}{W}/quotas")
    expect(page.get_by_role("table", name="Quotas")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Change the quota"))).to_have_count(0)
    page.goto(f"{studio.url}{W}/new-compute?kind=cluster")
    expect(page.get_by_text("Your role does not permit this")).to_be_visible()


@pytest.mark.slow
def test_a_cluster_is_created_by_keyboard_only(page: Page, studio: Studio) -> None:
    expect(page.get_by_role("heading", name=re.compile("^(Home|Welcome)"))).to_be_visible()  # not that of the sign-in
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url(f"{studio.url}{W}/compute")
    _tab_to(page, page.get_by_role("link", name="New", exact=True))
    page.keyboard.press("Enter")
    _tab_to(page, page.get_by_role("link", name=re.compile("Compute cluster")))
    page.keyboard.press("Enter")
    form = page.get_by_role("form", name="Compute cluster")
    _tab_to(page, field(form, "Name"))
    page.keyboard.type("by-keys")
    _tab_to(page, field(form, "Virtual machine size").and_(page.locator("input")))
    page.keyboard.press("Control+a")
    page.keyboard.type("standard_d2_v2")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    _tab_to(page, form.get_by_role("radio", name="Dedicated"))
    page.keyboard.press("ArrowRight")
    _tab_to(page, field(form, "Maximum number of nodes"))
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{studio.url}{W}/compute/by-keys")
    made = wait_for_target(studio, "by-keys")["config"]
    assert (made["vm_size"].lower(), made["vm_priority"], made["max_nodes"]) == ("standard_d2_v2", "lowpriority", 1)


def _tab_to(page: Page, wanted: Locator) -> None:
    """Press the tab key until it has the focus."""
    wanted.wait_for(state="attached")
    for _ in range(60):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the tab key does not reach {wanted}")
