"""The name that a client gives itself to Azure's services. Nothing is sent to them, so it is only kept."""

from __future__ import annotations

__all__ = ["append", "get_user_agent"]
_names: list[str] = ["azureml-sdk-core"]


def append(product: str, version: str | None = None) -> None:
    _names.append(f"{product}/{version}" if version else product)


def get_user_agent() -> str:
    return " ".join(_names)
