"""Sections of an environment: Python, Docker, Spark, Databricks."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

from windlass.client.config.file_location import NOWHERE, SourceFile
from windlass.client.config.section import Field, Section, camel_case
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.exceptions import NotProvided, RunConfigurationException
from windlass.client.unsupported import not_provided

# Placeholders for the target's own default image, which code means that names Azure's default images.
DEFAULT_CPU_IMAGE = "windlass/default-cpu"
DEFAULT_GPU_IMAGE = "windlass/default-gpu"
# The sources of a container's image; one of them is set.
_IMAGE_SOURCES = ("base_image", "base_dockerfile", "build_context")


class PythonSection(Section):
    """The Python of a run: packages to install, or with `user_managed_dependencies` an existing interpreter."""

    FIELDS = (
        Field("user_managed_dependencies"),
        Field("interpreter_path"),
        Field("conda_dependencies_file"),
        Field("base_conda_environment"),
        Field("strict"),
    )
    READ_ELSEWHERE = ("condaDependencies",)
    TEXTS = ("conda_dependencies_file", "base_conda_environment")

    def __init__(self, **kwargs: Any) -> None:
        self.user_managed_dependencies = False
        self.interpreter_path = "python"
        self.conda_dependencies_file: str | None = None
        self.base_conda_environment: str | None = None
        # Ours: refuse a Python or a release that is not available, instead of replacing it by the nearest one.
        self.strict = False
        self.conda_dependencies: CondaDependencies | None = CondaDependencies()
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a base conda environment: without it a script would lack packages."""
        if name == "base_conda_environment" and value:
            raise NotProvided(
                "A base conda environment",
                "Environment.from_existing_conda_environment(name, conda_environment_name) has the packages of one.",
            )
        if name == "strict" and not isinstance(value, bool):
            raise RunConfigurationException(f"python.strict is True or False, not {value!r:.100}.")
        super().__setattr__(name, value)

    def to_dict(self) -> dict[str, Any]:
        """Azure's keys; `strict`, which Azure does not have, only where it is set."""
        body = super().to_dict()
        if not self.strict:
            del body["strict"]
        return body


class PythonEnvironment(PythonSection):
    """The old name of the section."""

    def __init__(self) -> None:
        super().__init__()


class RegistryIdentity(Section):
    """The Azure identity that pulls an image. Machines here pull with their own `docker login`."""

    FIELDS = (Field("resource_id"), Field("client_id"))

    def __init__(self) -> None:
        self.resource_id: str | None = None
        self.client_id: str | None = None
        self._ready = True


class ContainerRegistry(Section):
    """The registry that an image is pulled from. The machine that pulls it needs a `docker login` there."""

    FIELDS = (Field("address"), Field("username"), Field("password"), Field("registry_identity"))
    TEXTS = ("address", "username", "password")

    def __init__(self) -> None:
        self.address: str | None = None
        self.username: str | None = None
        self.password: str | None = None
        self.registry_identity: Any = None
        self._ready = True

    def to_dict(self) -> dict[str, Any]:
        # Definitions are stored and shown: a password is left out, with its key, since None would mean "no password".
        body = super().to_dict()
        if self.password:
            del body["password"]
        return body


class AzureContainerRegistry(ContainerRegistry):
    """The old name of ContainerRegistry."""


class DockerImagePlatform(Section):
    FIELDS = (Field("os"), Field("architecture"))

    def __init__(self) -> None:
        self.os = "Linux"
        self.architecture = "amd64"
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("os", "architecture") and value and str(value).lower() not in ("linux", "amd64"):
            print(
                "Warning: an image is made for the machine that runs it; its platform is not chosen.", file=sys.stderr
            )


class DockerBuildContext(Section):
    """A folder to build an image from. A run with one is refused: here a Dockerfile copies from the run's source."""

    class LocationType(str, Enum):
        Git = "git"
        StorageAccount = "storageAccount"

    FIELDS = (Field("location_type"), Field("location"), Field("dockerfile_path"))

    def __init__(
        self, location_type: str | None = None, location: str | None = None, dockerfile_path: str = "Dockerfile"
    ) -> None:
        self.location_type = location_type
        self.location = location
        self.dockerfile_path = dockerfile_path or "Dockerfile"
        self._ready = True

    @staticmethod
    @not_provided(
        "Building an image from a build context",
        "Use Environment.from_dockerfile(name, 'Dockerfile'): it copies from the run's source directory.",
    )
    def from_local_directory(workspace: Any, path: str, dockerfile_path: str = "Dockerfile") -> Any: ...


