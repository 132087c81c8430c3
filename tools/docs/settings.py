"""docs/reference/settings.md: what can be set, from the settings' own model."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from types import NoneType

from pydantic.fields import FieldInfo

from tools.docs.markdown import code, document, table
from windlass.server.settings import Settings, Tunable

INTRODUCTION = """\
A setting is taken from an argument (`windlass server run --port 8123`), else from the environment
(`WINDLASS_PORT=8123`), else from `settings.json` in the home, else it has its default. The home is `WINDLASS_HOME`,
else `~/.windlass`.

Those of the first table can also be changed while the server runs: `windlass settings keep_logs_days=90`, or
`PATCH /api/v1/settings`; `null` goes back to the default. What has `keep_` is in days after the thing was last needed;
without a number it is kept for ever. [Retention](../how-to/retention.md) says how they play together."""


def page() -> str:
    running = {name: field for name, field in Settings.model_fields.items() if name in Tunable.model_fields}
    fixed = {name: field for name, field in Settings.model_fields.items() if name not in Tunable.model_fields}
    return document(
        "Settings", INTRODUCTION, "## While the server runs", _table(running), "## When it starts", _table(fixed)
    )


def _table(fields: dict[str, FieldInfo]) -> str:
    rows = [
        (
            code(name),
            code(f"WINDLASS_{name.upper()}"),
            _kind(field.annotation),
            _default(name, field),
            field.description or "",
        )
        for name, field in fields.items()
    ]
    return table(["setting", "variable", "value", "default", "meaning"], rows)


def _kind(annotation: object) -> str:
    options = [option for option in typing.get_args(annotation) or (annotation,) if option is not NoneType]
    first = typing.get_origin(annotation) or options[0]
    if first is tuple:
        return "list, with `,` between"
    words = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}
    word = words.get(options[0], "number") if len(options) == 1 else "text"
    return f"{word}, or null" if NoneType in typing.get_args(annotation) else word


# Defaults that depend on the machine or on another setting.
_DEPENDS = {
    "home": "`~/.windlass`",
    "local_slots": "the number of cores, at least 4",
    "database": "SQLite in the home",
    "files": "`files` in the home",
    "key_file": "`keys/secrets.key` in the home",
}


def _default(name: str, field: FieldInfo) -> str:
    if name in _DEPENDS:
        return _DEPENDS[name]
    if field.default == ():
        return "none"
    return "null" if field.default is None else code(json.dumps(field.default))
