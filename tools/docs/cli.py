"""docs/reference/cli.md: every command with its own help text."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tools.docs.errors import MEANINGS
from tools.docs.markdown import block, document, table
from windlass.cli.root import ROOT

INTRODUCTION = """\
`windlass COMMAND --help` prints the same. `--json` is understood by every command, before or after its name: one JSON
document on stdout and nothing else. A RUN is an id, the first characters of an id or of its last part (as lists show
it), `@last`, or `@last~1` for the one before it."""


def page() -> str:
    exits = table(["exit code", "means"], [(str(exit_code), text) for exit_code, text in sorted(MEANINGS.items())])
    return document(
        "Command line",
        INTRODUCTION,
        *_sections(ROOT, click.Context(ROOT, info_name="windlass")),
        "## Exit codes",
        exits,
    )


def commands() -> list[str]:
    """The full name of every command: what the docs must mention."""
    return [context.command_path for context, _ in _walk(ROOT, click.Context(ROOT, info_name="windlass"))]


def _sections(root: click.Group, context: click.Context) -> Iterator[str]:
    yield block(_help(root, context))
    for child, command in _walk(root, context):
        yield f"## {child.command_path}\n\n{block(_help(command, child))}"


def _walk(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        child = click.Context(command, info_name=name, parent=context, terminal_width=100, max_content_width=100)
        yield child, command
        if isinstance(command, click.Group):
            yield from _walk(command, child)


def _help(command: click.Command, context: click.Context) -> str:
    """The same text on every machine, however wide its terminal is."""
    context.terminal_width = 100
    text = command.get_help(context)
    return "\n".join(line.rstrip() for line in text.splitlines())
