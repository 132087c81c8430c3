"""Command-line options for the settings and credentials of a kind, generated from their JSON schemas.

`GET /kinds` has the schemas. A field may configure its option under "cli" (windlass.drivers.base.shown_as_option).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from windlass.cli.compute import credentials
from windlass.cli.parameters import key_values
from windlass.cli.parameters.types import FILE, TARGET
from windlass.core.errors import InvalidRequest
from windlass.core.sanitize import one_line

Schema = Mapping[str, Any]
Values = Mapping[str, Any]
_TYPES: dict[str, Any] = {"string": click.STRING, "integer": click.INT, "number": click.FLOAT}
_RANGES: dict[str, Any] = {"integer": click.IntRange, "number": click.FloatRange}


class OptionNames:
    """The option names of one command. The first option that claims a name gets it."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {"-h", "--help", *taken}

    def claim(self, wanted: Sequence[str], instead: str) -> list[str]:
        """Take those of the wanted names that are free; `instead` if none is."""
        free = [name for name in wanted if not self._taken.intersection(name.split("/"))] or [instead]
        self._taken.update(part for name in free for part in name.split("/"))
        return free


class Setting:
    """A field of a kind's configuration, as options of a command."""

    def __init__(self, name: str, field: _Field, names: OptionNames, is_required: bool, is_change: bool) -> None:
        self.name = name
        self._field = field
        self._key = f"config_{name}"
        self._flags = {f"{self._key}_{i}": value for i, value in enumerate(field.flags)}
        self._is_change = is_change
        self.options = [] if field.is_hidden else [self._option(names, is_required)]
        for key, value in self._flags.items():
            spelled = names.claim(field.flags[value], f"--{_dashed(name)}-{_dashed(value)}")
            text = field.flag_texts.get(value) or f"{field.description} This one: {value}.".lstrip()
            self.options.append(click.Option([*spelled, key], is_flag=True, help=text))

    @property
    def has_flags(self) -> bool:
        return bool(self._flags)

    @property
    def is_prominent(self) -> bool:
        """Whether it is required, or has a one-letter option."""
        names = [name for option in self.options for name in option.opts]
        return any(option.required for option in self.options) or any(not name.startswith("--") for name in names)

    def read(self, values: Values) -> dict[str, Any]:
        """The field with its value; empty if none of its options is given."""
        flagged = [value for key, value in self._flags.items() if values.get(key)]
        given = values.get(self._key)
        if len(flagged) + (given is not None and given != ()) > 1:
            raise click.UsageError(f"{self.name.replace('_', ' ').capitalize()} is set twice; one is enough.")
        if flagged:
            return {self.name: flagged[0]}
        if given is None or given == ():
            return {}
        return {self.name: self._field.parse(given, self.options[0].opts[0])}

    def _option(self, names: OptionNames, is_required: bool) -> click.Option:
        field, plain = self._field, f"--{_dashed(self.name)}"
        wanted = field.options or [plain]
        more: dict[str, Any] = {"type": field.param_type(), "metavar": field.metavar, "multiple": field.is_many}
        if field.is_boolean:
            is_pair = self._is_change or field.default is not False
            wanted = [_pair(name) if is_pair else name.partition("/")[0] for name in wanted]
            more = {"default": None, "is_flag": True}
        instead = f"--config-{_dashed(self.name)}"
        return click.Option(
            [*names.claim(wanted, instead), self._key],
            required=is_required,
            help=field.description if self._is_change else field.help(),
            **more,
        )


