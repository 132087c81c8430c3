"""The table of items is whole: every item has tests that exist, and one of them executes what a document shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.seeds.items import DOCUMENTS, ITEMS, Item, State

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS.keys())
def test_an_item_has_tests_that_exist(item: Item) -> None:
    assert item.tests
    for named in item.tests:
        file, _, test = named.partition("::")
        assert re.search(rf"^def {test}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE), named


@pytest.mark.parametrize(
    "item", [item for item in ITEMS.values() if item.shown and not item.unexecuted], ids=lambda item: item.at
)
def test_what_a_document_shows_is_executed(item: Item) -> None:
    """By a test of this folder, which finds it in the table by its place."""
    files = {named.partition("::")[0] for named in item.tests if named.startswith("seeds/")}
    assert any(re.search(rf"[\"']{item.at}[\"']", (TESTS / file).read_text("utf-8")) for file in files)
    code = re.sub(r"^ *#.*$", "", item.text(**FACTS), flags=re.MULTILINE)
    assert re.search(r"<\w[\w -]*>", code) is None, "a placeholder is left"


FACTS = {name: "x" for name in ("address", "user", "password", "url_wheel", "local_wheel")}


def test_what_does_not_simply_work_is_explained() -> None:
    assert [item.at for item in ITEMS.values() if item.state is not State.WORKS and not item.note] == []
    assert [repair for item in ITEMS.values() for repair in item.repairs if not repair.why] == []


def test_items_stand_in_the_order_of_the_documents() -> None:
    places = [(item.document, item.line, item.at) for item in ITEMS.values()]
    assert places == sorted(places)
    assert {item.document for item in ITEMS.values()} == {document.number for document in DOCUMENTS}
