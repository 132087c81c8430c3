"""The reference of the command line, as Markdown, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from windlass.cli.az.declaration import AzGroup
from windlass.cli.context import CommandContext
from windlass.cli.errors import MEANINGS
from windlass.cli.root import COMMANDS, ROOT


def render(context: CommandContext) -> str:
    """Render the page. The context's session must answer with the kinds of compute."""
    with click.Context(ROOT, info_name="windlass", obj=context) as ctx:
        return "\n".join(_page(ctx)).rstrip() + "\n"


def _page(ctx: click.Context) -> Iterator[str]:
    yield "# Command line\n"
    yield from _help(ROOT)
    yield "## Options of every command\n"
    yield "They stand before or after the command's name.\n"
    yield from _parameters(ROOT)
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield ""
    for section in dict.fromkeys(row[0] for row in COMMANDS):
        yield f"## {section}\n"
        for _, name, _, _ in (row for row in COMMANDS if row[0] == section):
            command = ROOT.get_command(ctx, name)
            if command is not None:
                yield from _command(command, f"windlass {name}", 3, ctx)


def _command(command: click.Command, path: str, level: int, parent: click.Context) -> Iterator[str]:
    yield f"{'#' * level} {path}\n"
    with click.Context(command, info_name=command.name, parent=parent) as ctx:
        if not isinstance(command, click.Group):
            usage = " ".join([path, *command.collect_usage_pieces(ctx)])
            yield f"```text\n{usage}\n```\n"
        yield from _help(command)
        yield from _parameters(command)
        if isinstance(command, click.Group) and not isinstance(command, AzGroup):  # which has a page of its own
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                if child is not None:
                    yield from _command(child, f"{path} {name}", level + 1, ctx)


def _help(command: click.Command) -> Iterator[str]:
    """The help text; what is kept as it stands (after \\b) becomes a code block."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if paragraph.startswith("\b\n"):
            yield f"```sh\n{paragraph[2:]}\n```\n"
        else:
            yield " ".join(paragraph.split()) + "\n"


def _parameters(command: click.Command) -> Iterator[str]:
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if not options:
        return
    yield "| option | what |\n|---|---|"
    for option in options:
        names = ", ".join(f"`{name}`" for name in option.opts)
        value = "" if option.is_flag else f" `{_metavar(option)}`".replace("|", "\\|")
        default = f" Default: {option.default}." if option.show_default else ""
        text = " ".join((option.help or "").split()).replace("|", "\\|")
        yield f"| {names}{value} | {text}{default} |"
    yield ""


def _metavar(option: click.Option) -> str:
    return option.metavar or option.type.name.upper()