class Secret:
    """A field of a kind's credentials. Its value comes from a file, standard input or a prompt, never from argv."""

    def __init__(self, name: str, field: _Field, names: OptionNames, is_required: bool) -> None:
        self.name = name
        self.is_required = is_required
        self.label = name.replace("_", " ")
        self._is_file = field.is_file
        self._title = field.title
        self._key = f"secret_{name}"
        self.options = [] if field.is_hidden else [*self._make(field, names)]

    def _make(self, field: _Field, names: OptionNames) -> Iterable[click.Option]:
        base = field.options or [f"--{_dashed(self.name)}"]
        instead = f"--credential-{_dashed(self.name)}"
        file: dict[str, Any] = {"type": FILE, "metavar": field.metavar or "FILE"}
        if self._is_file:
            wanted = field.options or [f"--{_dashed(self.name.removesuffix('_file'))}-file"]
            spelled = names.claim(wanted, f"{instead}-file")
            yield click.Option([*spelled, f"{self._key}_file"], help=field.description, **file)
            return
        long = [name for name in base if name.startswith("--")] or [instead]
        spelled = names.claim([f"{name}-file" for name in long], f"{instead}-file")
        text = f"{field.description} Read from FILE." if field.description else f"Read the {self.label} from FILE."
        yield click.Option([*spelled, f"{self._key}_file"], help=text, **file)
        spelled = names.claim([f"{name}-stdin" for name in long], f"{instead}-stdin")
        yield click.Option([*spelled, f"{self._key}_stdin"], is_flag=True, help="The same, from standard input.")
        spelled = names.claim([f"--ask-{name[2:]}" for name in long], f"--ask-{instead[2:]}")
        yield click.Option([*spelled, f"{self._key}_ask"], is_flag=True, help="The same, asked for at the terminal.")

    def read(self, values: Values) -> str | None:
        """The value from a file or from standard input; None if it is not given there."""
        path, is_stdin, is_asked = (values.get(f"{self._key}_{end}") for end in ("file", "stdin", "ask"))
        if sum((path is not None, bool(is_stdin), bool(is_asked))) > 1:
            raise InvalidRequest(f"The {self.label} comes from several places; one is enough.", self.to_add())
        if path is None and not is_stdin:
            return None
        if self._is_file:
            return credentials.require(credentials.content(str(path), self.label), self.label)
        return credentials.first_line(self.label, path)

    def is_stdin(self, values: Values) -> bool:
        return bool(values.get(f"{self._key}_stdin"))

    def is_asked(self, values: Values) -> bool:
        return bool(values.get(f"{self._key}_ask"))

    def ask(self, location: str) -> str:
        """Prompt for the value at the terminal."""
        of = f"{self._title}: " if self._title else f"{self.label.capitalize()} of {location}: "
        return credentials.require(credentials.ask_secret(of), self.label)

    def to_add(self) -> str:
        """The options that give the value without a prompt, for hints."""
        spelled = [option.opts[0] for option in self.options if not str(option.name).endswith("_ask")]
        return " or ".join(f"{name} FILE" if name.endswith("-file") else name for name in spelled)


