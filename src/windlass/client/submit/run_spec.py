"""Build a RunSpec from a ScriptRunConfig."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Iterator

from windlass.client import names
from windlass.client.config import yaml
from windlass.client.environments import conda_lines, requirements
from windlass.client.environments.conda_dependencies import CondaDependencies
from windlass.client.environments.sdk_packages import is_sdk, warn_of_companions
from windlass.client.exceptions import NotProvided, UserErrorException
from windlass.client.submit.container_spec import container_of, image_of
from windlass.client.submit.local_wheels import Wheels
from windlass.client.submit.resources import distribution_of, resources_of
from windlass.core import names as names_of_core
from windlass.core.entities import EnvironmentSpec, RetryPolicy, RunSpec

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.environments.environment import Environment
    from windlass.client.environments.sections import PythonSection
    from windlass.client.submit.script_run_config import ScriptRunConfig

_LOCAL = "local"
# Tools of every environment. With nothing but these in it, no environment is built.
_TOOLS = ("pip", "python", "setuptools", "wheel")
_SHELL_SYNTAX = ("&&", "||", "|", ";", ">", ">>", "<", "&", "2>&1")


def run_spec(config: ScriptRunConfig, wheels: Wheels | None = None, words: tuple[str, ...] = ()) -> RunSpec:
    """Refuse what cannot work, before anything is sent. Local files of the environment are collected in `wheels`.
    `words` is a command line that replaces script and command, and is executed as it is.
    """
    run_config = config.run_config
    job = getattr(config, "_job", None)
    _refuse_unsupported(run_config)
    container = container_of(run_config)
    command = words or command_words(config.command)
    script = _script(config) if not command else None
    arguments = argument_words(config.arguments)
    if command and config.script and not words:
        raise UserErrorException("Both script and command are given; a run has one of them.")
    return RunSpec(
        script=script,
        arguments=() if command else arguments,
        command=command,
        target=run_config.target,
        # In a container, the interpreter of this process does not exist.
        environment=environment_spec(run_config.environment, run_config.target if container is None else "", wheels),
        environment_variables=_variables(run_config.environment_variables),
        container=container,
        secrets=_secrets(run_config.secrets),
        resources=resources_of(run_config),
        distribution=distribution_of(run_config),
        max_run_duration_seconds=_duration(run_config),
        output_collection=bool(run_config.history.output_collection),
        directories_to_watch=tuple(str(name) for name in run_config.history.directories_to_watch or ()),
        priority=run_config.priority or 0,
        retries=_retries(run_config),
        definition={
            **_definition(run_config, script, arguments, command),
            **({} if job is None else {"job": job.definition}),
        },
    )


def environment_spec(environment: Environment, target: str, wheels: Wheels | None = None) -> EnvironmentSpec:
    """An existing interpreter, or packages to install. Local wheels among them are collected in `wheels`."""
    python = environment.python
    packages = _packages(python)
    own = {} if packages is None else packages.variables
    variables = _variables({**own, **(environment.environment_variables or {})})
    common: dict[str, Any] = {"name": environment.name or "", "version": environment.version, "variables": variables}
    common.update(image_of(environment))
    if python.user_managed_dependencies or packages is None:
        return EnvironmentSpec(interpreter=_interpreter(python.interpreter_path, target), **common)
    conda = tuple(_conda_lines(packages))
    pip = tuple(_pip_lines(packages, wheels or Wheels()))
    warn_of_companions((*conda, *pip))
    if not packages.python_is_chosen and all(is_sdk(line) or line in _TOOLS for line in (*conda, *pip)):
        return EnvironmentSpec(interpreter=_interpreter("python", target), **common)
    return EnvironmentSpec(
        python_version=packages.get_python_version(),
        pip=pip,
        pip_options=tuple(packages.pip_options),
        conda=conda,
        channels=tuple(_channels(packages)) if any(map(_needs_conda, conda)) else (),
        strict=python.strict,
        **common,
    )


def _packages(python: PythonSection) -> CondaDependencies | None:
    """The environment's packages; read from the conda file if it is only named."""
    packages, file = python.conda_dependencies, python.conda_dependencies_file
    if not file or packages is None or python.user_managed_dependencies:
        return packages
    return CondaDependencies(file) if packages.as_dict() == CondaDependencies().as_dict() else packages


def _pip_lines(packages: CondaDependencies, wheels: Wheels) -> Iterator[str]:
    """The pip packages. Lines that no installer can read are refused.

    Packages of Azure's SDK are sent too: the runner leaves them out, with a note in the build log.
    """
    for line in (*packages.pip_options, *packages.pip_packages):
        problem = requirements.problem_of(line)
        if problem:
            raise UserErrorException(f"The pip package {line[:100]!r} {problem}")
    for line in packages.pip_packages:
        yield wheels.resolve(line, packages.base)


def _conda_lines(packages: CondaDependencies) -> list[str]:
    """The conda packages. Python is one of them only if it was chosen and others need conda."""
    lines = list(packages.conda_packages)
    pythons = [line for line in lines if conda_lines.name_of(line) == "python"]
    for line in lines:
        conda_lines.check(line, repr(line[:100]))
    if len(pythons) > 1:
        raise UserErrorException(
            f"Python is named twice: {' and '.join(pythons)}.", "One line says all: python>=3.8,<3.11"
        )
    is_python_listed = packages.python_is_chosen and any(map(_needs_conda, lines))
    return [line for line in lines if is_python_listed or line not in pythons]


