"""docs/reference/az.md: every command of `windlass az ml`, with its options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tools.docs.markdown import document
from windlass.cli.az.command import GROUPS, ml
from windlass.cli.az.declaration import AzCommand, MessageCommand
from windlass.cli.az.later import later

_INTRODUCTION = (
    "The commands of `az ml` that `windlass az ml` takes, of all generations, with the options that have a meaning "
    "here; others are accepted with a warning. [How to use them](../how-to/az.md)."
)


def page() -> str:
    tables = [f"## {name}\n\n" + "\n".join(_table(name)) for name, _, _ in GROUPS]
    return document("Commands of az ml", _INTRODUCTION, *tables, "## Not provided in this version\n\n" + _missing())


def _table(name: str) -> Iterator[str]:
    yield "| command | what | options |\n|---|---|---|"
    with click.Context(ml, info_name="ml") as ctx:
        group = ml.get_command(ctx, name)
        assert isinstance(group, click.Group)
        for path, command in _commands(group, name):
            yield f"| `{path}` | {_text(command)} | {_options(command)} |"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _text(command: click.Command) -> str:
    text = command.help if isinstance(command, MessageCommand) else command.short_help
    return (text or "").replace("|", "\\|")


def _options(command: click.Command) -> str:
    if not isinstance(command, AzCommand):
        return ""
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return " ".join(f"`{'/'.join(each.opts)}`" for each in shown)


def _missing() -> str:
    rows = [f"| `{name}` | {_text(command)} |" for name, command in later.commands.items()]
    return "\n".join(["| group | what to use |\n|---|---|", *rows])
