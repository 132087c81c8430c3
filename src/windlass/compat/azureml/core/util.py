"""Logging levels."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NewLoggingLevel"]
_WARNING = 30  # logging.WARNING


class NewLoggingLevel:
    """Set a logger's level inside a `with` block."""

    def __init__(self, logger_name: str, level: int = _WARNING) -> None:
        import logging

        self._logger = logging.getLogger(logger_name)
        self._level = level

    def __enter__(self) -> Any:
        self._level_before = self._logger.level
        self._logger.setLevel(self._level)
        return self._logger

    def __exit__(self, *ending: object) -> None:
        self._logger.setLevel(self._level_before)