class DockerSection(Section):
    """The container of a run, where `enabled`."""

    FIELDS = (
        Field("enabled"),
        Field("base_image"),
        Field("base_dockerfile"),
        Field("build_context", DockerBuildContext, is_optional=True),
        Field("shared_volumes"),
        Field("gpu_support"),
        Field("shm_size"),
        Field("arguments"),
        Field("base_image_registry", ContainerRegistry),
        Field("platform", DockerImagePlatform),
    )
    TEXTS = ("base_image", "base_dockerfile")

    def __init__(self, **kwargs: Any) -> None:
        self.enabled = False
        self.base_image: str | None = None
        self.base_dockerfile: str | None = None
        self.build_context: DockerBuildContext | None = None
        self.shared_volumes = True
        self.gpu_support = False
        self.shm_size: str | None = "2g"
        self.arguments: list[str] = []
        self.base_image_registry = ContainerRegistry()
        self.platform = DockerImagePlatform()
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Setting one of _IMAGE_SOURCES clears the others, with a warning."""
        super().__setattr__(name, value)
        if name in _IMAGE_SOURCES and value:
            for other in _IMAGE_SOURCES:
                if other != name and getattr(self, other, None):
                    print(f"Warning: {name} takes the place of {other}, which is dropped.", file=sys.stderr)
                    super().__setattr__(other, None)

    def to_dict(self) -> dict[str, Any]:
        """Azure's keys; `gpuSupport`, which only older versions of Azure's SDK write, only where it is set."""
        body = super().to_dict()
        if not self.gpu_support:
            del body["gpuSupport"]
        return body

    def fill(self, body: Any, where: str = "", source: SourceFile = NOWHERE) -> None:
        """Set the attributes from a file's content. A file with two of _IMAGE_SOURCES is refused."""
        keys = {camel_case(str(key)): key for key, value in body.items() if value} if isinstance(body, dict) else {}
        sources = [each for each in map(camel_case, _IMAGE_SOURCES) if each in keys]
        if len(sources) > 1:
            place = source.named(body, keys[sources[1]], where or type(self).__name__)
            raise RunConfigurationException(
                f"{place} has {' and '.join(sources)}: a container is made from one of them.", "Leave out the others."
            )
        super().fill(body, where, source)


class DockerEnvironment(DockerSection):
    """The old name of the section."""

    def __init__(self) -> None:
        super().__init__()


class SparkPackage(Section):
    FIELDS = (Field("group"), Field("artifact"), Field("version"))

    def __init__(self, group: str | None = None, artifact: str | None = None, version: str | None = None) -> None:
        self.group = group
        self.artifact = artifact
        self.version = version
        self._ready = True


class SparkSection(Section):
    FIELDS = (Field("repositories"), Field("packages", SparkPackage, "list"), Field("precache_packages"))

    def __init__(self, **kwargs: Any) -> None:
        self.repositories: list[str] = []
        self.packages: list[SparkPackage] = []
        self.precache_packages = True
        self._ready = True


class SparkEnvironment(SparkSection):
    """The old name of the section."""

    def __init__(self) -> None:
        super().__init__()


class DatabricksSection(Section):
    FIELDS = (
        Field("maven_libraries"),
        Field("pypi_libraries"),
        Field("rcran_libraries"),
        Field("jar_libraries"),
        Field("egg_libraries"),
    )

    def __init__(self, _skip_defaults: bool = False) -> None:
        self.maven_libraries: list[Any] = []
        self.pypi_libraries: list[Any] = []
        self.rcran_libraries: list[Any] = []
        self.jar_libraries: list[Any] = []
        self.egg_libraries: list[Any] = []
        self._ready = True

    @property
    @not_provided("A Databricks cluster for a run", "Runs are of Python, on the target that they name.")
    def cluster(self) -> Any: ...


class DatabricksEnvironment(DatabricksSection):
    """The old name of the section."""

    def __init__(self) -> None:
        super().__init__()
