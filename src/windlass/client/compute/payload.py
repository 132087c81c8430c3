"""Base of values that are serialized to Azure's JSON: attributes here, camelCase keys there."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Dict, Type, TypeVar

P = TypeVar("P", bound="Payload")


class Payload:
    """A value with serialize() and deserialize(). Subclasses name their keys."""

    _keys: ClassVar[Dict[str, str]] = {}  # attribute: key
    _parts: ClassVar[Dict[str, Type[Payload]]] = {}  # attributes that are payloads themselves

    def serialize(self) -> dict[str, Any]:
        return {key: _plain(getattr(self, name)) for name, key in self._keys.items()}

    @classmethod
    def deserialize(cls: Type[P], object_dict: dict[str, Any] | None) -> P | None:
        """The value from the result of serialize(); None for None or {}."""
        if not object_dict:
            return None
        values = {name: object_dict.get(key) for name, key in cls._keys.items()}
        for name, kind in cls._parts.items():
            values[name] = kind.deserialize(values[name])
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Payload):
        return value.serialize()
    return value.isoformat() if isinstance(value, datetime) else value
