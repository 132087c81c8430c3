"""Declarations of `az` commands: a name, a help line, options, and a function that returns the document to print.

A command name that several generations of `az ml` share has the options of all of them. Arguments that az accepts and
click does not are rewritten before click parses them: shortened options, several values after one option, and the
backslashes of a command of several lines.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from windlass.cli.az.hints import translate
from windlass.cli.az.output import FORMATS, Printer, parse_query
from windlass.cli.command import Command, Group, HintedUsageError
from windlass.cli.context import CommandContext
from windlass.cli.errors import INTERRUPTED, OTHER
from windlass.cli.workbench import argv_secrets
from windlass.core.errors import SpecNotSupported, WindlassError

Values = dict[str, Any]
Function = Callable[[CommandContext, Values], Any]
_F = TypeVar("_F", bound=Function)


class Option(NamedTuple):
    """An option; without a `metavar` it is a flag."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    is_required: bool = False
    is_many: bool = False
    choices: tuple[str, ...] = ()
    kind: Any = None
    key: str = ""
    is_value_optional: bool = False
    is_ignored: bool = False


def option(names: str, help: str, metavar: str = "TEXT", **more: Any) -> Option:
    return Option(tuple(names.split()), help, metavar, **more)


def flag(names: str, help: str, **more: Any) -> Option:
    return Option(tuple(names.split()), help, **more)


def many(names: str, help: str, metavar: str = "KEY=VALUE", **more: Any) -> Option:
    """An option that may be repeated, and may have several values after it."""
    return option(names, help, metavar, is_many=True, **more)


def required(wanted: Option) -> Option:
    return wanted._replace(is_required=True)


def ignored(*names: str) -> tuple[Option, ...]:
    """Options of Azure that have no effect here: accepted with or without a value, with a warning."""
    return tuple(Option(tuple(each.split()), "", "TEXT", is_value_optional=True, is_ignored=True) for each in names)


COUNT = click.IntRange(min=1)
NAME = option("-n --name", "Its name.", "NAME")
PROJECT = option("--path", "The project's folder, whose config.json names the workspace.", "FOLDER", key="project")
METADATA = option("-t --output-metadata-file", "Write the answer to this file, too.", "FILE")
# Options of most commands of the CLI v1.
V1 = (PROJECT, METADATA)

GLOBAL = (
    option("-g --resource-group", "The resource group: stored with a workspace that is created, otherwise ignored."),
    option("-w --workspace-name", "The workspace. [default: that of the folder, else `default`]", "NAME"),
    option("--subscription --subscription-id", "As --resource-group."),
    option("-o --output", "The format of the answer.", "FORMAT", choices=FORMATS),
    option("--query", "Print what this JMESPath expression finds in the answer.", "JMESPATH", kind=parse_query),
    flag("-y --yes", "Do not ask."),
    flag("--no-wait", "Do not wait for the end."),
    flag("--only-show-errors", "Print no warnings."),
    flag("-v --verbose", "Accepted; --debug shows more."),
    option(argv_secrets.OPTION, "", "N", kind=int, key="secrets_fd"),
)
EVERYWHERE = "Options of every command (-g, -w, -o, --query, ...): windlass az ml -h."