def settings(
    schema: Schema, names: OptionNames, only: Iterable[str] | None = None, is_change: bool = False
) -> list[Setting]:
    """The settings of a configuration schema, or `only` these. In a change none is required."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    required = set() if is_change else set(schema.get("required") or ())
    kept = [name for name in properties if only is None or name in set(only)]
    fields = {name: _Field(name, properties[name], schema.get("$defs") or {}) for name in kept}
    return [Setting(name, field, names, name in required, is_change) for name, field in fields.items()]


def secrets(schema: Schema | None, names: OptionNames) -> dict[str, Secret]:
    """The fields of a credentials schema by name."""
    properties: Mapping[str, Schema] = (schema or {}).get("properties") or {}
    defs, required = (schema or {}).get("$defs") or {}, (schema or {}).get("required") or ()
    fields = {name: _Field(name, field, defs) for name, field in properties.items()}
    return {name: Secret(name, field, names, name in required) for name, field in fields.items()}


def read_settings(found: Iterable[Setting], values: Values) -> dict[str, Any]:
    return {name: value for setting in found for name, value in setting.read(values).items()}


def read_secrets(found: Mapping[str, Secret], values: Values) -> dict[str, str]:
    """Read the credentials that are given as files or on standard input, which can have only one."""
    by_stdin = [secret for secret in found.values() if secret.is_stdin(values)]
    if len(by_stdin) > 1:
        raise InvalidRequest(
            f"Standard input can have only one of {' and '.join(secret.label for secret in by_stdin)}.",
            f"Name a file: {by_stdin[-1].to_add()}",
        )
    given = {name: secret.read(values) for name, secret in found.items()}
    return {name: value for name, value in given.items() if value is not None}


def to_ask(found: Mapping[str, Secret], given: Mapping[str, str], values: Values) -> list[Secret]:
    """The credentials to be asked for: those that --ask-NAME names, and those that are required and not given."""
    return [
        secret
        for name, secret in found.items()
        if secret.is_asked(values) or (secret.is_required and name not in given)
    ]


class _Field:
    """One field of a JSON schema, as far as options need it."""

    def __init__(self, name: str, schema: Schema, defs: Mapping[str, Schema]) -> None:
        shapes = [_resolved(each, defs) for each in (schema.get("anyOf") or schema.get("oneOf") or [schema])]
        kinds = [shape for shape in shapes if shape.get("type") != "null"]
        self._shape = kinds[0] if len(kinds) == 1 else {}
        self._is_nullable = len(kinds) < len(shapes)
        self._defs = defs
        shown = schema.get("cli") or {}
        self.options: list[str] = [option for option in shown.get("options") or () if option]
        self.is_hidden = "" in (shown.get("options") or ())
        flags: Mapping[str, Sequence[str]] = shown.get("flags") or {}
        self.flags = {value: [word for word in words if word.startswith("-")] for value, words in flags.items()}
        self.flag_texts = {value: " ".join(word for word in words if word[:1] != "-") for value, words in flags.items()}
        self.is_file = bool(shown.get("is_file"))
        self._metavar = shown.get("metavar") or ""
        self.description = one_line(str(schema.get("description") or ""))
        self.default = schema.get("default")
        generated = name.replace("_", " ").title()  # pydantic's default title
        self.title = "" if schema.get("title") in (None, generated) else str(schema["title"])

    @property
    def is_boolean(self) -> bool:
        return self._shape.get("type") == "boolean"

    @property
    def is_many(self) -> bool:
        return self._shape.get("type") in ("array", "object")

    @property
    def metavar(self) -> str | None:
        if self._metavar or self.is_boolean:
            return self._metavar or None
        if self.is_file:
            return "FILE"
        return "KEY=VALUE" if self._shape.get("type") == "object" else None

    def param_type(self) -> Any:
        if self.is_file or self._metavar == "FILE":
            return FILE
        if self._metavar == "TARGET":
            return TARGET
        if "|" in self._metavar:  # the option's own names for the values of the schema
            return click.Choice(self._metavar.split("|"), case_sensitive=False)
        items = self._shape.get("items") or {}
        return _param_type(_resolved(items, self._defs) if self._shape.get("type") == "array" else self._shape)

    def help(self) -> str:
        default = self.default
        if default in (None, False, "", [], {}) or self.is_boolean:
            return self.description
        shown = ", ".join(map(str, default)) if isinstance(default, list) else default
        return f"{self.description} [default: {shown}]".strip()

    def parse(self, given: Any, option: str) -> Any:
        """Convert a value for the API. An empty text clears a field that may be null."""
        if self.is_file:
            return credentials.content(given, option)
        if given == "" and self._is_nullable:
            return None
        if self._shape.get("type") == "object":
            return key_values.parse(given, option)
        if self.is_many:
            return list(given)
        return next((value for value in _choices(self._shape) if str(value) == given), given)


def _param_type(shape: Schema) -> Any:
    choices = _choices(shape)
    if choices:
        return click.Choice([str(value) for value in choices])
    kind = str(shape.get("type"))
    low, high = shape.get("minimum"), shape.get("maximum")
    above, below = shape.get("exclusiveMinimum"), shape.get("exclusiveMaximum")
    if kind in _RANGES and any(bound is not None for bound in (low, high, above, below)):
        return _RANGES[kind](
            min=low if above is None else above,
            max=high if below is None else below,
            min_open=above is not None,
            max_open=below is not None,
        )
    return _TYPES.get(kind, click.STRING)


def _choices(shape: Schema) -> list[Any]:
    return [shape["const"]] if "const" in shape else list(shape.get("enum") or ())


def _resolved(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Resolve a reference to a definition."""
    if "$ref" in schema:
        return {**defs[schema["$ref"].rpartition("/")[2]], **schema}
    if len(schema.get("allOf") or ()) == 1:
        return {**_resolved(schema["allOf"][0], defs), **schema}
    return schema


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _pair(name: str) -> str:
    """The option that sets a boolean, and the one that unsets it."""
    return name if "/" in name or not name.startswith("--") else f"{name}/--no-{name[2:]}"
