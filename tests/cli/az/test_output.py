"""Formats of answers, as az has them."""

from __future__ import annotations

import click
import pytest

from windlass.cli.az.command import GROUPS, az, ml
from windlass.cli.az.output import FORMATS, Printer, parse_query

RUNS = [
    {"name": "b", "id": "x", "status": "Done", "number": 12, "tags": {"k": "v"}, "files": [1, 2], "parent": None},
    {"name": "a", "id": "y", "status": "Failed", "number": 3, "tags": {}, "files": [], "parent": None},
]


@pytest.mark.parametrize(
    ("output", "query", "document", "printed"),
    [
        ("json", None, {"b": 1, "a": float("nan")}, '{\n  "a": "NaN",\n  "b": 1\n}\n'),
        ("jsonc", "[0].name", RUNS, '"b"\n'),
        ("yaml", "[].{Called: name}", RUNS, "- Called: b\n- Called: a\n"),
        ("none", None, RUNS, ""),
        ("tsv", "[].name", RUNS, "b\na\n"),
        ("tsv", "[].[name, parent, files, tags]", RUNS, "b\tNone\t2\t\na\tNone\t0\t\n"),
        ("tsv", "[].{z: name, a: number}", RUNS, "b\t12\na\t3\n"),
        ("tsv", None, {"z": 1, "a": True}, "True\t1\n"),
        ("tsv", None, True, "true\n"),
        ("tsv", "[0].parent", RUNS, ""),
        ("json", "nothing", RUNS, ""),
        ("table", None, RUNS,
         "Name      Number  Status\n------  --------  --------\nb             12  Done\na              3  Failed\n"),
        ("table", "[].{Z: name, id: id}", RUNS, "Z\n---\nb\na\n"),
        ("table", "[].[name]", RUNS, "Column1\n---------\nb\na\n"),
        ("table", "[].name", RUNS, "Result\n--------\nb\na\n"),
        ("table", None, [], ""),
        ("tsv", None, "a\x1b[2Jb", "a\\x1b[2Jb\n"),
    ],
)  # fmt: skip
def test_formats(
    capsys: pytest.CaptureFixture[str], output: str, query: str | None, document: object, printed: str
) -> None:
    Printer(output, parse_query(query) if query else None).json(document)
    assert capsys.readouterr().out == printed


def test_every_format_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for output in FORMATS:
        Printer(output).json(RUNS)
    with pytest.raises(ValueError):
        parse_query("[")


def _commands(group: click.Group, parent: click.Context) -> list[click.Context]:
    found = []
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=parent, terminal_width=80)
        found += [ctx, *(_commands(command, ctx) if isinstance(command, click.Group) else ())]
    return found


def test_every_command_explains_itself_in_eighty_columns() -> None:
    contexts = _commands(az, click.Context(az, info_name="windlass az"))
    assert len(contexts) > 130
    for ctx in contexts:
        text = ctx.get_help()
        assert max(map(len, text.splitlines())) <= 80, ctx.command_path
        assert ctx.command.get_short_help_str(), ctx.command_path


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, _, line in GROUPS])
def test_groups_are_what_the_list_says(name: str, line: str) -> None:
    with click.Context(ml) as ctx:
        group = ml.get_command(ctx, name)
    assert isinstance(group, click.Group) and group.name == name and group.commands and line.endswith(".")
