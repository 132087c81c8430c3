"""docs/reference/cli.md: the commands, from their own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click

from tools.docs.cli_reference import render
from tools.docs.markdown import GENERATED
from windlass.cli.az.command import az
from windlass.cli.context import CommandContext
from windlass.cli.root import ROOT
from windlass.client.http.session import Session
from windlass.server.api.compute.kinds import kind_views


class _KindsOfTheSource:
    """A session that answers with the kinds of the source tree, from which the commands for kinds are made."""

    def call(self, method: str, path: str, *_: Any) -> Any:
        assert (method, path.rpartition("/")[2]) == ("GET", "kinds"), (method, path)
        return {"kinds": kind_views()}


def page() -> str:
    title, _, rest = render(_call()).partition("\n")
    return f"{title}\n\n{GENERATED}\n{rest}"


def commands() -> list[str]:
    """The full name of every command: what the docs must mention."""
    return list(_names(ROOT, click.Context(ROOT, info_name="windlass", obj=_call())))


def _call() -> CommandContext:
    return CommandContext(cast(Session, _KindsOfTheSource()))


def _names(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        child = click.Context(command, info_name=name, parent=context)
        yield child.command_path
        if isinstance(command, click.Group) and command is not az:  # its commands have a page of their own
            yield from _names(command, child)
