"""ResourceConfiguration: CPUs, memory and GPUs of a run or of a model's service."""

from __future__ import annotations

from typing import Any, Dict, Optional


class ResourceConfiguration:
    """Processors, memory and GPUs of a run, as `run_config.resources`, on each of its nodes. Azure sizes the services
    of models by them; a registered model does not keep them.

    >>> ResourceConfiguration(cpu=1, memory_in_gb=0.5).serialize()
    {'cpu': 1, 'memoryInGB': 0.5, 'gpu': None}
    """

    def __init__(
        self, cpu: Optional[float] = None, memory_in_gb: Optional[float] = None, gpu: Optional[int] = None
    ) -> None:
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb
        self.gpu = gpu

    def serialize(self) -> Dict[str, Any]:
        """As JSON, with Azure's keys."""
        return {"cpu": self.cpu, "memoryInGB": self.memory_in_gb, "gpu": self.gpu}

    @staticmethod
    def deserialize(payload_obj: Optional[Dict[str, Any]]) -> Optional[ResourceConfiguration]:
        """The inverse of serialize(); None for None."""
        if payload_obj is None:
            return None
        return ResourceConfiguration(payload_obj.get("cpu"), payload_obj.get("memoryInGB"), payload_obj.get("gpu"))
