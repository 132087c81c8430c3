"""Write what `yaml` reads: block style, keys in their order, quotes where a plain word would mean another thing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from windlass.client.yaml import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last of the dangerous ones are truth values to readers of YAML 1.1.
_PLAIN = re.compile(r"[A-Za-z0-9_./\\(~+^$;-][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]*\Z")
_UNSEEN = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")
_DANGEROUS = re.compile(r": |:\Z| #|\A- |\A-\Z|\A---|\A\.\.\.|\s\Z|\A(?i:y|n|yes|no|on|off)\Z")


def dumps(value: Any) -> str:
    """A document; values are maps, lists, texts, numbers, booleans and None."""
    return "".join(f"{line}\n" for line in _block(value, 0))


def _block(value: Any, indent: int) -> Iterator[str]:
    space = " " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{space}{_word(key)}:", item, indent)
    elif isinstance(value, (list, tuple)) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield space + _word(value)


def _entry(head: str, item: Any, indent: int) -> Iterator[str]:
    if _is_collection(item):
        yield head
        yield from _block(item, indent + (0 if isinstance(item, (list, tuple)) else 2))
    else:
        word = _word(item)
        yield f"{head} {word}" if word else head


def _item(item: Any, indent: int) -> Iterator[str]:
    space = " " * indent
    if not _is_collection(item):
        yield f"{space}- {_word(item)}"
        return
    for i, line in enumerate(_block(item, indent + 2)):
        yield f"{space}- {line[indent + 2 :]}" if i == 0 else line


def _is_collection(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and bool(value)


def _word(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    text = str(value)
    is_plain = _PLAIN.match(text) and not _DANGEROUS.search(text) and isinstance(scalar(text), str)
    if is_plain:
        return text
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))


def _number(value: float) -> str:
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # readers of YAML 1.1 need the point
    return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)
