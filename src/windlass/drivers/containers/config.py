"""Container settings of a target, and the container of a job as fields of Docker's API.

Pure: options of `docker run` are parsed before anything is sent. Options that let a script out of its container need
the consent of the target's owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from windlass.core import names
from windlass.core.entities import Container, EnvironmentSpec, Resources
from windlass.core.errors import SpecNotSupported
from windlass.drivers.base import TargetConfig, shown_as_option, shown_in_form
from windlass.drivers.containers.docker_options import CONSENT, parse
from windlass.drivers.plan import quoted

# Default image: with the Python version of the run's environment, or else this one.
DEFAULT_IMAGE = "python:{}-slim"
DEFAULT_PYTHON = "3.11"
PIDS_LIMIT = 4096  # processes: enough for scripts, and no danger for the machine
_MB = 1 << 20


_IN_FORM = shown_in_form(group="containers")


def _socket(address: str) -> str:
    if not address.startswith("unix:///"):
        raise ValueError("an engine is named by its socket: unix:///path/to/docker.sock")
    return address


def _network(name: str) -> str:
    if not name or not all(c.isalnum() or c in "_.-" for c in name) or not name.isascii() or not name[0].isalnum():
        raise ValueError("the name of a network has letters, digits, '_', '.' and '-'")
    return name


class ContainerConfig(TargetConfig):
    """Container and GPU settings of a machine, for its owner."""

    docker: bool = Field(
        default=False,
        title="Run in containers",
        description="Whether runs live in a container unless they say otherwise.",
        json_schema_extra=shown_as_option("--docker") | _IN_FORM,
    )
    base_image: Annotated[str, AfterValidator(names.image_reference)] | None = Field(
        default=None,
        title="Image",
        examples=["python:3.11-slim"],
        description="The image of containers whose run names none; by default one with Python.",
        json_schema_extra=shown_as_option("--base-image", metavar="IMAGE") | shown_in_form("containers", "image"),
    )
    network: Annotated[str, AfterValidator(_network)] | None = Field(
        default=None,
        title="Network",
        examples=["bridge", "none"],
        description="The network of containers: none, bridge, or another one of the engine there.",
        json_schema_extra=shown_as_option("--network", metavar="NAME") | _IN_FORM,
    )
    engine: Annotated[str, AfterValidator(_socket)] | None = Field(
        default=None,
        title="Docker engine",
        examples=["unix:///var/run/docker.sock"],
        description="The socket of the Docker engine there, unix:///…; by default the usual ones.",
        json_schema_extra=shown_as_option("--engine", metavar="ADDRESS") | _IN_FORM,
    )
    allow_privileged: bool = Field(
        default=False,
        title="Allow privileged options",
        description="Whether runs may ask for privileged options of Docker: that is root there.",
        json_schema_extra=shown_as_option("--allow-privileged/--refuse-privileged") | _IN_FORM,
    )
    share_gpus: bool = Field(
        default=False,
        title="Share GPUs",
        description="Whether runs that ask for no GPUs see those that are there; otherwise they see none.",
        json_schema_extra=shown_as_option("--share-gpus/--hide-gpus") | _IN_FORM,
    )


# All of them can be changed on an existing target.
CONTAINER_SETTINGS = frozenset(ContainerConfig.model_fields)


def document(
    environment: EnvironmentSpec, container: Container | None, resources: Resources, config: ContainerConfig
) -> dict[str, Any] | None:
    """`container` of run.json (docs/dev/runner.md); None for a run without a container."""
    if container is None and not config.docker:
        return None
    container = container or Container()
    options = parse(container.arguments, config.allow_privileged, config.network)
    if not config.allow_privileged:
        _check_limits(options.host, config)
    fields = {**_limits(container, resources, config), **options.host}
    fields.setdefault("MemorySwap", fields.get("Memory"))  # otherwise Docker allows the same amount of swap in addition
    return {
        "engine": config.engine,
        "image": None if environment.dockerfile else _image(environment, config),
        "dockerfile": environment.dockerfile,
        "host": {name: value for name, value in fields.items() if value is not None},
        "config": options.config,
        "env": options.env,
    }


def _check_limits(asked: Mapping[str, Any], config: ContainerConfig) -> None:
    """Refuse options that exceed the limits of the target's owner."""
    network = asked.get("NetworkMode")
    if config.network and network not in (None, "none", config.network):
        raise SpecNotSupported(
            f"The Docker option --network {network} is refused: the owner has set network = {config.network}.",
            hint=f"Leave it out, or say --network none. {CONSENT}",
        )
    if asked.get("PidsLimit", 0) > PIDS_LIMIT:
        raise SpecNotSupported(
            f"The Docker option --pids-limit {asked['PidsLimit']} is beyond what containers have here: {PIDS_LIMIT}.",
            hint=CONSENT,
        )


def describe(fields: Mapping[str, Any], container: Container | None) -> str:
    """One line for the text of the plan."""
    image = fields["image"] or "an image from a Dockerfile, built once"
    network = fields["host"].get("NetworkMode", "the engine's default")
    options = [f"options {' '.join(map(quoted, container.arguments))}"] if container and container.arguments else []
    return "; ".join([image, f"network {network}", *options])


def _image(environment: EnvironmentSpec, config: ContainerConfig) -> str:
    version = environment.python_version or DEFAULT_PYTHON
    if version[0] in "<>=!~":
        version = DEFAULT_PYTHON  # whether it fits is checked when packages are installed
    default = DEFAULT_IMAGE.format(".".join(version.split(".")[:2]))
    return environment.image or config.base_image or names.image_reference(default)


def _limits(container: Container, resources: Resources, config: ContainerConfig) -> dict[str, Any]:
    gpus = [{"Count": resources.gpus, "Capabilities": [["gpu"]]}] if resources.gpus else None
    return {
        "Memory": resources.memory_mb * _MB if resources.memory_mb else None,
        "NanoCpus": round(resources.cpus * 1e9) if resources.cpus else None,
        "ShmSize": container.shm_size_mb * _MB if container.shm_size_mb else None,
        "PidsLimit": PIDS_LIMIT,
        "DeviceRequests": gpus,
        "NetworkMode": config.network,
    }
