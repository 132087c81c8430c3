"""Command job files of Azure's CLI v2, converted to a ScriptRunConfig.

Literal inputs are inserted in the command line. An input that is a file or folder of this machine is passed as a path
inside the code folder, or as an absolute path for a run on `local`. An output is `outputs/NAME`, which is stored with
the run. A shell executes the command.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, NamedTuple, Optional

from windlass.client.config import yaml, yaml_map
from windlass.client.config.yaml_map import YamlMap
from windlass.client.environments import environment_file
from windlass.client.exceptions import NotProvided, UserErrorException

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.environments.environment import Environment
    from windlass.client.submit.script_run_config import ScriptRunConfig
    from windlass.client.workspace.workspace import Workspace

_COMMAND = "command"
_TYPES = (_COMMAND, "pipeline", "sweep", "automl", "spark", "parallel", "import", "finetuning", "distillation")
_KEYS = (
    "type", "name", "display_name", "experiment_name", "description", "tags", "properties", "command", "code",
    "environment", "environment_variables", "inputs", "outputs", "compute", "resources", "distribution", "limits",
    "services", "identity", "queue_settings", "parent_job_name",
)  # fmt: skip
# Written by `az ml job show`, without meaning in a file that creates one.
_OUTPUT_ONLY = ("id", "status", "creation_context", "log_files", "parameters", "error")
_OWN_SERVICES = ("Studio", "Tracking")  # shown by `az ml job show`, not started by a job
_OWN_PROPERTIES = ("azureml.", "_azureml.", "mlflow.", "replaced.")  # prefixes of properties that the service sets
_CODE_OF_JOB = re.compile(r"azureml:/workspaces/[^/]+/jobs/(?P<job>[^/]+)/code\Z")
_DEFAULT_OUTPUT = "default"  # all files in ./outputs
# Settings for kinds of targets that only Azure has.
_WITHOUT_MEANING = (
    ("", "identity"), ("queue_settings", "job_tier"), ("resources", "instance_type"), ("resources", "properties"),
    ("resources", "locations"), ("resources", "max_instance_count"),
)  # fmt: skip
_RESOURCES = (
    "instance_count", "instance_type", "shm_size", "docker_args", "properties", "locations", "max_instance_count",
)  # fmt: skip
_FILE, _FOLDER = "uri_file", "uri_folder"
_DATA = (_FILE, _FOLDER, "mltable", "custom_model", "mlflow_model", "triton_model")
_LITERALS = ("string", "number", "integer", "boolean")
_INPUT = ("type", "path", "mode", "datastore", "value", "default", "description", "optional")
_OUTPUT = ("type", "path", "mode", "name", "version", "description")
_PRIORITIES = {"low": -1, "medium": 0, "high": 1}
_TIERS = ("null", "spot", "basic", "standard", "premium")
_REFERENCE = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_ENVIRONMENT = re.compile(r"(?:azureml:)?(?P<name>[^:@/]+)(?:@(?P<label>[^:@/]+)|:(?P<version>[^:@/]+))?\Z")
_LONG_ENVIRONMENT = re.compile(
    r"azureml:/(?:/registries/(?P<registry>[^/]+)|/?subscriptions/.*)/environments/(?P<name>[^/]+)"
    r"(?:/versions/(?P<version>[^/]+)|/labels/(?P<label>[^/]+))?\Z"
)
_LOCAL = "local"
_OUTPUTS = "outputs"


class EnvironmentReference(NamedTuple):
    """A registered environment that a job names; its latest version if `version` is None."""

    name: str
    version: Optional[str]

    def fetch(self, workspace: Workspace) -> Environment:
        from windlass.client.environments.environment import Environment

        return Environment.get(workspace, self.name, self.version)


class JobOrigin(NamedTuple):
    """Data of a job file that the run keeps."""

    definition: Dict[str, Any]  # command, inputs and outputs, in the format of `az ml job show`
    places: Dict[str, str]  # file and line of settings that may be refused later
    file: YamlMap  # a reference that keeps a temporary folder with its code alive


@dataclass
class JobFile:
    """The content of a job file. `body` is the file's map, with the values of --set."""

    path: str = field(compare=False)
    body: Dict[str, Any]
    name: Optional[str]
    display_name: Optional[str]
    experiment_name: Optional[str]
    description: Optional[str]
    tags: Dict[str, str]
    properties: Dict[str, str]
    environment: Optional[EnvironmentReference]  # the registered one that the job names; None after resolve()
    _file: YamlMap = field(repr=False, compare=False)
    _config: ScriptRunConfig = field(repr=False, compare=False)

    @property
    def config(self) -> ScriptRunConfig:
        """The configuration to submit. A job that names a registered environment needs resolve() first."""
        if self.environment is not None:
            raise UserErrorException(
                f"{self.path} names the environment {self.environment.name} of a workspace, which was not fetched.",
                "Call resolve(workspace), or load(path, workspace=workspace).",
            )
        return self._config

    def resolve(self, workspace: Workspace) -> ScriptRunConfig:
        """Request the registered environment, if the job names one, and return the configuration."""
        if self.environment is not None:
            self._config = _configuration(self._file, self.environment.fetch(workspace))
            self.environment = None
        return self._config


