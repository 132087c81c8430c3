"""Metric logger of Azure ML Workbench."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get_azureml_logger"]


class _RunLogger:
    """Logs to the run that this script is part of."""

    def log(self, name: str, value: Any) -> None:
        """Log a value, or the values of a list."""
        from windlass import Run

        run = Run.get_context()
        if isinstance(value, (list, tuple)):
            run.log_list(name, value)
        else:
            run.log(name, value)


def get_azureml_logger() -> _RunLogger:
    """The logger of the run that this script is part of; without a run, it prints what is logged."""
    return _RunLogger()
