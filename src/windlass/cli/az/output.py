"""The output of `az` commands: one document, after a JMESPath query, as JSON, YAML, a table or tab-separated values.

The formats are those of az: JSON and YAML have sorted keys, a table leaves out nested values and the keys id, type and
etag, and nothing is printed if a query finds nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windlass.cli.output.table import cell_width
from windlass.cli.output.terminal import Terminal, finite
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

FORMATS = ("json", "jsonc", "none", "table", "tsv", "yaml", "yamlc")
_NOT_IN_TABLES = ("id", "type", "etag")
_PADDING = 2


class Printer(Terminal):
    """A terminal whose json() prints in the format that was chosen."""

    def __init__(self, output: str | None = None, query: ParsedResult | None = None) -> None:
        super().__init__()
        self.stream = sys.stdout
        self.is_chosen = output is not None or query is not None
        self._format = (output or "json").rstrip("c")
        self._query = query

    def json(self, document: Any) -> None:
        is_query = self._query is not None
        found = _search(self._query, document) if self._query is not None else document
        if found is not None:
            self.stream.write(_FORMATTERS[self._format](finite(found), is_query))


def parse_query(text: str) -> ParsedResult:
    """Compile a JMESPath expression. Raises ValueError for one that is not valid."""
    from jmespath import compile
    from jmespath.exceptions import JMESPathError

    try:
        return compile(text)
    except JMESPathError as e:
        raise ValueError(str(e).splitlines()[0]) from None


def _search(query: ParsedResult, document: Any) -> Any:
    """Evaluate a query. One that cannot be evaluated is a usage error."""
    from click import UsageError
    from jmespath.exceptions import JMESPathError

    try:
        return query.search(document)
    except JMESPathError as e:
        raise UsageError(f"Invalid value for '--query': {str(e).splitlines()[0]}") from None


def _as_json(document: Any, is_query: bool) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _as_yaml(document: Any, is_query: bool) -> str:
    from windlass.client.config.yaml import dumps

    return dumps(json.loads(_as_json(document, is_query)))


def _as_nothing(document: Any, is_query: bool) -> str:
    return ""


def _as_tsv(document: Any, is_query: bool) -> str:
    rows = document if isinstance(document, list) else [document]
    return "".join("\t".join(_tsv_cells(row, is_query)) + "\n" for row in rows)


def _tsv_cells(row: Any, is_query: bool) -> Iterator[str]:
    if isinstance(row, bool):
        yield str(row).lower()
    elif isinstance(row, dict):
        yield from map(_tsv_cell, row.values() if is_query else [row[key] for key in sorted(row)])
    elif isinstance(row, list):
        yield from map(_tsv_cell, row)
    else:
        yield _tsv_cell(row)


def _tsv_cell(value: Any) -> str:
    """A nested list is only counted, and a nested map left out."""
    if isinstance(value, list):
        return str(len(value))
    return "" if isinstance(value, dict) else escape(str(value))


def _as_table(document: Any, is_query: bool) -> str:
    rows = [_table_row(row, is_query) for row in (document if isinstance(document, list) else [document])]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    if not heads:
        return ""
    columns = [[row.get(head) for row in rows] for head in heads]
    lines = [[], [], *([] for _ in rows)]  # type: list[list[str]]
    for head, cells in zip(heads, columns, strict=True):
        texts = ["" if cell is None else escape(str(cell)) for cell in cells]
        width = max(cell_width(head) + _PADDING, *map(cell_width, texts))
        is_number = all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells)
        for line, text in zip(lines, [head, "-" * width, *texts], strict=True):
            space = " " * (width - cell_width(text))
            line.append(space + text if is_number else text + space)
    return "".join("  ".join(line).rstrip() + "\n" for line in lines)


def _table_row(row: Any, is_query: bool) -> dict[str, Any]:
    """Title and value of each cell."""
    if isinstance(row, list):
        return {f"Column{number}": value for number, value in enumerate(row, 1) if not isinstance(value, (list, dict))}
    if not isinstance(row, dict):
        return {"Result": row}
    keys = [key for key in (row if is_query else sorted(row)) if key not in _NOT_IN_TABLES]
    flat = [key for key in keys if row[key] is not None and not isinstance(row[key], (list, dict))]
    return {f"{key[:1].upper()}{key[1:]}": row[key] for key in flat}


_FORMATTERS = {"json": _as_json, "yaml": _as_yaml, "none": _as_nothing, "tsv": _as_tsv, "table": _as_table}
