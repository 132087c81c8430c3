"""User agent for Azure's services. It is stored only: nothing is sent to them."""

from __future__ import annotations

__all__ = ["append", "get_user_agent"]
_names: list[str] = ["azureml-sdk-core"]


def append(product: str, version: str | None = None) -> None:
    _names.append(f"{product}/{version}" if version else product)


def get_user_agent() -> str:
    return " ".join(_names)