def load(path: str, overrides: Iterable[str] = (), workspace: Workspace | None = None) -> JobFile:
    """Read a file. `overrides` are texts such as `inputs.alpha=0.2` that replace values of the file. A registered
    environment that the job names is requested from the workspace, or later by resolve().
    """
    file = yaml_map.load(path, "job", overrides)
    kind = file.choice("type", _TYPES) or _COMMAND
    if kind != _COMMAND:
        raise NotProvided(
            f"{file.where('type')}: a job of type {kind}", "Submit each of its commands as a job of type command."
        )
    file.check_keys((*_KEYS, *_OUTPUT_ONLY))
    _warn_of_meaningless(file)
    is_answer = "id" in file and "status" in file  # output of `az ml job show`
    body = dict(file.body)
    _fetch_code(file, workspace)
    environment = _environment(file)
    if isinstance(environment, EnvironmentReference) and workspace is not None:
        environment = environment.fetch(workspace)
    reference = environment if isinstance(environment, EnvironmentReference) else None
    config = _configuration(file, None if isinstance(environment, EnvironmentReference) else environment)
    properties = file.texts("properties")
    return JobFile(
        path=path,
        body=body,
        name=None if is_answer else file.text("name"),
        display_name=file.text("display_name"),
        experiment_name=file.text("experiment_name"),
        description=file.text("description"),
        tags=file.texts("tags"),
        properties={key: text for key, text in properties.items() if not key.startswith(_OWN_PROPERTIES)},
        environment=reference,
        _file=file,
        _config=config,
    )


def _warn_of_meaningless(file: YamlMap) -> None:
    """Print a warning for each setting that has no effect here."""
    for parent, key in _WITHOUT_MEANING:
        found = file.map(parent) if parent else file
        if key in found:
            name = f"{parent}.{key}" if parent else key
            print(f"Warning: {found.where(key)}: {name} has no meaning here.", file=sys.stderr)


