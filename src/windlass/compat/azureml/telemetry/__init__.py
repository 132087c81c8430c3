"""Telemetry. None is collected or sent; calls have no effect."""

from __future__ import annotations

from .._lazy import lazy

__getattr__, __dir__, _ = lazy(__name__)
__all__ = ["INSTRUMENTATION_KEY", "set_diagnostics_collection"]

INSTRUMENTATION_KEY = "00000000-0000-0000-0000-000000000000"
_INFO = 20  # logging.INFO


def set_diagnostics_collection(
    send_diagnostics: bool = True, verbosity: int = _INFO, reason: str = "", path: str | None = None
) -> None:
    """Print what Azure's SDK prints. Nothing is collected."""
    if send_diagnostics:
        print(f"Turning diagnostics collection on. {reason}")
