"""Environment files of Azure's CLI v2: an image, a conda file or a Dockerfile under a name."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Iterable

from windlass.client.config import yaml, yaml_map
from windlass.client.config.yaml_map import YamlMap
from windlass.client.exceptions import NotProvided, UserErrorException

if TYPE_CHECKING:
    from windlass.client.environments.conda_dependencies import CondaDependencies
    from windlass.client.environments.environment import Environment

_BUILD = ("path", "dockerfile_path")
_KEYS = (
    "name", "version", "description", "tags", "image", "conda_file", "build", "os_type", "inference_config",
    "datastore",
)  # fmt: skip
# Written by `az ml environment show`, without meaning in a file that creates one.
_OUTPUT_ONLY = ("id", "creation_context", "latest_version")
# Keys of the CLI v1's definition, which `az ml environment show` writes here.
_DEFINITION = (
    "python", "docker", "environmentVariables", "spark", "databricks", "r", "inferencingStackVersion", "assetId",
)  # fmt: skip
# An instruction that copies files of the build context, as opposed to another stage or an address.
_COPY = re.compile(r"^\s*(?:COPY|ADD)\s+(?!.*--from=)(?!\S*://)", re.IGNORECASE | re.MULTILINE)


def load(path: str, overrides: Iterable[str] = ()) -> Environment:
    """Read a file. `overrides` are texts such as `version=2` that replace values of the file."""
    file = yaml_map.load(path, "environment", overrides)
    for key in ("channels", "dependencies"):
        if key in file:
            raise file.mistake(
                key,
                f"{key!r} belongs in a conda file, which an environment file names.",
                "Write `conda_file: conda.yml`, or give the file itself to Environment.from_conda_specification().",
            )
    name = file.required_text("name")
    made = _of_answer(file) if "python" in file and "docker" in file else read(file, name)
    made.version = file.text("version")
    return made


def _of_answer(file: YamlMap) -> Environment:
    """The environment from the output of `az ml environment show`: its definition, and an image changed by --set."""
    from windlass.client.environments.environment import Environment

    file.check_keys((*_KEYS, *_OUTPUT_ONLY, *_DEFINITION))
    definition = {key: file.body[key] for key in ("name", *_DEFINITION) if key in file}
    made = Environment.from_dict(definition, source=file.source)
    image = file.text("image")
    if image != made.docker.base_image:
        made.docker.base_image = image
    return made


def inline(environment: Environment) -> dict[str, Any] | None:
    """The inline environment of a job file, without a name; None if a job file cannot express it."""
    packages = environment.python.conda_dependencies
    if environment.docker.base_dockerfile or environment.environment_variables:
        return None
    body: dict[str, Any] = {"image": environment.docker.base_image} if environment.docker.base_image else {}
    if packages is not None and not environment.python.user_managed_dependencies:
        body["conda_file"] = packages.as_dict()
    return body or None


def read(file: YamlMap, name: str, code: str = "") -> Environment:
    """The environment from a map: a file of its own, or the inline environment of a job with its source in `code`."""
    from windlass.client.environments.conda_dependencies import CondaDependencies
    from windlass.client.environments.environment import Environment

    file.check_keys((*_KEYS, *_OUTPUT_ONLY))
    if file.choice("os_type", ("linux", "windows")) == "windows":
        raise NotProvided(
            f"{file.where('os_type')}: an environment on Windows", "Targets run Linux; use an image of Linux."
        )
    for key in ("description", "tags", "inference_config"):
        if key in file:
            print(f"Warning: {file.where(key)}: {key} is not kept with an environment.", file=sys.stderr)
    if sum(key in file for key in ("image", "build")) > 1:
        raise file.mistake("build", "an environment has an image or a build, not both.", "Leave out one of them.")
    made = Environment(name)
    made.docker.base_image = file.text("image")
    made.docker.base_dockerfile = _dockerfile(file, code)
    if "conda_file" in file:
        made.python.conda_dependencies = _packages(file, CondaDependencies)
    elif made.docker.base_image or made.docker.base_dockerfile:
        made.python.user_managed_dependencies = True  # the image has its packages
    else:
        raise UserErrorException(
            f"{file.source.path}: the environment has neither image, conda_file nor build.",
            "Write `conda_file: conda.yml`.",
        )
    return made


def _packages(file: YamlMap, kind: type[CondaDependencies]) -> CondaDependencies:
    from windlass.client.environments import conda_file

    inline = file.body["conda_file"]
    if isinstance(inline, dict):
        made = kind(_underlying_structure=conda_file.checked(inline, file.source))
        made.base = file.folder
        return made
    return kind(file.existing_path("conda_file"))


def _dockerfile(file: YamlMap, code: str) -> str | None:
    """The text of the Dockerfile that `build` names. COPY takes files of the run's source here."""
    build = file.map("build", _BUILD)
    if "build" not in file:
        return None
    if "://" in build.required_text("path"):
        raise NotProvided(f"{build.where('path')}: a build context at an address", "Download it, and name the folder.")
    context = str(build.existing_path("path"))
    dockerfile = os.path.join(context, build.text("dockerfile_path") or "Dockerfile")
    try:
        with open(dockerfile, encoding="utf-8") as opened:
            text = opened.read()
    except OSError as e:
        raise build.mistake("path", f"the Dockerfile {dockerfile} cannot be read: {e.strerror}.") from None
    if _COPY.search(text) and context != code:
        raise NotProvided(
            f"{build.where('path')}: a build context that is not the code folder of the job",
            f"COPY takes the files of the job's code: put what {dockerfile} copies there, with the Dockerfile.",
        )
    return text


def dump(environment: Environment, path: str) -> None:
    """Write a file; comments of an existing file are kept. A Dockerfile is written beside it."""
    from windlass.client.submit.container_spec import dockerfile_text

    if environment.environment_variables:
        raise UserErrorException(
            f"Environment files have no variables, and {environment.name} has some.",
            "Name them in the job, as environment_variables.",
        )
    body: dict[str, Any] = {"name": environment.name}
    if environment.version:
        body["version"] = environment.version
    docker, packages = environment.docker, environment.python.conda_dependencies
    if docker.base_image:
        body["image"] = docker.base_image
    if docker.base_dockerfile:
        name = f"{environment.name}.Dockerfile"
        body["build"] = {"path": ".", "dockerfile_path": name}
        with open(os.path.join(os.path.dirname(path) or ".", name), "w", encoding="utf-8") as file:
            file.write(dockerfile_text(docker.base_dockerfile))
    if packages is not None and not environment.python.user_managed_dependencies:
        body["conda_file"] = packages._relative_to(os.path.dirname(os.path.abspath(path)))
    yaml.write(path, body)
