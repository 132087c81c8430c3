"""`.compute` files: a project's description of a target, in the format of Azure ML Workbench.

They hold a target's address, and the container or Python of its runs. Credentials are references into the key store.
"""

from __future__ import annotations

import functools
import os
import uuid
from typing import Any, NamedTuple, Optional

from windlass.client.config import yaml
from windlass.client.config.file_location import SourceFile
from windlass.client.config.run_configuration_file import EXTENSION as RUN_EXTENSION
from windlass.client.config.run_configuration_file import FOLDERS
from windlass.client.config.section import warn_of_misspelt
from windlass.client.exceptions import RunConfigurationException
from windlass.core import names

EXTENSION = ".compute"
LOCAL, DOCKER, REMOTE, REMOTE_DOCKER, CLUSTER, BATCH_AI = (
    "local", "docker", "remote", "remotedocker", "cluster", "batchai",
)  # fmt: skip
_LOCAL_DOCKER = "localdocker"  # another name of `docker`
_TYPES = (LOCAL, DOCKER, _LOCAL_DOCKER, REMOTE, REMOTE_DOCKER, CLUSTER, BATCH_AI)
# Workbench's type: the kind of target.
KINDS = {LOCAL: "local", DOCKER: "docker", REMOTE: "ssh", REMOTE_DOCKER: "ssh", CLUSTER: "spark", BATCH_AI: "cluster"}
_KEYS = (
    "type", "address", "username", "password", "privateKey", "baseDockerImage", "sharedVolumes", "nvidiaDocker",
    "nativeSharedDirectory", "userManagedEnvironment", "pythonLocation", "sparkSubmitLocation", "cluster", "native",
    "subscriptionId", "resourceGroup", "clusterName", "workspaceName",
)  # fmt: skip
_TRUTHS = ("sharedVolumes", "nvidiaDocker", "userManagedEnvironment", "cluster", "native")
_SHARE = "~/.azureml/share/"
_SECRET = "AzureMlSecret="
USUAL_PORT = 22
_PACKAGES = """\
# The packages that runs need there. As long as there are none, the Python of the image is used.
name: project_environment
dependencies: []
"""


class ComputeFile(NamedTuple):
    """The values of a file. `kind` is one of the types above; passwords and keys are references into the key store."""

    name: str
    kind: str
    host: str = ""
    port: Optional[int] = None
    username: str = ""
    base_image: Optional[str] = None
    shared_volumes: bool = True
    has_gpus: bool = False
    shared_directory: Optional[str] = None
    is_user_managed: bool = False
    python: Optional[str] = None
    spark_submit: Optional[str] = None
    password: Optional[str] = None
    private_key: Optional[str] = None

    @property
    def is_container(self) -> bool:
        return self.kind in (DOCKER, REMOTE_DOCKER)


def join_address(host: str, port: int | None) -> str:
    """The address, with a port that is not the usual one."""
    return names.join_address(host, None if port == USUAL_PORT else port)


def has_compute_file(kind: str) -> bool:
    """Whether attached targets of that kind have a `.compute` file."""
    return kind == KINDS[REMOTE]


def has_folder(project: str) -> bool:
    return any(os.path.isdir(os.path.join(project, folder)) for folder in FOLDERS)


def find(project: str, name: str) -> ComputeFile | None:
    """The file of that name in the configuration folder of `project`, which may be that folder itself."""
    if os.path.basename(os.path.abspath(project)) in FOLDERS:
        project = os.path.dirname(os.path.abspath(project))
    for folder in FOLDERS:
        path = os.path.join(project, folder, name + EXTENSION)
        if os.path.isfile(path):
            return read(path)
    return None


def read(path: str) -> ComputeFile:
    """Read a file. It is read again, with its warnings, only after it has changed."""
    try:
        state = os.stat(path)
    except OSError:
        return _read(path, 0, 0)  # raises the error
    return _read(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=100)
