"""What an administrator set, over the defaults that the caller knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Settings:
    def get(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """`defaults`, with what was set in their place. Keys without a default are not known and left out."""
        raise NotImplementedError

    def set(self, values: Mapping[str, Any]) -> None:
        """A value of None goes back to the default."""
        raise NotImplementedError
