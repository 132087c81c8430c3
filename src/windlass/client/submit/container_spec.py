"""Container and image of a RunSpec, from the Docker sections of a run configuration (both generations)."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.environments.sections import DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.core.entities import Container

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.environments.environment import Environment

_CREDENTIALS = ("username", "password", "registry_identity")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b)?\Z")
_UNITS = {"": 1 / (1 << 20), "b": 1 / (1 << 20), "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def container_of(run_config: RunConfiguration) -> Container | None:
    """The container by `DockerConfiguration` if that is on, else by the environment's older section, or None."""
    newer, older = run_config.docker, run_config.environment.docker
    if not newer.use_docker and not older.enabled:
        return None
    section: Any = newer if newer.use_docker else older
    if isinstance(section.arguments, str):
        raise UserErrorException("The arguments of Docker are a list of texts.", 'arguments=["--cpus", "2"]')
    arguments = tuple(str(word) for word in section.arguments or ())
    has_gpus = any(word.split("=")[0] == "--gpus" for word in arguments)
    gpus = ("--gpus", "all") if older.gpu_support and not has_gpus else ()
    return Container(_megabytes(section.shm_size), (*arguments, *gpus), bool(section.shared_volumes))


def image_of(environment: Environment) -> dict[str, Any]:
    """The image or Dockerfile, as fields of the EnvironmentSpec."""
    docker = environment.docker
    if docker.build_context is not None:
        raise NotProvided(
            "Building an image from a build context",
            "Use Environment.from_dockerfile(name, 'Dockerfile'): it copies from the run's source directory.",
        )
    if docker.base_image in (DEFAULT_CPU_IMAGE, DEFAULT_GPU_IMAGE):
        return {}
    if docker.base_dockerfile:
        return {"dockerfile": dockerfile_text(docker.base_dockerfile)}
    return {"image": names.image_reference(_full_name(environment))} if docker.base_image else {}


def _full_name(environment: Environment) -> str:
    """The image's name with its registry. Credentials are refused: the machine that pulls has to be logged in."""
    docker, registry = environment.docker, environment.docker.base_image_registry
    given = [name for name in _CREDENTIALS if getattr(registry, name)]
    if given:
        user = f" --username {shlex.quote(str(registry.username))}" if registry.username else ""
        where = f" {registry.address}" if registry.address else ""
        raise UserErrorException(
            f"The registry of an image has a {' and a '.join(given)} in the environment, which does not log in there.",
            f"Leave that out, and type once on the machine that pulls: docker login{user}{where}",
        )
    image, address = str(docker.base_image), (registry.address or "").rstrip("/")
    return f"{address}/{image}" if address and not image.startswith(f"{address}/") else image


def dockerfile_text(dockerfile: str) -> str:
    """The content of a Dockerfile that is given as text or as path."""
    # A Dockerfile of one line can only be FROM.
    if "\n" in dockerfile or dockerfile.lstrip().upper().startswith("FROM "):
        return dockerfile
    try:
        with open(dockerfile, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise UserErrorException(f"There is no Dockerfile {os.path.abspath(dockerfile)}.") from None


def _megabytes(size: Any) -> int | None:
    if size is None or size == "":
        return None
    found = _SIZE.match(str(size).strip().lower())
    amount = float(found.group(1)) * _UNITS[found.group(2)] if found else 0.0
    if amount <= 0:
        raise UserErrorException(f"shm_size is a size such as '2g' or '512m', not {size!r}.")
    return max(1, round(amount))
