"""docs/reference/sdk.md: the public names of the package with their signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import windlass
from tools.docs.markdown import block, code, document, text_of

INTRODUCTION = """\
`import windlass` offers these names and nothing else. They have the signatures that users of `azureml.core` know. The
SDK uses the standard library only, and inside a run it is there without being installed.

[Log metrics](../how-to/metrics.md), [files and outputs](../how-to/files.md) and the [tutorial](../tutorial.md) show
them at work."""

MEMBERS = (property, staticmethod, classmethod, FunctionType)


def page() -> str:
    names = [name for name in windlass.__all__ if not name.startswith("_")]
    return document("Python SDK", INTRODUCTION, *(_section(name, getattr(windlass, name)) for name in names))


def _section(name: str, thing: Any) -> str:
    if inspect.isfunction(thing):
        return f"## {name}\n\n{block(name + _signature(thing), 'python')}\n\n{text_of(thing)}"
    if not inspect.isclass(thing):
        return f"## {name}\n\n{block(f'{name} = {thing!r}', 'python')}"
    if issubclass(thing, BaseException):
        return f"## {name}\n\n{text_of(thing)}"
    members = list(_members(thing))
    methods = [_method(name, member, value) for member, value in members if not isinstance(value, property)]
    head = block(f"class {name}{_signature(thing)}", "python")
    parts = (f"## {name}", head, text_of(thing), _kinship(thing), _properties(members), *methods)
    return "\n\n".join(part for part in parts if part)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class that its documented base classes do not have: properties and methods."""
    inherited = {name for base in _public_bases(kind) for name in dir(base)}
    for name, value in inspect.getmembers_static(kind):
        is_ours = any(name in vars(base) for base in kind.__mro__ if base.__module__.startswith("windlass"))
        is_new = name in vars(kind) or name not in inherited
        if is_ours and is_new and not name.startswith("_") and isinstance(value, MEMBERS):
            yield name, value


def _public_bases(kind: type) -> list[type]:
    public = [getattr(windlass, name) for name in windlass.__all__]
    return [base for base in kind.__mro__[1:] if base in public]


def _kinship(kind: type) -> str:
    bases = ", ".join(f"[{base.__name__}](#{base.__name__.lower()})" for base in _public_bases(kind))
    return f"It has all that {bases} has." if bases else ""


def _properties(members: list[tuple[str, Any]]) -> str:
    names = []
    for name, value in members:
        if isinstance(value, property):
            words = text_of(value).rstrip(".")
            names.append(f"{code(name)} ({words[0].lower()}{words[1:]})" if words else code(name))
    return f"Properties: {', '.join(names)}." if names else ""


def _method(owner: str, name: str, value: Any) -> str:
    function = value if isinstance(value, FunctionType) else value.__func__
    call = block(f"{owner}.{name}{_signature(function, not isinstance(value, staticmethod))}", "python")
    return f"### {owner}.{name}\n\n{call}\n\n{text_of(function)}".rstrip()


def _signature(thing: Any, is_bound: bool = False) -> str:
    """As a caller sees it: without self, types as they are written, long ones with a parameter to the line."""
    signature = inspect.signature(thing)
    texts = [_parameter(parameter) for parameter in list(signature.parameters.values())[1 if is_bound else 0 :]]
    answer = _annotation(signature.return_annotation)
    word = f" -> {answer}" if answer not in ("", "None") else ""
    line = f"({', '.join(texts)}){word}"
    return line if len(line) < 90 else "(\n    " + ",\n    ".join(texts) + f",\n){word}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    kind = _annotation(parameter.annotation)
    text = stars + parameter.name + (f": {kind}" if kind else "")
    if parameter.default is inspect.Parameter.empty:
        return text
    return f"{text} = {parameter.default!r}" if kind else f"{text}={parameter.default!r}"


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return str(annotation).strip("'\"") if isinstance(annotation, str) else inspect.formatannotation(annotation)
