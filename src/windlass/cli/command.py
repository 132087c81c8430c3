"""Base classes of commands and groups, with the options that every command accepts before and after its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from windlass.cli.context import CommandContext
from windlass.core.errors import SpecNotSupported

# Names that other programs have for a command, with the names used here.
_SYNONYMS = {
    **dict.fromkeys(("rm", "remove", "delete", "del"), ("delete", "detach", "revoke")),
    **dict.fromkeys(("add", "create", "new", "put"), ("create", "set", "register", "attach")),
    **dict.fromkeys(("ls", "ps"), ("list",)),
    **dict.fromkeys(("get", "describe", "info", "inspect"), ("show", "status", "list")),
    **dict.fromkeys(("test", "ping"), ("check",)),
}


def shared_options(hidden: bool) -> list[click.Parameter]:
    """The options of every command: --json, --home, ... Hidden in the help of commands."""

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
        setattr(ctx.ensure_object(CommandContext), option.name, value)


class HintedUsageError(click.UsageError):
    """A usage error with a hint: what to type instead."""

    def __init__(self, message: str, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class Command(click.Command):
    """A command that accepts the shared options."""

    # The exit code of any error; None: by the error's code.
    failure_code: int | None = None

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.params.extend(shared_options(hidden=True))

    # Hints for options that it does not have and that people expect: what to type instead.
    option_hints: Mapping[str, str] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            hint = self.option_hints.get(e.option_name) or self.explain_option(e.option_name, given)
            if not hint:
                raise
            raise HintedUsageError(f"{ctx.command_path} has no option {e.option_name}.", hint, ctx) from None

    def explain_option(self, name: str, args: list[str]) -> str:
        """A hint for an unknown option: what to type instead; empty if there is none."""
        return ""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Options of every command (--json, --home, ...): windlass --help.")


class Group(click.Group):
    """A command with commands of its own, such as `windlass server start`."""

    command_class = Command
    # Commands of Azure that this version does not provide, with what to do instead.
    not_provided: Mapping[str, str] = {}
    # Hints for commands of other programs: the command that does it here.
    command_hints: Mapping[str, str] = {}

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **{"invoke_without_command": True, "no_args_is_help": False, **more})

    def invoke(self, ctx: click.Context) -> Any:
        """Print the help if no subcommand is given."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of the source, not of the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command = self.get_command(ctx, args[0])
        if command is None and args[0] in self.not_provided:
            raise SpecNotSupported(
                f"{ctx.command_path} {args[0]} is not provided in this version.", self.not_provided[args[0]]
            )
        if command is None and not ctx.resilient_parsing:
            raise self._unknown(ctx, args[0])
        context = ctx.find_object(CommandContext)
        if context is not None and isinstance(command, Command):
            context.failure_code = command.failure_code
        return args[0] if command else None, command, args[1:]

    def _unknown(self, ctx: click.Context, name: str) -> Exception:
        from windlass.cli.parameters.suggestions import similar

        known = self.list_commands(ctx)
        message = f"{ctx.command_path} has no command {name}."
        if name in self.command_hints:
            return HintedUsageError(message, self.command_hints[name], ctx)
        near = next((word for word in _SYNONYMS.get(name, ()) if word in known), "") or similar(name, known)
        if near:
            return HintedUsageError(message, f"Did you mean `{ctx.command_path} {near}`?", ctx)
        return click.UsageError(message, ctx)
