"""Name, description, tags and properties of a run."""

from __future__ import annotations

from typing import Any

from windlass.client.runs.record import RunRecord

RERUN_OF = "rerun_of"  # property of a run that was submitted again: the id of the earlier run


class RunLabels(RunRecord):
    @property
    def name(self) -> str:
        return str(self._view["name"])

    @property
    def display_name(self) -> str:
        return str(self._view["name"]) or self.id

    @display_name.setter
    def display_name(self, name: str) -> None:
        self._change(name=name)

    @property
    def description(self) -> str:
        return str(self._view["description"])

    @description.setter
    def description(self, text: str) -> None:
        self._change(description=text)

    @property
    def tags(self) -> dict[str, Any]:
        return dict(self._view["tags"])

    @property
    def properties(self) -> dict[str, Any]:
        from windlass.client.runs.details import properties

        return properties(self._view)

    def get_tags(self) -> dict[str, Any]:
        self._refresh()
        return self.tags

    def get_properties(self) -> dict[str, Any]:
        self._refresh()
        return self.properties

    def tag(self, key: str, value: Any = None) -> None:
        self.set_tags({key: value})

    def set_tags(self, tags: Any) -> None:
        """Add or change tags; others stay."""
        given = {tags: None} if isinstance(tags, str) else tags
        self._change(tags={str(key): None if value is None else str(value) for key, value in given.items()})

    def remove_tags(self, tags: Any) -> None:
        self._change(remove_tags=[tags] if isinstance(tags, str) else [str(tag) for tag in tags])

    def add_properties(self, properties: dict[str, Any]) -> None:
        """Add properties. Each is written once."""
        if properties:
            self._change(properties={str(key): str(value) for key, value in properties.items()})
