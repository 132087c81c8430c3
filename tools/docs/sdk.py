"""docs/reference/sdk.md: the public names of the package with their signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import windlass
from tools.docs.markdown import block, document, text_of

INTRODUCTION = """\
`import windlass` offers these names and nothing else. They have the signatures that users of `azureml.core` know. The
SDK uses the standard library only, and inside a run it is there without being installed.

[Log metrics](../how-to/metrics.md), [files and outputs](../how-to/files.md) and the [tutorial](../tutorial.md) show
them at work."""


def page() -> str:
    names = [name for name in windlass.__all__ if not name.startswith("_")]
    return document("Python SDK", INTRODUCTION, *(_section(name, getattr(windlass, name)) for name in names))


def _section(name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        return f"## {name}\n\n{text_of(thing) if callable(thing) else block(f'{name} = {thing!r}', 'python')}"
    head = f"class {name}{_signature(thing)}" if not issubclass(thing, BaseException) else f"class {name}"
    members = "\n\n".join(_member(name, member, value) for member, value in _members(thing))
    return "\n\n".join(part for part in (f"## {name}", block(head, "python"), text_of(thing), members) if part)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in inspect.getmembers_static(kind):
        is_ours = any(name in vars(base) for base in kind.__mro__ if base.__module__.startswith("windlass"))
        if is_ours and not name.startswith("_") and not isinstance(value, (type, dict, tuple, str, int)):
            yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    title = f"### {owner}.{name}"
    if isinstance(value, property):
        return f"{title}\n\n{text_of(value) or 'Property.'}"
    function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if not callable(function):
        return title
    call = block(f"{owner}.{name}{_signature(function, not isinstance(value, staticmethod))}", "python")
    return f"{title}\n\n{call}\n\n{text_of(function)}".rstrip()


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
