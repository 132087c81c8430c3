"""Declaring commands of `az`: a name, one line of help, the options and a function that returns the answer's document.

A command name that several generations of `az ml` share has the options of all of them. What az's parser accepts and
click's does not is rewritten before click reads it: shortened options, several values after one option, and the
backslashes of a command that went over several lines.
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
from windlass.cli.command import Command, Group, Mistake
from windlass.cli.context import Call
from windlass.cli.errors import INTERRUPTED, OTHER
from windlass.cli.workbench import argv_secrets
from windlass.core.errors import SpecNotSupported, WindlassError

Values = dict[str, Any]
Function = Callable[[Call, Values], Any]
_F = TypeVar("_F", bound=Function)


class Option(NamedTuple):
    """An option by its names; one without a `metavar` is a flag."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    is_required: bool = False
    is_many: bool = False
    choices: tuple[str, ...] = ()
    kind: Any = None
    key: str = ""
    is_value_optional: bool = False
    has_meaning: bool = True


def option(names: str, help: str, metavar: str = "TEXT", **more: Any) -> Option:
    return Option(tuple(names.split()), help, metavar, **more)


def flag(names: str, help: str, **more: Any) -> Option:
    return Option(tuple(names.split()), help, **more)


def many(names: str, help: str, metavar: str = "KEY=VALUE", **more: Any) -> Option:
    """May be repeated, and may have several values after it."""
    return option(names, help, metavar, is_many=True, **more)


def required(wanted: Option) -> Option:
    return wanted._replace(is_required=True)


def meaningless(*names: str) -> tuple[Option, ...]:
    """Options of Azure that have nothing to act on here: with or without a value, with a warning where one is given."""
    return tuple(Option(tuple(each.split()), "", "TEXT", is_value_optional=True, has_meaning=False) for each in names)


COUNT = click.IntRange(min=1)
NAME = option("-n --name", "Its name.", "NAME")
PROJECT = option("--path", "The project's folder, whose config.json names the workspace.", "FOLDER", key="project")
METADATA = option("-t --output-metadata-file", "Write the answer to this file, too.", "FILE")
# What most commands of the CLI v1 have.
V1 = (PROJECT, METADATA)

GLOBAL = (
    option("-g --resource-group", "The resource group: kept with a workspace that is made, else without meaning."),
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
    """One command of `az`. Its own options go before the ones of every command where they have the same name."""

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
        """Either a `function`, or the `native` command of windlass that does the same."""
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
        self._unused = [each for each in options if not each.has_meaning]
        self.optional_values = {_key(each) for each in options if each.is_value_optional}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _Words(ctx, args, self.optional_values).rewritten())

    def invoke(self, ctx: click.Context) -> int:
        call = ctx.ensure_object(Call)
        values = dict(ctx.params)
        if values.get("secrets_fd") is not None and self._function is not None:
            values.update(argv_secrets.received(values["secrets_fd"]))
        call.terminal = printer = Printer(values.get("output"), values.get("query"))
        _choose_workspace(call, values)
        if self._native is not None:
            return self._invoke_native(ctx, call, values, printer)
        if not values.get("only_show_errors"):
            _warn(call, [each for each in self._unused if values[_key(each)] is not None])
        with contextlib.redirect_stdout(sys.stderr):  # where the SDK says what it does
            document = self._answer(call, values)
        if document is not None:
            if values.get("output_metadata_file"):
                write_json(values["output_metadata_file"], document)
            printer.json(document)
        return 0

    def _answer(self, call: Call, values: Values) -> Any:
        assert self._function is not None
        try:
            return self._function(call, values)
        except WindlassError as e:
            translate(e)
            raise

    def _invoke_native(self, ctx: click.Context, call: Call, values: Values, printer: Printer) -> int:
        call.json = call.json or printer.is_chosen
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
        call = parent.find_object(Call) if parent is not None else None
        if call is not None:
            call.is_az = True
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

    def inner(self, name: str, help: str) -> AzGroup:
        """A group inside of this one."""
        made = AzGroup(name, help)
        self.add_command(made)
        return made

    def adopt(self, native: click.Command, *names: str) -> None:
        """Take a native command as it is, under its own name or others; with az's options on top."""
        for name in names or (str(native.name),):
            if isinstance(native, click.Group):
                inner = self.inner(name, native.short_help or "")
                for each in native.commands.values():
                    inner.adopt(each)
            else:
                self.add_command(AzCommand(name, help=native.short_help or "", native=native))

    def say(self, names: str, sentence: str, code: int = OTHER) -> None:
        """Commands that only say what does it here, or that nothing is needed. They take any options."""
        for name in names.split():
            self.add_command(Sentence(name, sentence, code))


