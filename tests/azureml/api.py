"""Azure's signatures (data/azureml-api.csv), and a comparison with those here."""

from __future__ import annotations

import ast
import csv
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter
from typing import Any

from tools.azureml_coverage import DATA, NOTHING
from windlass.client.config.section import Section

# What the names stand for that Azure's signatures have as defaults.
CONSTANTS: dict[str, Any] = {
    "CPU": "cpu",
    "KeyVaultContentType.not_provided": "application/NotProvided",
    "MAX_DURATION_SECONDS_DEFAULT": 2592000,
    "PYTHON_DEFAULT_VERSION": "3.10.18",
    "ViewType.ActiveOnly": "ActiveOnly",
    "_DEFAULT_SHM_SIZE": "2g",
    "logging.WARNING": 30,
}
KINDS = {"staticmethod": staticmethod, "classmethod": classmethod}


@dataclass(frozen=True)
class Row:
    """A class, or a member of a class or module, as Azure has it."""

    module: str
    owner: str
    member: str
    kind: str
    parameters: str

    @property
    def name(self) -> str:
        return ".".join(part for part in (self.owner, self.member) if part)


def rows() -> list[Row]:
    with (DATA / "azureml-api.csv").open(encoding="utf-8") as file:
        return [Row(r["module"], r["class"], r["member"], r["kind"], r["params"]) for r in csv.DictReader(file)]


def implemented() -> Iterator[tuple[Row, Any]]:
    """The rows of classes and functions that are here and do not only stand for a name."""
    for row in rows():
        try:
            thing = getattr(import_module(row.module), row.owner or row.member, None)
        except ModuleNotFoundError:
            continue
        if thing is not None and not hasattr(thing, "__not_provided__"):
            yield row, thing


def differences(row: Row, thing: Any) -> list[str]:
    """What is not as Azure has it, each as a line."""
    if not row.owner:
        return _compare(row.parameters, thing, 0)
    if row.kind == "class" or (row.member == "__new__" and thing.__new__ is object.__new__):
        return []
    found = inspect.getattr_static(thing, row.member, NOTHING)
    if row.kind == "property":
        is_there = found is not NOTHING or (issubclass(thing, Section) and hasattr(thing._with_defaults(), row.member))
        return [] if is_there else ["is missing"]
    if found is NOTHING:
        return ["is missing"]
    if row.kind == "attribute":
        return _compare_value(row.parameters, getattr(thing, row.member))
    if row.member != "__new__" and isinstance(found, (staticmethod, classmethod)) != (row.kind in KINDS):
        return [f"is no {row.kind}"]
    skipped = 0 if isinstance(found, staticmethod) and row.member != "__new__" else 1
    return _compare(row.parameters, getattr(found, "__func__", found), skipped)


def _compare_value(text: str, ours: Any) -> list[str]:
    try:
        theirs = ast.literal_eval(text)
    except SyntaxError:  # an expression, cut off
        return []
    value = getattr(ours, "value", ours)
    return [] if (value, type(value)) == (theirs, type(theirs)) else [f"is {ours!r}, not {text}"]


def _compare(parameters: str, function: Any, skipped: int) -> list[str]:
    theirs = _parsed(parameters)
    ours = list(inspect.signature(function).parameters.values())[skipped:]
    names = {parameter.name: parameter for parameter in ours}
    found = [f"{p.name}: is missing" for p in theirs if p.name not in names and p.kind is not Parameter.VAR_KEYWORD]
    order = [p.name for p in theirs if p.name in names]
    if order != [p.name for p in ours if p.name in order]:
        found.append(f"has another order: {list(names)}")
    for wanted in theirs:
        given = names.get(wanted.name)
        if given is not None and (given.kind, _shown(given)) != (wanted.kind, _shown(wanted)):
            found.append(f"{wanted.name}: is {given.kind.description} {_shown(given)}, not {_shown(wanted)}")
    for extra in (p for p in ours if p.name not in {wanted.name for wanted in theirs}):
        if extra.kind is not Parameter.KEYWORD_ONLY:
            found.append(f"{extra.name}: is ours, and not by keyword only")
    # Keywords that Azure takes without naming them may be named here.
    spells_out = any(p.kind is Parameter.KEYWORD_ONLY and p.name not in order for p in ours)
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in ours)
    if any(p.kind is Parameter.VAR_KEYWORD for p in theirs) and not (takes_any or spells_out):
        found.append("takes no keywords")
    return found


def _shown(parameter: Parameter) -> str:
    """The default with its type: 22 is not "22", and True is not 1."""
    if parameter.default is Parameter.empty:
        return "without a default"
    default = getattr(parameter.default, "value", parameter.default)
    return repr(str(default) if isinstance(default, str) else default)


def _parsed(parameters: str) -> list[Parameter]:
    function = ast.parse(f"def function({parameters}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    found = [_parameter(*pair, Parameter.POSITIONAL_OR_KEYWORD) for pair in zip(plain, defaults, strict=True)]
    if given.vararg:
        found.append(Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL))
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found += [_parameter(*pair, Parameter.KEYWORD_ONLY) for pair in keywords]
    if given.kwarg:
        found.append(Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


def _parameter(argument: ast.arg, default: ast.expr | None, kind: Any) -> Parameter:
    return Parameter(argument.arg, kind, default=Parameter.empty if default is None else _value(default))


def _value(default: ast.expr) -> Any:
    text = ast.unparse(default)
    if text == "Audience.ARM":
        return "ARM"
    return CONSTANTS[text] if text in CONSTANTS else ast.literal_eval(default)