class AzCommand(Command):
    """One command of `az`. Its own options hide global options of the same name."""

    optional_values: set[str]  # keys of options that may stand without their value

    def __init__(
        self,
        name: str,
        function: Function | None = None,
        help: str = "",
        options: Sequence[Option] = (),
        native: click.Command | None = None,
        takes_script: bool = False,
        **more: Any,
    ) -> None:
        """Has either a `function`, or the `native` command of windlass that does the same."""
        own: list[click.Parameter] = [_parameter(each) for each in options]
        if takes_script:
            own += [
                click.Argument(["script"], required=False),
                click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED),
            ]
            more["context_settings"] = {"allow_interspersed_args": False}
        if native is not None:
            own = [parameter for parameter in native.params if parameter.expose_value]
            more = {"context_settings": native.context_settings, **more}
        taken = {spelling for parameter in own for spelling in parameter.opts}
        rest = [_without(each, taken) for each in GLOBAL]
        self._global = [_parameter(each, hidden=True) for each in rest if each.names]
        super().__init__(name, params=[*own, *self._global], help=help, short_help=help, **more)
        self._function, self._native = function, native
        self._unused = [each for each in options if each.is_ignored]
        self.optional_values = {_key(each) for each in options if each.is_value_optional}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _ArgumentRewriter(ctx, args, self.optional_values).rewritten())

    def invoke(self, ctx: click.Context) -> int:
        context = ctx.ensure_object(CommandContext)
        values = dict(ctx.params)
        if values.get("secrets_fd") is not None and self._function is not None:
            values.update(argv_secrets.read_from_pipe(values["secrets_fd"]))
        context.terminal = printer = Printer(values.get("output"), values.get("query"))
        _choose_workspace(context, values)
        if self._native is not None:
            return self._invoke_native(ctx, context, values, printer)
        if not values.get("only_show_errors"):
            _warn(context, [each for each in self._unused if values[_key(each)] is not None])
        with contextlib.redirect_stdout(sys.stderr):  # the SDK prints its progress to stdout
            document = self._answer(context, values)
        if document is not None:
            if values.get("output_metadata_file"):
                write_json(values["output_metadata_file"], document)
            printer.json(document)
        return 0

    def _answer(self, context: CommandContext, values: Values) -> Any:
        assert self._function is not None
        try:
            return self._function(context, values)
        except WindlassError as e:
            translate(e)
            raise

    def _invoke_native(self, ctx: click.Context, context: CommandContext, values: Values, printer: Printer) -> int:
        context.json = context.json or printer.is_chosen
        names = {parameter.name for parameter in self.params if parameter not in self._global}
        assert self._native is not None and self._native.callback is not None
        code = ctx.invoke(self._native.callback, **{key: values[key] for key in values if key in names})
        return code if code in (None, 0, INTERRUPTED) else OTHER

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._unused:
            formatter.write_paragraph()
            formatter.write_text(f"Accepted, without meaning here: {_spellings(self._unused)}.")
        formatter.write_paragraph()
        formatter.write_text(EVERYWHERE)


class AzGroup(Group):
    """A group of commands of `az`."""

    def __init__(self, name: str, help: str, **more: Any) -> None:
        super().__init__(name, help=help, short_help=help, **more)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        context = parent.find_object(CommandContext) if parent is not None else None
        if context is not None:
            context.is_az = True
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        while args and is_continuation(args[0]):
            args = args[1:]
        return super().parse_args(ctx, args)

    def declare(self, name: str, help: str, *options: Option, **more: Any) -> Callable[[_F], _F]:
        """Declare a command: the function gets the values of its options and returns the answer, or None."""

        def take(function: _F) -> _F:
            self.add_command(AzCommand(name, function, help, options, **more))
            return function

        return take

    def subgroup(self, name: str, help: str) -> AzGroup:
        """Add a group to this one."""
        made = AzGroup(name, help)
        self.add_command(made)
        return made

    def add_native(self, native: click.Command, *names: str) -> None:
        """Add a native command of windlass, under its own name or others, with the global options of az."""
        for name in names or (str(native.name),):
            if isinstance(native, click.Group):
                group = self.subgroup(name, native.short_help or "")
                for each in native.commands.values():
                    group.add_native(each)
            else:
                self.add_command(AzCommand(name, help=native.short_help or "", native=native))

    def explain(self, names: str, sentence: str, code: int = OTHER) -> None:
        """Declare commands that accept any option and only print a sentence: what to use, or that nothing is needed."""
        for name in names.split():
            self.add_command(MessageCommand(name, sentence, code))


class MessageCommand(click.Command):
    """A command that accepts any arguments and prints one sentence."""

    def __init__(self, name: str, sentence: str, code: int) -> None:
        super().__init__(
            name,
            params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
            context_settings={"ignore_unknown_options": True},
            help=sentence,
            short_help="Not provided in this version." if code else "Nothing is needed here.",
        )
        self.code = code

    def invoke(self, ctx: click.Context) -> int:
        if self.code:
            raise SpecNotSupported(str(self.help))
        sys.stderr.write(f"{self.help}\n")
        return 0


def is_continuation(word: str) -> bool:
    """Whether a word is a backslash from a line's end, which the shell passed on."""
    return word.strip() == "\\"


