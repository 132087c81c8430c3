"""Environment: the Python of a script, as an existing interpreter or as packages to install, and its container."""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.client.config.file_location import NOWHERE, SourceFile, read_located_json
from windlass.client.config.section import Field, Section, camel_case
from windlass.client.environments import requirements
from windlass.client.environments.conda_dependencies import CondaDependencies, find_conda_file
from windlass.client.environments.sections import (
    ContainerRegistry,
    DatabricksSection,
    DockerBuildContext,
    DockerSection,
    PythonSection,
    SparkSection,
)
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.client.unsupported import not_provided

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.environments.build import ImageBuildDetails
    from windlass.client.workspace.workspace import Workspace

DEFAULT_NAME = "default-environment"
_DEFINITION = "azureml_environment.json"
_CONDA = "conda_dependencies.yml"
_DOCKERFILE = "BaseDockerfile"


class Environment(Section):
    """A Python environment.

    >>> environment = Environment("train")
    >>> environment.python.conda_dependencies.add_pip_package("scikit-learn")
    """

    HOW_TO_MAKE = "Environment.get(workspace, name) has one by its name, registered or curated."
    FIELDS = (
        Field("name"),
        Field("version"),
        Field("environment_variables"),
        Field("python", PythonSection),
        Field("docker", DockerSection),
        Field("spark", SparkSection),
        Field("databricks", DatabricksSection),
        Field("r"),
        Field("inferencing_stack_version"),
        Field("asset_id"),
    )
    TEXTS = ("name", "version", "inferencing_stack_version", "asset_id")
    OTHER_KINDS = {"version": (int, float)}

    def __init__(self, name: str | None, **kwargs: Any) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"Environment name expected str, {type(name)} found")
        self.name = name
        self.version: str | None = None
        self.environment_variables: dict[str, str] = {}
        self.python = PythonSection()
        self.docker = DockerSection()
        self.spark = SparkSection()
        self.databricks = DatabricksSection()
        self.r: Any = None
        self.inferencing_stack_version: str | None = None
        self.asset_id: str | None = None
        self._found_as: str | None = None  # the version that a workspace returned it with
        self._ready = True

    @classmethod
    def _with_defaults(cls) -> Environment:
        return cls(DEFAULT_NAME)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "r" and value is not None:
            raise NotProvided(
                "The R section of an environment", "Runs are of Python; packages are named by CondaDependencies."
            )
        super().__setattr__(name, value)

    def __str__(self) -> str:
        return f"Environment(Name: {self.name},\nVersion: {self.version})"

    def to_dict(self) -> dict[str, Any]:
        body = super().to_dict()
        packages = self.python.conda_dependencies
        if packages is not None:
            body["python"]["condaDependencies"] = packages.as_dict()
        return body

    def fill(self, body: Any, where: str = "", source: SourceFile = NOWHERE) -> None:
        super().fill(body, where, source)
        if self.environment_variables is None:
            self.environment_variables = {}
        python = body.get("python") or {}
        self._check_conda_file(python, source)
        inline = python.get("condaDependencies") if isinstance(python, dict) else None
        if inline is not None:
            self.python.conda_dependencies = CondaDependencies(_underlying_structure=inline)

    def _check_conda_file(self, python: dict[str, Any], source: SourceFile) -> None:
        """Refuse a run configuration whose conda file is neither in the project nor beside the configuration."""
        named = self.python.conda_dependencies_file
        if not named or self.python.user_managed_dependencies or not source.path or source.path.endswith(".json"):
            return
        key = next((key for key in python if camel_case(str(key)) == "condaDependenciesFile"), None)
        folders = [source.folder, os.path.dirname(source.folder)]
        if key is None or python.get("condaDependencies"):
            return
        if not any(os.path.isfile(find_conda_file(os.path.join(folder, named))) for folder in folders):
            raise UserErrorException(f"{source.where(python, key)}: there is no conda file {named}.")

    def clone(self, new_name: str) -> Environment:
        if not new_name:
            raise UserErrorException("Name is required to instantiate an Environment object")
        made = copy.deepcopy(self)
        made.name, made.version, made.asset_id = new_name, None, None
        return made

    @staticmethod
    def from_conda_specification(name: str, file_path: str) -> Environment:
        """The packages of a conda file."""
        made = Environment(name)
        made.python.conda_dependencies = CondaDependencies(file_path)
        return made

    @staticmethod
    def from_pip_requirements(name: str, file_path: str, pip_version: str | None = None) -> Environment:
        """The packages of a requirements.txt."""
        made = Environment(name)
        packages = CondaDependencies()
        packages.set_pip_requirements(requirements.read(file_path))
        packages.base = os.path.dirname(os.path.abspath(file_path))
        packages.add_conda_package(f"pip={pip_version}" if pip_version else "pip")
        made.python.conda_dependencies = packages
        return made

    @staticmethod
    def from_existing_conda_environment(name: str, conda_environment_name: str) -> Environment:
        """The packages of a conda environment of this machine, as conda lists them."""
        from windlass.client.config import yaml

        text = _run_conda(["env", "export", "--no-builds", "--name", conda_environment_name])
        body = yaml.loads(text, f"conda env export --name {conda_environment_name}")
        made = Environment(name)
        made.python.conda_dependencies = CondaDependencies(_underlying_structure=body)
        return made

    @staticmethod
    def from_docker_image(
        name: str,
        image: str,
        container_registry: ContainerRegistry | None = None,
        conda_specification: str | None = None,
        pip_requirements: str | None = None,
    ) -> Environment:
        """An environment with a base image. Without packages, the Python of the image is used as it is."""
        made = _from_files(name, conda_specification, pip_requirements)
        made.docker.base_image = image
        if container_registry is not None:
            made.docker.base_image_registry = container_registry
        return made

    @staticmethod
    def from_dockerfile(
        name: str, dockerfile: str, conda_specification: str | None = None, pip_requirements: str | None = None
    ) -> Environment:
        """An environment with the image of a Dockerfile, given as text or path. Without packages, the Python of the
        image is used as it is.
        """
        from windlass.client.submit.container_spec import dockerfile_text

        made = _from_files(name, conda_specification, pip_requirements)
        made.docker.base_dockerfile = dockerfile_text(dockerfile)
        return made

    @staticmethod
    def from_docker_build_context(name: str, docker_build_context: DockerBuildContext) -> Environment:
        made = Environment(name)
        made.docker.build_context = docker_build_context
        return made

    def save_to_directory(self, path: str, overwrite: bool = False) -> None:
        """Write it to a folder in Azure's layout, for editing and for version control. Wheels are not copied."""
        from windlass.client.submit.container_spec import dockerfile_text

        os.makedirs(path, exist_ok=overwrite)
        body = self.to_dict()
        if self.python.conda_dependencies is not None:
            self.python.conda_dependencies.save(os.path.join(path, _CONDA))
            del body["python"]["condaDependencies"]
        dockerfile = body["docker"].pop("baseDockerfile")
        if dockerfile:
            with open(os.path.join(path, _DOCKERFILE), "w", encoding="utf-8") as file:
                file.write(dockerfile_text(dockerfile))
        with open(os.path.join(path, _DEFINITION), "w", encoding="utf-8") as file:
            json.dump(body, file, indent=4)

    @staticmethod
    def load_from_directory(path: str) -> Environment:
        definition = os.path.join(path, _DEFINITION)
        body, source = read_located_json(definition)
        made = Environment.from_dict(body, source=source)
        if not body.get("name"):
            raise UserErrorException(f"{definition}: the key 'name' is missing.", 'Write "name": "training".')
        made._warn_of_unknown(body, source)
        if os.path.isfile(os.path.join(path, _CONDA)):
            made.python.conda_dependencies = CondaDependencies(os.path.join(path, _CONDA))
        if os.path.isfile(os.path.join(path, _DOCKERFILE)):
            with open(os.path.join(path, _DOCKERFILE), encoding="utf-8") as file:
                made.docker.base_dockerfile = file.read()
        return made

    @staticmethod
    def get(workspace: Workspace, name: str, version: str | None = None, label: str | None = None) -> Environment:
        """A registered environment, in its latest version unless another is named; or a curated one."""
        from windlass.client.environments import registry

        return registry.get(workspace, name, version, label)

    @staticmethod
    def list(workspace: Workspace) -> dict[str, Environment]:
        """{name: environment}: the latest version of each."""
        from windlass.client.environments import registry

        return registry.find_all(workspace)

    def register(self, workspace: Workspace) -> Environment:
        """Register it in the workspace under its name, and its `version` if that is set; else under the next number.

        The same definition again is the same version; another one is refused, since versions never change. One from
        Environment.get() that was changed since is registered under the next number.
        """
        from windlass.client.environments import registry

        return registry.register(self, workspace)

    @staticmethod
    @not_provided("Labelling an environment", "Name its version: Environment.get(workspace, name, version).")
    def label(workspace: Workspace, name: str, version: str, labels: Sequence[str]) -> None: ...

    @not_provided("What a registry knows of an image", "environment.build(workspace).get_log() says how it was built.")
    def get_image_details(self, workspace: Workspace) -> Any: ...

    @staticmethod
    def add_private_pip_wheel(workspace: Workspace, file_path: str, exist_ok: bool = False) -> str:
        """Upload a wheel to the workspace; the result can be listed among pip packages."""
        from windlass.client.environments import registry

        return registry.add_private_pip_wheel(workspace, file_path, exist_ok)

    def build(self, workspace: Workspace, image_build_compute: str | None = None) -> ImageBuildDetails:
        """Register it, and build it before its first run, on that target (by default `local`). Returns at once.

        With a base image or a Dockerfile, an image is built.
        """
        from windlass.client.environments import build

        return build.build(self, workspace, image_build_compute)

    def build_local(
        self,
        workspace: Workspace,
        platform: Any = None,
        *,
        useDocker: bool = False,
        pushImageToWorkspaceAcr: bool = False,
    ) -> ImageBuildDetails:
        """Build it on this computer and show the log; with `useDocker`, as an image in any case."""
        from windlass.client.environments import build

        if pushImageToWorkspaceAcr:
            print("Warning: a workspace has no registry of images; the image stays where it is built.", file=sys.stderr)
        return build.build(self, workspace, use_docker=useDocker).wait_for_completion()


class EnvironmentDefinition(Environment):
    """The old name of Environment."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class EnvironmentReference(Section):
    """The name of a registered or curated environment, and perhaps its version."""

    FIELDS = (Field("name"), Field("version"))

    def __init__(self, name: str | None, version: str | None = None) -> None:
        self.name = name
        self.version = version
        self._ready = True

    def get_environment(self, workspace: Workspace) -> Environment:
        """The environment of a workspace that this names."""
        return Environment.get(workspace, str(self.name), self.version)


def _from_files(name: str, conda_specification: str | None, pip_requirements: str | None) -> Environment:
    if conda_specification and pip_requirements:
        raise UserErrorException("conda_specification and pip_requirements cannot be used together.")
    if conda_specification:
        return Environment.from_conda_specification(name, conda_specification)
    if pip_requirements:
        return Environment.from_pip_requirements(name, pip_requirements)
    made = Environment(name)
    made.python.user_managed_dependencies = True
    return made


def _run_conda(arguments: list[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(["conda", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        raise UserErrorException("conda is not there, or does not answer.", "Name a conda file instead.") from None
    if done.returncode:
        raise UserErrorException(f"conda says: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")
