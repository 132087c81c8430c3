"""Validation of run specifications: each is checked once, here; other modules rely on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from windlass.core import names
from windlass.core.codec import from_wire
from windlass.core.entities import (
    Container,
    Distribution,
    EnvironmentSpec,
    Resources,
    RetryPolicy,
    RunSpec,
    SnapshotFile,
)
from windlass.core.errors import InvalidRequest, TooLarge

# What Linux gives to a new process: one string, and all of them together.
LONGEST_STRING = 128 * 1024 - 1
LONGEST_TOGETHER = 1 << 20
MAX_FILES = 300_000
MAX_SECRETS = 1000
MAX_SECONDS = 10 * 365 * 86400
MAX_DOCKERFILE = 1 << 16
MAX_DOCKER_OPTIONS = 200
MAX_RETRIES = 100
MAX_PROCESSES = 10_000
FRAMEWORKS = ("mpi", "pytorch", "tensorflow")
BACKENDS = ("nccl", "gloo")


class FromWire:
    """A field that `codec` converts to a dataclass. Its JSON schema is that of the dataclass."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = TypeAdapter(self._kind).json_schema()
        closed: dict[str, Any] = _closed(_inlined(found, found.pop("$defs", {})))
        return closed

    def _read(self, value: Any) -> Any:
        return from_wire(self._kind, value, strict=True, where="spec")


def check_spec(spec: RunSpec) -> None:
    if spec.script is None and not spec.command:
        raise InvalidRequest("A run needs a script or a command.")
    if spec.script is not None:
        names.relative_path(spec.script)
    names.target_name(spec.target)
    _check_strings("argument", [*spec.arguments, *spec.command])
    _check_variables({**spec.environment.variables, **spec.environment_variables})
    check_environment(spec.environment)
    _check_container(spec.container)
    _check_resources(spec.resources)
    _check_distribution(spec.distribution)
    _within("max_run_duration_seconds", spec.max_run_duration_seconds, 1, MAX_SECONDS)
    _within("grace_seconds", spec.grace_seconds, 0, 86400)
    _within("priority", spec.priority, -1000, 1000)
    _check_retries(spec.retries)
    for folder in spec.directories_to_watch:
        names.relative_path(folder.strip("/") if folder.strip("/") else folder)
    if len(spec.secrets) > MAX_SECRETS:
        raise TooLarge(f"A run names at most {MAX_SECRETS} secrets; this one names {len(spec.secrets)}.")
    for name in spec.secrets:
        names.secret_name(name)
    if spec.snapshot is not None:
        names.digest(spec.snapshot)


def check_files(files: Sequence[SnapshotFile]) -> None:
    if len(files) > MAX_FILES:
        raise TooLarge(f"A snapshot has at most {MAX_FILES} files; this one has {len(files)}.")
    paths: set[str] = set()
    for file in files:
        names.relative_path(file.path)
        names.digest(file.digest)
        if file.size < 0:
            raise InvalidRequest(f"The size of {file.path} is negative.")
        if file.path in paths:
            raise InvalidRequest(f"The file {file.path} stands twice in the snapshot.")
        paths.add(file.path)
    folders = {path.rpartition("/")[0] for path in paths}
    while folders:
        for folder in folders & paths:
            raise InvalidRequest(f"In the snapshot {folder} is a file and a folder.")
        folders = {folder.rpartition("/")[0] for folder in folders} - {""}


def check_script(spec: RunSpec, paths: Iterable[str]) -> None:
    if spec.script is not None and spec.script not in paths:
        raise InvalidRequest(
            f"The script {spec.script} is not in the source folder.",
            "Check its name, the source directory, and the ignore file.",
        )


def _check_strings(what: str, texts: Sequence[str]) -> None:
    together = 0
    for text in texts:
        size = len(text.encode())
        together += size + 9
        if "\0" in text:
            raise InvalidRequest(f"An {what} has a NUL character, which no program can be given.")
        if size > LONGEST_STRING:
            raise TooLarge(f"An {what} has {size} bytes; a program takes at most {LONGEST_STRING}. Use a file.")
    if together > LONGEST_TOGETHER:
        raise TooLarge(f"All {what}s together have more than {LONGEST_TOGETHER} bytes. Use a file.")


def _check_variables(variables: dict[str, str]) -> None:
    for name in variables:
        names.variable_name(name)
    _check_strings("environment variable", [f"{name}={value}" for name, value in variables.items()])