def _read(path: str, modified: int, size: int) -> ComputeFile:
    body, source = yaml.load_located(path)
    if not isinstance(body, dict):
        raise RunConfigurationException(f"{source.beginning()} is not a compute target, which is a map of settings.")
    warn_of_misspelt(body, [key for key in body if key not in _KEYS], _KEYS, "", source)
    for key in _TRUTHS:
        if body.get(key) not in (None, True, False):
            place = source.named(body, key, key)
            raise RunConfigurationException(f"{place} is true or false, not {body[key]!r:.100}.")
    host, port = _address(body, source)
    return ComputeFile(
        name=os.path.basename(path)[: -len(EXTENSION)],
        kind=_kind(body, source),
        host=host,
        port=port,
        username=str(body.get("username") or ""),
        base_image=body.get("baseDockerImage"),
        shared_volumes=body.get("sharedVolumes") is not False,
        has_gpus=bool(body.get("nvidiaDocker")),
        shared_directory=body.get("nativeSharedDirectory"),
        is_user_managed=bool(body.get("userManagedEnvironment")),
        python=body.get("pythonLocation"),
        spark_submit=body.get("sparkSubmitLocation"),
        password=_reference(body, "password"),
        private_key=_reference(body, "privateKey"),
    )


def _address(body: dict[str, Any], source: SourceFile) -> tuple[str, int | None]:
    address = body.get("address")
    text = address.strip() if isinstance(address, str) else ""
    host, port = names.split_address(text)
    is_name = ":" not in host and " " not in host and not host.startswith(("[", "-"))
    if address is None or (host and (is_name or _is_ipv6(host)) and (port is None or 0 < port < 1 << 16)):
        return host, port
    place = source.named(body, "address", "address")
    raise RunConfigurationException(f"{place} is HOST or HOST:PORT, not {address!r:.100}.")


def _is_ipv6(host: str) -> bool:
    import ipaddress

    try:
        return bool(ipaddress.IPv6Address(host.partition("%")[0]))
    except ValueError:
        return False


def _reference(body: dict[str, Any], key: str) -> str | None:
    """A reference into the key store. A password in plain text is ignored."""
    value = str(body.get(key) or "")
    return value if value.startswith(_SECRET) else None


def _kind(body: dict[str, Any], source: SourceFile) -> str:
    """The type; the earliest files have `cluster: True` or `native: True` in its place."""
    kind = str(body.get("type") or "").lower()
    if kind == _LOCAL_DOCKER:
        return DOCKER
    if kind in _TYPES:
        return kind
    if kind:
        raise RunConfigurationException(
            f"{source.where(body, 'type')}: there is no type {kind:.100}.", f"There are: {', '.join(_TYPES)}."
        )
    is_remote = bool(body.get("address"))
    if body.get("cluster") is True:
        return CLUSTER
    if body.get("native") is True:
        return REMOTE if is_remote else LOCAL
    return REMOTE_DOCKER if is_remote else DOCKER


def write(target: dict[str, Any], project: str, generation: str = "") -> list[str]:
    """Write NAME.compute and, if it does not exist, NAME.runconfig. Returns the paths, relative to the project."""
    from windlass.client.config.run_configuration import config_folder

    folder = generation or config_folder(project)
    place = os.path.join(project, folder)
    os.makedirs(place, exist_ok=True)
    name = target["name"]
    written = [os.path.join(folder, name + EXTENSION)]
    yaml.write(os.path.join(project, written[0]), describe(target))
    if not os.path.exists(os.path.join(project, folder, name + RUN_EXTENSION)):
        return [*written, *write_configuration(target, project, name, folder)]
    return [*written, *_write_packages(target, project, folder)]


