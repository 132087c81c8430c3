"""The filter for text from other machines, for the commands."""

from windlass.core.sanitize import SafeText, one_line, shown

__all__ = ["SafeText", "one_line", "shown"]
