"""Target classes of the first versions of Azure's SDK: a type and a name, for a run configuration."""

from __future__ import annotations

from typing import Any, Dict

from windlass.client.unsupported import not_provided


class AbstractComputeTarget:
    """A target by its type and name."""

    def __init__(self, compute_target_type: str, name: str) -> None:
        self._type = compute_target_type
        self._name = name

    @property
    def type(self) -> str:
        return self._type

    @property
    def name(self) -> str:
        return self._name

    @staticmethod
    @not_provided("Reading a target from its file", "ComputeTarget(workspace, name) finds one by its name.")
    def deserialize_from_dict(compute_target_name: str, compute_target_dict: Dict[str, Any]) -> Any: ...


class LocalTarget(AbstractComputeTarget):
    """The target `local`.

    >>> LocalTarget().name
    'local'
    """

    def __init__(self) -> None:
        super().__init__("local", "local")