def write_configuration(target: dict[str, Any], project: str, name: str, generation: str = "") -> list[str]:
    """Write a run configuration for a target, in the format of the project's folder, and the conda file that it names.
    Returns the written paths, relative to the project; the run configuration is the last one.
    """
    from windlass.client.config import workbench
    from windlass.client.config.run_configuration import config_folder

    folder = generation or config_folder(project)
    os.makedirs(os.path.join(project, folder), exist_ok=True)
    path = os.path.join(folder, name + RUN_EXTENSION)
    make = workbench.configuration if folder == "aml_config" else _configuration
    packages = _write_packages(target, project, folder)
    yaml.write(os.path.join(project, path), make(target))
    return [*packages, path]


def _write_packages(target: dict[str, Any], project: str, folder: str) -> list[str]:
    """Write the conda file of a Workbench project for a target whose runs use containers, unless it exists."""
    from windlass.client.environments.conda_dependencies import CONDA_FILE, find_conda_file

    packages = os.path.join(folder, CONDA_FILE)
    is_there = os.path.isfile(find_conda_file(os.path.join(project, packages)))
    if folder != "aml_config" or not uses_containers(target) or is_there:
        return []
    _write_text(os.path.join(project, packages), _PACKAGES)
    return [packages]


def describe(target: dict[str, Any]) -> dict[str, Any]:
    """The keys of a `.compute` file for a target."""
    return to_body(_of_target(target))


def _of_target(target: dict[str, Any]) -> ComputeFile:
    config = target["config"]
    reference = f"{_SECRET}{target['name']}#{config['username']}#{uuid.uuid4().hex}"
    login = config.get("login")
    made = ComputeFile(
        name=target["name"],
        kind=REMOTE_DOCKER if uses_containers(target) else REMOTE,
        host=config["address"],
        port=config.get("port"),
        username=config["username"],
        password=reference if login == "password" else None,
        private_key=reference if login in ("key", "workspace-key") else None,
    )
    if made.is_container:
        return made._replace(has_gpus=_has_gpus(target), base_image=config.get("base_image"))
    python = config.get("python") or "python3"
    return made._replace(is_user_managed=True, python=python, shared_directory=_SHARE)  # not shared with containers


def to_body(compute: ComputeFile) -> dict[str, Any]:
    """The keys of a `.compute` file, sorted as Workbench wrote them."""
    body: dict[str, Any] = {
        "type": compute.kind,
        "address": join_address(compute.host, compute.port),
        "username": compute.username,
        "password": compute.password,
        "privateKey": compute.private_key,
        "baseDockerImage": compute.base_image,
        "nativeSharedDirectory": compute.shared_directory,
        "pythonLocation": compute.python,
        "sparkSubmitLocation": compute.spark_submit,
        "userManagedEnvironment": compute.is_user_managed or None,
    }
    if compute.is_container:
        body.update(sharedVolumes=compute.shared_volumes, nvidiaDocker=compute.has_gpus)
    return {key: body[key] for key in sorted(body) if body[key] not in (None, "")}


def remove(project: str, name: str) -> list[str]:
    """Remove the `.compute` files of a detached target and return their paths; run configurations stay."""
    gone = []
    for folder in FOLDERS:
        path = os.path.join(folder, name + EXTENSION)
        if os.path.isfile(os.path.join(project, path)):
            os.remove(os.path.join(project, path))
            gone.append(path)
    return gone


def uses_containers(target: dict[str, Any]) -> bool:
    """Whether all its runs execute in containers."""
    return target["kind"] == DOCKER or bool(target["config"].get("docker"))


def _has_gpus(target: dict[str, Any]) -> bool:
    return bool((target.get("inventory") or {}).get("gpus"))


def _configuration(target: dict[str, Any]) -> dict[str, Any]:
    """A run configuration of the second generation for the target, without the settings of its `.compute` file."""
    from windlass.client.config.run_configuration import RunConfiguration

    made = RunConfiguration()
    made.target = target["name"]
    made.docker.use_docker = uses_containers(target)
    body = made.to_dict()
    del body["environment"]["python"], body["environment"]["docker"]
    return body


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