def write_json(path: str, document: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")


def _parameter(wanted: Option, hidden: bool = False) -> click.Option:
    spellings = [*wanted.names, _key(wanted)]
    hidden = hidden or wanted.is_ignored
    if not wanted.metavar:
        return click.Option(spellings, is_flag=True, help=wanted.help, hidden=hidden)
    more: dict[str, Any] = {"is_flag": False, "flag_value": ""} if wanted.is_value_optional else {}
    kind = click.Choice(wanted.choices, case_sensitive=False) if wanted.choices else wanted.kind
    return click.Option(
        spellings,
        type=_Read(kind) if callable(kind) and not isinstance(kind, type) and not wanted.choices else kind,
        required=wanted.is_required,
        multiple=wanted.is_many,
        metavar=wanted.metavar,
        help=wanted.help,
        hidden=hidden,
        **more,
    )


class _Read(click.ParamType[Any]):
    """A parameter type whose values a function parses, which raises ValueError."""

    name = "text"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as e:
            self.fail(str(e), param, ctx)


def _key(wanted: Option) -> str:
    longest = next((name for name in wanted.names if name.startswith("--")), wanted.names[0])
    return wanted.key or longest.lstrip("-").replace("-", "_")


def _without(wanted: Option, taken: set[str]) -> Option:
    """A global option without the names that the command's own options have."""
    return wanted._replace(names=tuple(name for name in wanted.names if name not in taken), key=_key(wanted))


def _spellings(options: Sequence[Option]) -> str:
    return ", ".join(each.names[-1] for each in options)


def _warn(context: CommandContext, given: Sequence[Option]) -> None:
    if given:
        has = "has" if len(given) == 1 else "have"
        context.terminal.note(f"WARNING: {_spellings(given)} {has} no meaning here.")


def _choose_workspace(context: CommandContext, values: Values) -> None:
    """Choose the workspace of -w, or of the project's folder. A private server creates it if it does not exist."""
    from windlass.client.workspace import config_file
    from windlass.client.workspace.workspace import Workspace

    named = None
    if values.get("workspace_name"):
        named = config_file.WorkspaceReference(
            values.get("subscription") or "", values.get("resource_group") or "", values["workspace_name"]
        )
    elif values.get("project") and not context.workspace:
        found = config_file.find(values["project"])
        named = config_file.read(found) if found is not None else None
    if named is not None:
        context.export_options()
        context.workspace = Workspace(*named).name


class _ArgumentRewriter:
    """Rewrites the arguments of an az command line for click."""

    def __init__(self, ctx: click.Context, words: Sequence[str], optional_values: set[str]) -> None:
        self._ctx = ctx
        self._rest = list(words)
        self._optional_values = optional_values
        options = [each for each in ctx.command.get_params(ctx) if isinstance(each, click.Option)]
        self._options = {name: each for each in options for name in (*each.opts, *each.secondary_opts)}

    def rewritten(self) -> list[str]:
        found: list[str] = []
        while self._rest:
            word = self._rest.pop(0)
            if is_continuation(word):
                continue
            if word == "--" or (not word.startswith("-") and not self._ctx.allow_interspersed_args):
                return [*found, word, *self._rest]  # the script and its arguments
            found += self._option(word) if word.startswith("-") else [word]
        return found

    def _option(self, word: str) -> list[str]:
        name, equals, value = word.partition("=")
        if word.startswith("--") and name not in self._options:
            name = self._expand_prefix(name)
            word = name + equals + value
        known = self._options.get(name) or self._options.get(self._last_of(word))
        if known is None or equals or known.is_flag or self._stands_alone(known):
            return [word]
        if known.multiple:
            return [part for value in self._values() for part in (name, value)] or [word]
        return [word, self._rest.pop(0)] if self._rest else [word]

    def _last_of(self, word: str) -> str:
        """The last of several short options in one word: only it may have a value, after the word."""
        letters = [f"-{letter}" for letter in word[1:]] if not word.startswith("--") else []
        flags = [self._options[letter].is_flag for letter in letters if letter in self._options]
        return letters[-1] if letters and len(flags) == len(letters) and all(flags[:-1]) else ""

    def _stands_alone(self, known: click.Option) -> bool:
        """Whether an option whose value is optional has none."""
        return known.name in self._optional_values and (not self._rest or self._rest[0].startswith("-"))

    def _values(self) -> list[str]:
        values: list[str] = []
        while self._rest and not (values and self._rest[0].startswith("-")):
            word = self._rest.pop(0)
            values += [] if is_continuation(word) else [word]
        return values

    def _expand_prefix(self, name: str) -> str:
        """Expand the first letters of an option to its name."""
        meant = {id(option): spelling for spelling, option in self._options.items() if spelling.startswith(name)}
        if len(meant) > 1:
            raise HintedUsageError(
                f"{name} could be any of {', '.join(sorted(meant.values()))}.", "Type more of it.", self._ctx
            )
        return next(iter(meant.values()), name)
