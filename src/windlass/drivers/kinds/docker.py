"""Driver for containers on this computer: like `local`, but every run lives in a container."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windlass.drivers.base import Health, shown_in_form
from windlass.drivers.kinds.local import LocalConfig, LocalDriver


class DockerConfig(LocalConfig):
    docker: Literal[True] = Field(
        default=True,
        title="Run in containers",
        description="Runs live in a container: that is what this kind is for.",
        json_schema_extra=shown_in_form(hidden=True),
    )


class DockerDriver(LocalDriver):
    """Containers on this computer."""

    kind = "docker"
    title = "Containers on this computer"
    config_model = DockerConfig

    def check(self) -> Health:
        """Check the computer, and that a Docker engine answers."""
        health = super().check()
        engine = health.inventory.get("docker")
        known = engine if isinstance(engine, dict) else {}
        if "version" not in known:
            return Health(
                False, known.get("missing") or "It does not say whether it has a Docker engine.", health.inventory
            )
        return Health(health.ok, f"{health.message}, Docker {known['version']}", health.inventory)


DRIVER = DockerDriver
