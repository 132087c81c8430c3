"""docs/seeds.md: the state of each item of the five documents, from tests/seeds/items.toml."""

from __future__ import annotations

from collections import Counter

from tests.seeds.items import DOCUMENTS, ITEMS, Document, Item, State
from tools.docs.markdown import code, document, table
from windlass import drivers

INTRODUCTION = """\
Windlass was asked for in five public texts about compute targets in Azure Machine Learning, written between 2017 and
2023. Code and command lines like theirs are what people have, so every Python snippet, command line, file and rule in
them is an item here, with what becomes of it:

- **works**: as it stands there, but for placeholders and for mistakes that keep it from working anywhere.
- **works differently**: how and why is said beside it.
- **waits for …**: for a kind of target, or for a part of the product that comes later. Until then asking for it is an
  error that says what to use instead. For a kind, the test of the item changes by itself once the kind is there.
- **has no meaning here**: it is about Azure's own data centres.
- **not provided**: the name exists and says so.

The [command line](reference/cli.md) takes the texts' commands behind `windlass`: `windlass az ml …`. Snippets import
`azureml` ([how](how-to/from-azureml.md)). What their resource groups, accounts and resource ids mean here is said once,
by a [connection](how-to/connections.md). Lines are those of the texts. The table behind this page,
`tests/seeds/items.toml`, has the code itself and names the tests of each item."""
_STATES = {
    State.WORKS: "works",
    State.DIFFERS: "works differently",
    State.MEANINGLESS: "has no meaning here",
    State.ABSENT: "not provided",
}


def page() -> str:
    parts = [part for each in DOCUMENTS for part in _document(each)]
    return document("The five documents", INTRODUCTION, _counts(), *parts, *_repairs())


def _document(about: Document) -> tuple[str, str, str]:
    title = f"{about.title}, {about.year}" if about.year else about.title
    items = [item for item in ITEMS.values() if item.document == about.number]
    rows = [(str(item.line), item.what, _state(item), item.note) for item in items]
    return f"## {about.number}. {title}", about.about, table(["line", "item", "state", "how and why"], rows)


def _state(item: Item) -> str:
    if item.waits:
        return f"waits for {item.waits}"
    if item.kind and item.kind not in drivers.known_kinds():
        return f"waits for the kind {code(item.kind)}"
    return _STATES[item.state]


def _counts() -> str:
    counted = Counter(_state(item) for item in ITEMS.values())
    return table(["state", "items"], [(state, str(number)) for state, number in counted.most_common()])


def _repairs() -> tuple[str, str, str]:
    rows = [
        (f"{item.document}, line {item.line}", code(repair.old), code(repair.new), repair.why)
        for item in ITEMS.values()
        for repair in item.repairs
    ]
    text = "What had to change before a snippet or command could work anywhere. Lines that replace nothing go in front."
    return "## Repairs", text, table(["document", "there", "here", "why"], rows)
