"""Commands and their options that all of them share, accepted before and after the command's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from windlass.cli.context import Call
from windlass.core.errors import SpecNotSupported

# What other programs call it.
_SYNONYMS = {
    **dict.fromkeys(("rm", "remove", "delete", "del"), ("delete", "detach", "revoke")),
    **dict.fromkeys(("add", "create", "new", "put"), ("create", "set", "register", "attach")),
    **dict.fromkeys(("ls", "ps"), ("list",)),
    **dict.fromkeys(("get", "describe", "info", "inspect"), ("show", "status", "list")),
    **dict.fromkeys(("test", "ping"), ("check",)),
}


def shared_options(hidden: bool) -> list[click.Parameter]:
    """--json and where the server is. On the root they are explained; after a command they are understood."""

    def option(name: str, text: str, **more: Any) -> click.Option:
        return click.Option([name], help=text, hidden=hidden, expose_value=False, callback=_remember, **more)

    return [
        option("--home", "Windlass's own folder (WINDLASS_HOME, else ~/.windlass).", metavar="FOLDER"),
        option("--url", "Use the server at this address (WINDLASS_URL).", metavar="URL"),
        option("--workspace", "Work in this workspace.", metavar="NAME"),
        option("--json", "Print one JSON document and nothing else.", is_flag=True),
        option("--debug", "Show a traceback when something goes wrong.", is_flag=True),
    ]


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value and option.name:
        setattr(ctx.ensure_object(Call), option.name, value)


class Mistake(click.UsageError):
    """A command line that is not valid, with what to type instead."""

    def __init__(self, message: str, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class Command(click.Command):
    """A command that understands the shared options too."""

    # What it exits with when it fails itself; None: by the code of the error.
    failure_code: int | None = None

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.params.extend(shared_options(hidden=True))

    # Options that people expect of it, with what to type instead.
    absent_options: Mapping[str, str] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            hint = self.absent_options.get(e.option_name) or self.explain_option(e.option_name, given)
            if not hint:
                raise
            raise Mistake(f"{ctx.command_path} has no option {e.option_name}.", hint, ctx) from None

    def explain_option(self, name: str, args: list[str]) -> str:
        """What to type instead of an option that there is not; empty if nothing is known of it."""
        return ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Options of every command (--json, --home, ...): windlass --help.")


class Group(click.Group):
    """A command with commands of its own, such as `windlass server start`."""

    command_class = Command
    # Commands that people know from Azure and this version lacks, with what to do instead.
    absent: Mapping[str, str] = {}
    # Commands that people know from other programs, with the one that does it here.
    elsewhere: Mapping[str, str] = {}

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **{"invoke_without_command": True, "no_args_is_help": False, **more})

    def invoke(self, ctx: click.Context) -> Any:
        """Alone, it explains itself."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as they are told in the source, not by the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None and args[0] in self.absent:
            raise SpecNotSupported(
                f"{ctx.command_path} {args[0]} is not provided in this version.", self.absent[args[0]]
            )
        if command is None and not ctx.resilient_parsing:
            raise self._unknown(ctx, args[0])
        call = ctx.find_object(Call)
        if call is not None and isinstance(command, Command):
            call.failure_code = command.failure_code
        return args[0] if command else None, command, args[1:]

    def _unknown(self, ctx: click.Context, name: str) -> Exception:
        from windlass.cli.parameters.suggestions import similar

        known = self.list_commands(ctx)
        message = f"{ctx.command_path} has no command {name}."
        if name in self.elsewhere:
            return Mistake(message, self.elsewhere[name], ctx)
        near = next((word for word in _SYNONYMS.get(name, ()) if word in known), "") or similar(name, known)
        if near:
            return Mistake(message, f"Did you mean `{ctx.command_path} {near}`?", ctx)
        return click.UsageError(message, ctx)