class Sentence(click.Command):
    """A command that takes anything and says one sentence."""

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
    """A backslash at the end of a line that the shell passed on."""
    return word.strip() == "\\"


def write_json(path: str, document: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")


def _parameter(wanted: Option, hidden: bool = False) -> click.Option:
    spellings = [*wanted.names, _key(wanted)]
    hidden = hidden or not wanted.has_meaning
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
    """A value that a function reads; it raises ValueError."""

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
    """A global option under the names that the command's own options leave."""
    return wanted._replace(names=tuple(name for name in wanted.names if name not in taken), key=_key(wanted))


def _spellings(options: Sequence[Option]) -> str:
    return ", ".join(each.names[-1] for each in options)


def _warn(call: Call, given: Sequence[Option]) -> None:
    if given:
        has = "has" if len(given) == 1 else "have"
        call.terminal.note(f"WARNING: {_spellings(given)} {has} no meaning here.")


def _choose_workspace(call: Call, values: Values) -> None:
    """The workspace of -w or of the project's folder. On a private server one that is not there yet is made."""
    from windlass.client.workspace import config_file
    from windlass.client.workspace.workspace import Workspace

    named = None
    if values.get("workspace_name"):
        named = config_file.Named(
            values.get("subscription") or "", values.get("resource_group") or "", values["workspace_name"]
        )
    elif values.get("project") and not call.workspace:
        found = config_file.find(values["project"])
        named = config_file.read(found) if found is not None else None
    if named is not None:
        call.point()
        call.workspace = Workspace(*named).name


class _Words:
    """The words of a command line, rewritten for click."""

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
                return [*found, word, *self._rest]  # the script, and what is the script's
            found += self._option(word) if word.startswith("-") else [word]
        return found

    def _option(self, word: str) -> list[str]:
        name, equals, value = word.partition("=")
        if word.startswith("--") and name not in self._options:
            name = self._whole(name)
            word = name + equals + value
        known = self._options.get(name) or self._options.get(self._last_of(word))
        if known is None or equals or known.is_flag or self._stands_alone(known):
            return [word]
        if known.multiple:
            return [part for value in self._values() for part in (name, value)] or [word]
        return [word, self._rest.pop(0)] if self._rest else [word]

    def _last_of(self, word: str) -> str:
        """Of several short flags in one word, the last one may have a value after the word."""
        letters = [f"-{letter}" for letter in word[1:]] if not word.startswith("--") else []
        flags = [self._options[letter].is_flag for letter in letters if letter in self._options]
        return letters[-1] if letters and len(flags) == len(letters) and all(flags[:-1]) else ""

    def _stands_alone(self, known: click.Option) -> bool:
        """Whether an option that needs no value is followed by none."""
        return known.name in self._optional_values and (not self._rest or self._rest[0].startswith("-"))

    def _values(self) -> list[str]:
        values: list[str] = []
        while self._rest and not (values and self._rest[0].startswith("-")):
            word = self._rest.pop(0)
            values += [] if is_continuation(word) else [word]
        return values

    def _whole(self, name: str) -> str:
        """The option that is meant by the first letters of its name."""
        meant = {id(option): spelling for spelling, option in self._options.items() if spelling.startswith(name)}
        if len(meant) > 1:
            raise Mistake(f"{name} could be any of {', '.join(sorted(meant.values()))}.", "Type more of it.", self._ctx)
        return next(iter(meant.values()), name)