def _needs_conda(line: str) -> bool:
    return conda_lines.name_of(line) not in _TOOLS and not is_sdk(line)


def _channels(packages: CondaDependencies) -> Iterator[str]:
    for channel in packages.conda_channels:
        conda_lines.check_channel(channel, packages.base or os.getcwd(), repr(channel))
        yield channel


def command_words(command: Any) -> tuple[str, ...]:
    """A text is executed by a shell, as in Azure; so is a list with shell syntax. Other lists are executed directly."""
    if not command:
        return ()
    if isinstance(command, str):
        return ("sh", "-c", _clean(command))
    words = [_argument(word) for word in command]
    if any(word in _SHELL_SYNTAX or "$" in word for word in words):
        return ("sh", "-c", " ".join(words))
    return ("{python}", *words[1:]) if words[0] in ("python", "python3") else tuple(words)


def argument_words(arguments: Any) -> tuple[str, ...]:
    """The arguments as a tuple. A text is split as a shell does."""
    if isinstance(arguments, str):
        import shlex

        try:
            return tuple(_clean(word) for word in shlex.split(arguments))
        except ValueError as e:
            raise UserErrorException(
                f"The arguments {arguments[:100]!r} cannot be split into words: {str(e).lower()}.",
                "Close the quote, or pass a list with one argument per element.",
            ) from None
    return tuple(_argument(value) for value in arguments or ())


def _interpreter(path: str | None, target: str) -> str:
    if path and path != "python":
        return os.path.expanduser(path) if target == _LOCAL else path  # on another machine `~` is another folder
    return sys.executable if target == _LOCAL and sys.executable else "python3"


def _script(config: ScriptRunConfig) -> str:
    """The script's path inside the source folder."""
    folder = os.path.abspath(config.source_directory)
    if not config.script:
        raise UserErrorException("There is nothing to run.", "Name a script or a command in the ScriptRunConfig.")
    script = os.fspath(config.script)
    full = os.path.normpath(os.path.join(folder, script))
    if not full.startswith(folder.rstrip(os.sep) + os.sep):
        raise UserErrorException(f"The script {script} is not inside the source directory {folder}.")
    if not os.path.isdir(folder):
        raise UserErrorException(f"There is no source directory {folder}.")
    if not os.path.isfile(full):
        what = "is a folder" if os.path.isdir(full) else "does not exist"
        raise UserErrorException(f"The script {script} {what} in the source directory {folder}.")
    return names.relative_path(os.path.relpath(full, folder).replace(os.sep, "/"))


def _argument(value: Any) -> str:
    if value is None:
        raise UserErrorException("An argument is None.", "Leave it out, or say what the script is to get.")
    if isinstance(value, (list, tuple, dict, set)):
        raise UserErrorException(f"An argument is a {type(value).__name__}: {value!r}", "Pass each value by itself.")
    return _clean(str(value))


def _clean(text: str) -> str:
    if "\0" in text:
        raise UserErrorException(f"An argument has a NUL character: {text[:60]!r}")
    return text


def _duration(run_config: RunConfiguration) -> int | None:
    seconds: Any = run_config.max_run_duration_seconds
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        place = yaml.place_of(run_config._file, "max_run_duration_seconds", seconds) or "max_run_duration_seconds"
        raise UserErrorException(f"{place} is a number of seconds above 0, not {seconds!r}.")
    return int(seconds)


def _variables(given: dict[str, Any] | None) -> dict[str, str]:
    found = {}
    for name, value in (given or {}).items():
        if value is None:
            raise UserErrorException(f"The environment variable {name} is None.")
        found[names.variable_name(str(name))] = _clean(str(value))
    return found


def _retries(run_config: RunConfiguration) -> RetryPolicy:
    count, conditions = run_config.retries, run_config.retry_on
    if isinstance(count, bool) or not isinstance(count, int):
        raise UserErrorException(f"retries is a whole number, not {count!r:.100}.", "run_config.retries = 2")
    if isinstance(conditions, str) or not all(isinstance(each, str) for each in conditions):
        how = 'run_config.retry_on = ["node-loss", "exit:75"]'
        raise UserErrorException(f"retry_on lists ends of an attempt, not {conditions!r:.100}.", how)
    return RetryPolicy(count, tuple(names_of_core.retry_condition(each) for each in conditions))


def _secrets(given: Any) -> tuple[str, ...]:
    if given is not None and not isinstance(given, (list, tuple)):
        raise UserErrorException(f"secrets lists the names of secrets, not {given!r}.", 'secrets = ["name"]')
    return tuple(dict.fromkeys(names.secret_name(str(name)) for name in given or ()))


def _definition(
    run_config: RunConfiguration, script: str | None, arguments: tuple[str, ...], command: tuple[str, ...]
) -> dict[str, Any]:
    """The run definition that get_details() returns."""
    body = run_config.to_dict()
    body.update(script=script, arguments=list(arguments), command=" ".join(command))
    return body


def _refuse_unsupported(run_config: RunConfiguration) -> None:
    """Raise for settings that Azure has and this version does not support, instead of ignoring them."""
    if run_config.framework.lower() == "pyspark":
        raise NotProvided(
            "Running on Spark", "Write `Framework: Python` (in code framework='Python') to run with Python."
        )
    if run_config.data_references or run_config.data or run_config.output_data:
        raise NotProvided("Data in a run configuration", "Pass paths as arguments of the script.")