def check_environment(environment: EnvironmentSpec) -> None:
    lines = [*environment.pip, *environment.pip_options, *environment.conda, *environment.channels]
    lines += [environment.name, environment.version or "", environment.python_version or ""]
    for line in lines:
        if "\n" in line or "\r" in line or "\0" in line:
            raise InvalidRequest(f"A line of the environment has a line break or NUL in it: {ascii(line[:60])}")
    names.printable("An environment's name", environment.name)
    if environment.interpreter is not None:
        if not environment.interpreter or "\0" in environment.interpreter:
            raise InvalidRequest("The environment's interpreter is not a path.")
        if len(environment.interpreter.encode()) > names.MAX_PATH:
            raise InvalidRequest("The path of the environment's interpreter is too long.")
    if environment.image is not None:
        names.image_reference(environment.image)
    if environment.dockerfile is not None:
        _check_dockerfile(environment.dockerfile)
    if environment.image is not None and environment.dockerfile is not None:
        raise InvalidRequest("An environment has an image or a Dockerfile, not both.")


def _check_dockerfile(text: str) -> None:
    if not text.strip() or "\0" in text:
        raise InvalidRequest("The environment's Dockerfile is empty, or has a NUL character.")
    if len(text.encode()) > MAX_DOCKERFILE:
        raise TooLarge(f"A Dockerfile has at most {MAX_DOCKERFILE} bytes.")
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if not lines or lines[0].split()[0].upper() not in ("FROM", "ARG"):
        raise InvalidRequest("A Dockerfile begins with FROM and the image that it starts from.")


def _check_container(container: Container | None) -> None:
    """Check texts and sizes only: which Docker options are allowed is decided by the plan of the target's driver."""
    if container is not None:
        _check_strings("option of Docker", container.arguments)
        _within("container.shm_size_mb", container.shm_size_mb, 1, 1 << 20)
        if len(container.arguments) > MAX_DOCKER_OPTIONS:
            raise TooLarge(f"A container has at most {MAX_DOCKER_OPTIONS} options of Docker.")


def _check_resources(resources: Resources) -> None:
    _within("resources.nodes", resources.nodes, 1, 100_000)
    _within("resources.cpus", resources.cpus, 0.001, 1_000_000)
    _within("resources.gpus", resources.gpus, 0, 1_000_000)
    _within("resources.memory_mb", resources.memory_mb, 1, 1 << 40)


def _check_retries(retries: RetryPolicy) -> None:
    _within("retries.count", retries.count, 0, MAX_RETRIES)
    _within("retries.evictions", retries.evictions, 0, MAX_RETRIES)
    if len(retries.on) > MAX_RETRIES:
        raise TooLarge(f"retries.on names at most {MAX_RETRIES} ends of an attempt; this one names {len(retries.on)}.")
    for condition in retries.on:
        names.retry_condition(condition)


def _check_distribution(found: Distribution | None) -> None:
    if found is None:
        return
    if found.framework not in FRAMEWORKS:
        raise InvalidRequest(
            f"distribution.framework must be one of {', '.join(FRAMEWORKS)}, not {found.framework!a:.60}."
        )
    if found.backend not in ("", *BACKENDS):
        raise InvalidRequest(f"distribution.backend must be {' or '.join(BACKENDS)}, not {found.backend!a:.60}.")
    _within("distribution.processes_per_node", found.processes_per_node, 1, MAX_PROCESSES)
    _within("distribution.process_count", found.process_count, 1, MAX_PROCESSES)
    _within("distribution.workers", found.workers, 1, MAX_PROCESSES)
    _within("distribution.parameter_servers", found.parameter_servers, 0, MAX_PROCESSES)


def _within(what: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise InvalidRequest(f"{what} must be from {least} to {most}, not {value}.")


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {key: _inlined(value, definitions) for key, value in schema.items()}
    return [_inlined(item, definitions) for item in schema] if isinstance(schema, list) else schema


def _closed(schema: Any) -> Any:
    """The schema with `additionalProperties: false`, since unknown keys are refused."""
    if isinstance(schema, dict):
        closed = {key: _closed(value) for key, value in schema.items()}
        if "properties" in closed:
            closed["additionalProperties"] = False
        return closed
    return [_closed(item) for item in schema] if isinstance(schema, list) else schema