def _fetch_code(file: YamlMap, workspace: Workspace | None) -> None:
    """If `code` names the code of an earlier job, download it to a temporary folder, removed with the map object."""
    found = _CODE_OF_JOB.match(str(file.body.get("code") or ""))
    if found is None:
        return
    if workspace is None:
        raise UserErrorException(
            f"{file.where('code')}: the code of the job {found.group('job')} was not fetched.",
            "Call load(path, workspace=workspace).",
        )
    folder = tempfile.mkdtemp(prefix="windlass-job-")
    weakref.finalize(file, shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(workspace.get_run(found.group("job")).restore_snapshot(path=folder)) as archive:
        code = os.path.join(folder, "code")
        os.mkdir(code)
        for entry in archive.infolist():
            os.chmod(archive.extract(entry, code), (entry.external_attr >> 16) & 0o777)
    file.body["code"] = code


def dump(job: JobFile, path: str) -> None:
    """Write a job to a file. Paths are made relative to the folder of that file; its comments are kept."""
    import copy

    body = copy.deepcopy(job.body)
    old, new = (os.path.dirname(os.path.abspath(file)) for file in (job.path, path))
    environment = str(body.get("environment"))
    if environment.startswith("file:"):
        body["environment"] = "file:" + os.path.relpath(os.path.join(old, environment[len("file:") :]), new)
    for at, key in _paths(body):
        said = at.get(key)
        if isinstance(said, str) and os.path.exists(os.path.join(old, said)):
            at[key] = os.path.relpath(os.path.join(old, said), new)
    yaml.write(path, body, like=job.path)


def _paths(body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The maps and keys of a job that may name a file or folder."""
    yield body, "code"
    environment = body.get("environment")
    if isinstance(environment, dict):
        yield environment, "conda_file"
        yield environment.get("build") or {}, "path"
    for each in (body.get("inputs") or {}).values():
        if isinstance(each, dict):
            yield each, "path"


def _configuration(file: YamlMap, environment: Environment | None) -> ScriptRunConfig:
    """The configuration for the file, with this environment; None if that was not requested yet."""
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.submit.script_run_config import ScriptRunConfig

    run_config = RunConfiguration()
    run_config.target = _target(file)
    _resources(file, run_config)
    _distribution(file, run_config)
    run_config.max_run_duration_seconds = file.map("limits", ("timeout",)).whole_number("timeout", least=1)
    run_config.environment_variables = file.texts("environment_variables")
    services = {key: said for key, said in file.map("services").body.items() if key not in _OWN_SERVICES}
    if services:
        run_config.services = services
    if environment is not None:
        run_config.environment = environment
        # Azure runs all jobs in containers; here those whose environment has an image.
        run_config.docker.use_docker = bool(environment.docker.base_image or environment.docker.base_dockerfile)
    code = _code(file)
    inputs = _inputs(file, code, run_config)
    run_config.command = _command(file, inputs)
    config = ScriptRunConfig(code, run_config=run_config)
    config._job = JobOrigin(_shown(file, inputs), _places(file), file)
    if code is None:
        config.source_directory = _empty_folder(config)
    return config


def _target(file: YamlMap) -> str:
    """The name of the target: `azureml:NAME`, `NAME`, Azure's long form, or `local`, which is the default."""
    said = file.text("compute")
    if said is None:
        return _LOCAL
    name = said.rstrip("/").rpartition("/")[2] if "/" in said else said
    name = name[len("azureml:") :] if name.startswith("azureml:") else name
    if not name:
        raise file.mistake("compute", "compute names no target.", "compute: azureml:NAME, or compute: local")
    return name


def _code(file: YamlMap) -> str | None:
    said = file.text("code")
    if said is None:
        return None
    if "://" in said or said.startswith(("azureml:", "git+")):
        raise NotProvided(
            f"{file.where('code')}: code that is not a folder of this machine", "Name a folder: `code: src`."
        )
    found = str(file.existing_path("code"))
    if not os.path.isdir(found):
        raise file.mistake("code", f"{found} is a file; code names a folder.", f"code: {os.path.dirname(said) or '.'}")
    return found


def _empty_folder(config: ScriptRunConfig) -> str:
    """The source of a job without code: an empty temporary folder, removed with the configuration object."""
    folder = tempfile.mkdtemp(prefix="windlass-job-")
    weakref.finalize(config, os.rmdir, folder)
    return folder


def _environment(file: YamlMap) -> Environment | EnvironmentReference:
    """An inline or curated environment; else the reference to a registered one."""
    from windlass.client.environments import curated
    from windlass.client.environments.environment import DEFAULT_NAME

    if "environment" not in file:
        raise UserErrorException(
            f"{file.source.path}: the key 'environment' is missing.", "environment: azureml:NAME@latest"
        )
    if isinstance(file.body["environment"], dict):
        return environment_file.read(file.map("environment"), DEFAULT_NAME, _code(file) or "")
    text = file.required_text("environment")
    if text.startswith("file:"):
        return environment_file.load(os.path.join(file.folder, text[len("file:") :]))
    found = _LONG_ENVIRONMENT.match(text) or _ENVIRONMENT.match(text)
    if found is None:
        raise file.mistake(
            "environment", f"{text!r:.100} names no environment.", "azureml:NAME:VERSION or azureml:NAME@latest"
        )
    name, version, label = found.group("name"), found.group("version"), found.group("label")
    if label not in (None, "latest"):
        raise file.mistake("environment", f"there is no label {label!r:.50}.", "The one label is `latest`.")
    if found.groupdict().get("registry") == "azureml" and not curated.is_curated(name):
        name = f"AzureML-{name}"  # in its registry the prefix is left out
    return curated.find(name) if curated.is_curated(name) else EnvironmentReference(name, version)


def _resources(file: YamlMap, run_config: RunConfiguration) -> None:
    resources = file.map("resources", _RESOURCES)
    run_config.node_count = resources.whole_number("instance_count", least=1) or 1
    run_config.kubernetescompute.instance_type = resources.text("instance_type")
    if "shm_size" in resources:
        run_config.docker.shm_size = resources.text("shm_size")
    if "docker_args" in resources:
        run_config.docker.arguments = _words(resources, "docker_args")
    queue = file.map("queue_settings", ("job_tier", "priority"))
    run_config.priority = _PRIORITIES.get(queue.choice("priority", _PRIORITIES) or "")
    if queue.choice("job_tier", _TIERS) == "spot":
        run_config.amlcompute.vm_priority = "lowpriority"


def _words(resources: YamlMap, key: str) -> list[str]:
    import shlex

    if isinstance(resources.body[key], list):
        return [str(word) for word in resources.body[key]]
    try:
        return shlex.split(resources.text(key) or "")
    except ValueError as e:
        raise resources.mistake(key, f"{key} cannot be split into words: {str(e).lower()}.") from None


def _distribution(file: YamlMap, run_config: RunConfiguration) -> None:
    from windlass.client.config.run_sections import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration

    if "distribution" not in file:
        return
    said = file.map("distribution")
    nodes = run_config.node_count
    said.required_text("type")
    kind = said.choice("type", ("mpi", "pytorch", "tensorflow", "ray"))
    if kind == "ray":
        raise NotProvided(f"{said.where('type')}: a distribution of type ray", "Start Ray in the command.")
    if kind == "tensorflow":
        said.check_keys(("type", "worker_count", "parameter_server_count"))
        workers, servers = said.whole_number("worker_count", least=1), said.whole_number("parameter_server_count")
        run_config.tensorflow = TensorflowConfiguration(workers or nodes, servers or 0)
        run_config.framework, run_config.communicator = "TensorFlow", "ParameterServer"
        return
    said.check_keys(("type", "process_count_per_instance"))
    count = said.whole_number("process_count_per_instance", least=1) or 1
    if kind == "pytorch":
        run_config.pytorch = PyTorchConfiguration(process_count=count * nodes, node_count=nodes)
        run_config.framework, run_config.communicator = "PyTorch", run_config.pytorch.communication_backend
    else:
        run_config.mpi = MpiConfiguration(count, nodes)
        run_config.framework, run_config.communicator = "Python", "IntelMpi"


def _places(file: YamlMap) -> dict[str, str]:
    resources = file.map("resources")
    return {"node_count": resources.where("instance_count")} if "instance_count" in resources else {}


def _inputs(file: YamlMap, code: str | None, run_config: RunConfiguration) -> dict[str, str]:
    inputs = file.map("inputs")
    return {name: _input(inputs, name, code, run_config) for name in inputs.body}


def _shown(file: YamlMap, inputs: dict[str, str]) -> dict[str, Any]:
    """Command, inputs and outputs for the run's record. Paths are those in the command."""
    said = file.map("inputs").body
    outputs = file.map("outputs")
    kinds = {name: outputs.map(name).text("type") or _FOLDER for name in outputs.body if name != _DEFAULT_OUTPUT}
    return {
        "command": file.required_text("command"),
        "inputs": {name: text if isinstance(said[name], dict) else said[name] for name, text in inputs.items()},
        "outputs": {name: {"type": kind} for name, kind in kinds.items()},
    }


def _command(file: YamlMap, inputs: dict[str, str]) -> str:
    """The command with its references replaced by the values of inputs and the folders of outputs."""
    text = file.required_text("command")
    outputs = file.map("outputs")
    values = {f"inputs.{name}": value for name, value in inputs.items()}
    used = [name for name in outputs.body if name != _DEFAULT_OUTPUT or f"outputs.{_DEFAULT_OUTPUT}" in text]
    made = {f"outputs.{name}": _output(outputs, name) for name in used}
    values.update({reference: f"{_OUTPUTS}/{reference.partition('.')[2]}" for reference in made})

    def value(found: re.Match[str]) -> str:
        if found.group(1) not in values:
            known = ", ".join(values) or "no inputs and no outputs"
            raise file.mistake("command", f"{found.group()} is unknown.", f"The job has {known}.")
        return values[found.group(1)]

    resolved = _REFERENCE.sub(value, text)
    folders = sorted({folder for folder in made.values()})
    return f"mkdir -p {' '.join(folders)}\n{resolved}" if folders else resolved


def _input(inputs: YamlMap, name: str, code: str | None, run_config: RunConfiguration) -> str:
    """The text of an input in the command line."""
    if not isinstance(inputs.body[name], dict):
        return inputs.text(name) or ""
    said = inputs.map(name, _INPUT)
    kind = said.choice("type", (*_DATA, *_LITERALS)) or _FOLDER
    if kind in _LITERALS or "path" not in said:
        literal = next((key for key in ("value", "default") if key in said), None)
        if literal is None:
            raise inputs.mistake(name, f"the input {name} has neither a path nor a value.")
        return said.text(literal) or ""
    return _data(said, kind, code, run_config)


def _data(said: YamlMap, kind: str, code: str | None, run_config: RunConfiguration) -> str:
    path = said.text("path") or ""
    if path.startswith(("http://", "https://")) and kind == _FILE:
        print(f"Warning: {said.where('path')}: the command gets the address itself, not a file.", file=sys.stderr)
        return path
    if "://" in path or path.startswith("azureml:"):
        raise NotProvided(
            f"{said.where('path')}: data that is not a file or folder of this machine",
            "Download it into the code folder and name it by its path, or pass an address as a text.",
        )
    full = str(said.existing_path("path"))
    if code is not None and (full == code or full.startswith(code.rstrip(os.sep) + os.sep)):
        return os.path.relpath(full, code)
    if run_config.target == _LOCAL and not run_config.docker.use_docker:
        return full
    raise NotProvided(
        f"{said.where('path')}: data outside of the code folder, for a run that is not on this machine itself",
        "Put it into the code folder, or pass a path on the target as a text.",
    )


def _output(outputs: YamlMap, name: str) -> str:
    """The folder to create before the command writes the output."""
    said = outputs.map(name, _OUTPUT)
    kind = said.choice("type", _DATA)
    if "path" in said:
        raise NotProvided(
            f"{said.where('path')}: an output with a path",
            f"Leave it out: it is kept with the run, as {_OUTPUTS}/{name}.",
        )
    if not re.match(r"[A-Za-z0-9_.\-]+\Z", name):
        raise outputs.mistake(name, f"{name!r:.100} is not a name of an output.", "Use letters, digits and `_`.")
    return _OUTPUTS if kind == _FILE else f"{_OUTPUTS}/{name}"
