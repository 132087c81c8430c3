"""The docs are whole: links lead somewhere, generated pages are what the code says, and nothing is left unsaid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, anchors, blocks, links, name_of
from tools.docs.__main__ import PAGES as GENERATED
from tools.docs.cli import commands
from windlass import drivers
from windlass.core.errors import BY_CODE
from windlass.core.states import Reason, RunState
from windlass.server.settings import Settings, Tunable

DOCS = ROOT / "docs"
LANGUAGES = {"bash", "ini", "json", "python", "sh", "text"}


def text_of(*names: str) -> str:
    return "\n".join((DOCS / name).read_text("utf-8") for name in names)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_local_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), link
        assert not anchor or anchor in anchors(found), link


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_pictures_are_there(path: Path) -> None:
    for source in re.findall(r'(?:src|srcset)="([^"]+)"', path.read_text("utf-8")):
        assert (path.parent / source).is_file(), source


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    assert set(DOCS.rglob("*.md")) <= seen


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_code_is_marked_as_something(path: Path) -> None:
    for block in blocks(path):
        assert block.language in LANGUAGES, f"line {block.line}: {block.language!r}"
        assert not block.is_run or block.language in ("bash", "python"), f"line {block.line}"


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == GENERATED[name](), "make docs"


KINDS = [kind for kind in drivers.known_kinds() if not drivers.load(kind).is_internal]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_page(kind: str) -> None:
    assert (DOCS / "targets" / f"{kind}.md").is_file()
    assert f"(targets/{kind}.md)" in text_of("index.md")


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_a_kind_names_all_its_settings(kind: str) -> None:
    cells = [line.split("|")[1] for line in text_of(f"targets/{kind}.md").splitlines() if line.startswith("|")]
    for name, field in drivers.load(kind).config_model.model_fields.items():
        assert any(f"`{name}`" in cell for cell in cells), name
        assert field.description, name


@pytest.mark.parametrize("state", RunState)
def test_every_state_is_explained(state: RunState) -> None:
    assert f"| `{state.value}` |" in text_of("how-a-run-lives.md")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    assert f"| `{reason.value}` |" in text_of("how-a-run-lives.md")


@pytest.mark.parametrize("code", BY_CODE)
def test_for_every_error_it_is_said_what_to_do(code: str) -> None:
    rows = [line for line in text_of("how-to/troubleshooting.md").splitlines() if line.startswith("|")]
    assert any(f"`{code}`" in row.split("|")[1] for row in rows)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is_for(name: str) -> None:
    assert Settings.model_fields[name].description


@pytest.mark.parametrize("name", [name for name in Tunable.model_fields if name.startswith("keep_")])
def test_how_long_things_are_kept_is_explained(name: str) -> None:
    assert f"| `{name}` |" in text_of("how-to/retention.md")


@pytest.mark.parametrize("command", commands())
def test_every_command_is_in_the_reference(command: str) -> None:
    assert re.search(rf"^#+ {command}$", text_of("reference/cli.md"), re.MULTILINE)


def test_every_how_to_and_example_is_listed() -> None:
    index = text_of("index.md")
    for page in (DOCS / "how-to").glob("*.md"):
        assert f"(how-to/{page.name})" in index, page.name
    examples = (ROOT / "examples" / "README.md").read_text("utf-8")
    for folder in (ROOT / "examples").iterdir():
        assert folder.is_file() or f"]({folder.name})" in examples, folder.name


def test_every_bad_input_names_tests_that_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text_of("dev/bad-inputs.md"))
    assert named
    for file, test in set(named):
        source = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"^ *def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_every_row_of_bad_inputs_is_there() -> None:
    """Each is tested, or it is said why there is nothing to test."""
    rows = re.findall(r"^\| ([A-I])(\d+) \|.*\|(.*)\|$", text_of("dev/bad-inputs.md"), re.MULTILINE)
    counts = {"A": 18, "B": 18, "C": 24, "D": 22, "E": 34, "F": 15, "G": 9, "H": 13, "I": 10}
    assert [f"{group}{number}" for group, number, _ in rows] == [
        f"{g}{n}" for g in counts for n in range(1, counts[g] + 1)
    ]
    for group, number, said in rows:
        assert "::" in said or "the same" in said or "does not exist" in said or "as D18" in said, f"{group}{number}"
