"""docs/reference/cli.md: the page that the command line makes of itself."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tools.docs.markdown import GENERATED
from windlass.cli.az.command import az
from windlass.cli.reference import render
from windlass.cli.root import ROOT


def page() -> str:
    title, _, rest = render().partition("\n")
    return f"{title}\n\n{GENERATED}\n{rest}"


def commands() -> list[str]:
    """The full name of every command: what the docs must mention."""
    return list(_names(ROOT, click.Context(ROOT, info_name="windlass")))


def _names(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        child = click.Context(command, info_name=name, parent=context)
        yield child.command_path
        if isinstance(command, click.Group) and command is not az:  # its commands have a page of their own
            yield from _names(command, child)
