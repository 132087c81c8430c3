"""Output of a command: results to stdout, notes to stderr, colours only at a terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATES = {
    "Completed": "green",
    "Failed": "red",
    "Canceled": "yellow",
    "CancelRequested": "yellow",
    "NotResponding": "yellow",
    "Running": "cyan",
    "Finalizing": "cyan",
}
_NARROWEST = 20
_WIDTH_OF_UNKNOWN_TERMINAL = 80


class Terminal:
    def __init__(self) -> None:
        self.is_terminal = _is_terminal(sys.stdout)
        wanted = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.colours = self.is_terminal and wanted
        self._note_colours = wanted and _is_terminal(sys.stderr)

    @property
    def width(self) -> int | None:
        """The terminal's width; COLUMNS overrides it. None without a terminal: in a pipe or a file nothing is shortened
        or wrapped.
        """
        if not self.is_terminal:
            return None
        asked = os.environ.get("COLUMNS", "")
        if asked.isdecimal() and int(asked) > 0:
            return max(int(asked), _NARROWEST)
        try:
            return max(os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH_OF_UNKNOWN_TERMINAL, _NARROWEST)
        except (OSError, ValueError):
            return _WIDTH_OF_UNKNOWN_TERMINAL

    @property
    def ellipsis(self) -> str:
        return self.symbol("…", "...")

    def symbol(self, nice: str, plain: str) -> str:
        """`nice`, or `plain` where the output's encoding lacks it."""
        try:
            nice.encode(sys.stdout.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return plain
        return nice

    def line(self, text: str = "") -> None:
        sys.stdout.write(text + "\n")

    def lines(self, texts: list[str]) -> None:
        sys.stdout.write("".join(text + "\n" for text in texts))

    def note(self, text: str) -> None:
        """Print a note for the person at the terminal to stderr: it is not part of the result."""
        sys.stdout.flush()
        sys.stderr.write(f"\x1b[2m{text}\x1b[0m\n" if self._note_colours else text + "\n")
        sys.stderr.flush()

    def json(self, document: Any) -> None:
        """Print the document of --json."""
        import json

        try:
            text = json.dumps(document, indent=2, allow_nan=False)
        except ValueError:
            text = json.dumps(finite(document), indent=2)
        sys.stdout.write(text + "\n")

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colours and text else text

    def bold(self, text: str) -> str:
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        return self.paint(text, "dim")

    def state(self, text: str, state: str = "") -> str:
        """Colour a text by a run's state; by default the text is the state."""
        colour = _STATES.get(state or text.strip())
        return self.paint(text, colour) if colour else text


def finite(value: Any) -> Any:
    """Replace NaN and infinities, for which JSON has no numbers, by texts."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
