"""`-c NAME`: the project's run configuration of that name, if there is a file; else a target, with the packages of the
project's configuration, if it has any.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.cli.submit.environment import named_environment
from windlass.client.config.run_configuration_file import EXTENSION, FOLDERS
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.cli.context import CommandContext
    from windlass.cli.submit.script import Script
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.config.workbench_compute_file import ComputeFile
    from windlass.client.submit.snapshot import File

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
_ENDINGS = ("", EXTENSION, ".compute")
_CONDA_FILE = "conda_dependencies.yml"
_LOCAL = "local"  # uses existing packages


class Configured(NamedTuple):
    """A run by its configuration: RunSpec as JSON, script, and local files that its environment needs."""

    spec: dict[str, Any]
    script: Script
    files: Sequence[File] = ()
    file: str | None = None  # path of the run configuration
    builds: bool = True  # False: the submit is refused unless the environment is built


def find(
    context: CommandContext,
    name: str | None,
    script: Script,
    arguments: Sequence[str],
    target: str | None = None,
    environment: str | None = None,
) -> Configured | None:
    """The run by the configuration `name`; None if that is only a target, for which nothing is imported. `target` and
    `environment` replace those of the file.
    """
    project = _project(name, script.folder) if name and _NAME.match(name) else None
    if environment is None and (not name or (project is None and target is None)):
        return None
    configuration = load(project or os.curdir, name, target) if name else _empty()
    if environment is not None:
        configuration.environment = named_environment(context, environment)
    return _read(context, configuration, project or os.curdir, script, arguments)


def _empty() -> RunConfiguration:
    from windlass.client.config.run_configuration import RunConfiguration

    return RunConfiguration()


def load(project: str, name: str, target: str | None = None) -> RunConfiguration:
    """The run configuration `name` of a project, with another `target` if one is given."""
    from windlass.client.config import run_configuration
    from windlass.client.config.workbench import configuration_for
    from windlass.core import names

    if _NAME.match(name) and run_configuration.find_configuration(project, name) is not None:
        return run_configuration.load(project, name, target)
    if target is not None:
        from windlass.core.errors import NotFound

        raise NotFound(
            f"The project has no run configuration {escape(name)}.",
            f"Leave it out to run on {escape(target)}, or see what there is: windlass runconfiguration list",
        )
    return configuration_for(project, names.target_name(name))


def has_file(name: str, project: str) -> bool:
    """Whether a project has a run configuration of that name."""
    places = [os.path.join(project, inner, name + end) for inner in FOLDERS for end in _ENDINGS]
    return bool(_NAME.match(name)) and any(os.path.isfile(place) for place in places)


def _project(name: str, folder: str) -> str | None:
    """The folder with a configuration of that name: the submitted one, or the current one."""
    for project in dict.fromkeys((folder, os.curdir)):
        if has_file(name, project) or (name != _LOCAL and _names_packages(project)):
            return project
    return None


def _names_packages(project: str) -> bool:
    folders = filter(os.path.isdir, [os.path.join(project, inner) for inner in FOLDERS])
    return any(file.lower() == _CONDA_FILE for folder in folders for file in os.listdir(folder))


def _read(
    context: CommandContext, configuration: RunConfiguration, project: str, script: Script, arguments: Sequence[str]
) -> Configured:
    from windlass.client.config import workbench_compute_file
    from windlass.client.submit.local_wheels import Wheels
    from windlass.client.submit.run_spec import argument_words, run_spec
    from windlass.client.submit.script_run_config import ScriptRunConfig
    from windlass.core.codec import to_wire

    if not script.path and not script.command and not configuration.command:
        script = _script_of(configuration, script.folder)
    compute = workbench_compute_file.find(project, configuration.target)
    if compute is not None:
        _require_attached(context, compute, configuration.target)
    configuration.arguments = [*argument_words(configuration.arguments), *arguments]
    words: tuple[str, ...] = ()
    if script.command:
        words = (*script.command, *argument_words(configuration.arguments))
    if script.command or script.path:  # replaces the script of the file
        configuration.script, configuration.command = script.path or None, ""
    wheels = Wheels([script.folder])
    spec = run_spec(ScriptRunConfig(script.folder, run_config=configuration), wheels, words)
    builds = configuration.auto_prepare_environment
    return Configured(to_wire(spec), script, wheels.files(), configuration._file, builds)


def _script_of(configuration: RunConfiguration, folder: str) -> Script:
    """The script of the run configuration, for a command line without one."""
    from windlass.cli.submit.script import locate, missing_script

    if not configuration.script:
        raise missing_script()
    return locate(str(configuration.script), folder)


def _require_attached(context: CommandContext, compute: ComputeFile, target: str) -> None:
    """Compare the project's `.compute` file with the attached target: it must exist, and may have another address."""
    from windlass.client.config.workbench_compute_file import has_compute_file
    from windlass.core.errors import NotFound

    try:
        attached = context.get(f"/targets/{target}")
    except NotFound:
        raise NotFound(
            f"The project describes the target {target}, and this workspace has none of that name.",
            f"Attach it: {_attach_line(compute, target)}",
        ) from None
    wanted = _completed(compute, attached.get("config") or {})
    if has_compute_file(attached.get("kind", "")) and wanted is not None:
        context.terminal.note(
            f"Warning: the project describes {target} at {_where(wanted)}, and runs go to "
            f"{escape(attached['location'])}, "
            f"where it is attached.\n  If that is wrong: {_attach_line(wanted, target)} --update"
        )


def _completed(compute: ComputeFile, attached: dict[str, Any]) -> ComputeFile | None:
    """The file's description, completed by the attached target's; None if both are the same."""
    from windlass.client.config.workbench_compute_file import USUAL_PORT

    host, port = str(attached.get("address", "")), attached.get("port") or USUAL_PORT
    is_same_host = compute.host.lower() in ("", host.lower())
    wanted = compute._replace(
        host=host if is_same_host else compute.host,
        port=compute.port or (port if is_same_host else None),
        username=compute.username or str(attached.get("username", "")),
    )
    current = compute._replace(host=host, port=port, username=str(attached.get("username", "")))
    return None if wanted == current else wanted


def _where(compute: ComputeFile) -> str:
    from windlass.client.config.workbench_compute_file import join_address

    account = f"{compute.username}@" if compute.username else ""
    return escape(f"{account}{join_address(compute.host, compute.port)}")


def _attach_line(compute: ComputeFile, target: str) -> str:
    from shlex import quote

    from windlass.client.config.workbench_compute_file import KINDS, REMOTE, join_address

    where = f" --address {quote(join_address(compute.host, compute.port))}" if compute.host else ""
    user = f" --username {quote(compute.username)}" if compute.username else ""
    container = " --docker" if compute.is_container else ""
    return escape(f"windlass compute attach {KINDS[REMOTE]} {target}{where}{user}{container}")
