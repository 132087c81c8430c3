"""`-c NAME`: a run configuration of the project, if it has a file of that name; else a target, with the packages that
the project's configuration names, if it does.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.cli.submit.environment import named
from windlass.client.config.run_configuration_file import EXTENSION, FOLDERS
from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.cli.context import Call
    from windlass.cli.submit.script import Script
    from windlass.client.config.run_configuration import RunConfiguration
    from windlass.client.config.workbench_compute_file import ComputeFile
    from windlass.client.submit.snapshot import File

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*\Z")
_ENDINGS = ("", EXTENSION, ".compute")
_CONDA_FILE = "conda_dependencies.yml"
_LOCAL = "local"  # has its packages already


class Configured(NamedTuple):
    """What a file says of a run: its RunSpec in JSON, and files for its environment."""

    spec: dict[str, Any]
    script: Script
    files: Sequence[File] = ()
    file: str | None = None  # the run configuration's
    builds: bool = True  # or it is refused where its environment is not there yet


def find(
    call: Call,
    name: str | None,
    script: Script,
    arguments: Sequence[str],
    target: str | None = None,
    environment: str | None = None,
) -> Configured | None:
    """None where `name` is just a target: nothing is imported for that. `target` and `environment` stand in for those
    of the file.
    """
    project = _project(name, script.folder) if name and _NAME.match(name) else None
    if environment is None and (not name or (project is None and target is None)):
        return None
    configuration = load(project or os.curdir, name, target) if name else _empty()
    if environment is not None:
        configuration.environment = named(call, environment)
    return _read(call, configuration, project or os.curdir, script, arguments)


def _empty() -> RunConfiguration:
    from windlass.client.config.run_configuration import RunConfiguration

    return RunConfiguration()


def load(project: str, name: str, target: str | None = None) -> RunConfiguration:
    """What a project says of that name, for runs on another target, if one is named."""
    from windlass.client.config import run_configuration
    from windlass.client.config.workbench import configuration_for
    from windlass.core import names

    if _NAME.match(name) and run_configuration.find_configuration(project, name) is not None:
        return run_configuration.load(project, name, target)
    if target is not None:
        from windlass.core.errors import NotFound

        raise NotFound(
            f"The project has no run configuration {shown(name)}.",
            f"Leave it out to run on {shown(target)}, or see what there is: windlass runconfiguration list",
        )
    return configuration_for(project, names.target_name(name))


def _project(name: str, folder: str) -> str | None:
    """The folder whose configuration speaks of that name: the one that is submitted, or the current one."""
    for project in dict.fromkeys((folder, os.curdir)):
        places = [os.path.join(project, inner, name + end) for inner in FOLDERS for end in _ENDINGS]
        if any(os.path.isfile(place) for place in places) or (name != _LOCAL and _names_packages(project)):
            return project
    return None


def _names_packages(project: str) -> bool:
    folders = filter(os.path.isdir, [os.path.join(project, inner) for inner in FOLDERS])
    return any(file.lower() == _CONDA_FILE for folder in folders for file in os.listdir(folder))


def _read(
    call: Call, configuration: RunConfiguration, project: str, script: Script, arguments: Sequence[str]
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
        _require_attached(call, compute, configuration.target)
    configuration.arguments = [*argument_words(configuration.arguments), *arguments]
    words: tuple[str, ...] = ()
    if script.command:
        words = (*script.command, *argument_words(configuration.arguments))
    if script.command or script.path:  # in place of what the file names
        configuration.script, configuration.command = script.path or None, ""
    wheels = Wheels([script.folder])
    spec = run_spec(ScriptRunConfig(script.folder, run_config=configuration), wheels, words)
    builds = configuration.auto_prepare_environment
    return Configured(to_wire(spec), script, wheels.files(), configuration._file, builds)


def _script_of(configuration: RunConfiguration, folder: str) -> Script:
    """The one that it names, where the command line names none."""
    from windlass.cli.submit.script import locate, missing

    if not configuration.script:
        raise missing()
    return locate(str(configuration.script), folder)


def _require_attached(call: Call, compute: ComputeFile, target: str) -> None:
    """A project that came from elsewhere names targets that this workspace has never seen, or has elsewhere."""
    from windlass.client.config.workbench_compute_file import is_described
    from windlass.core.errors import NotFound

    try:
        attached = call.get(f"/targets/{target}")
    except NotFound:
        raise NotFound(
            f"The project describes the target {target}, and this workspace has none of that name.",
            f"Attach it: {_attach_line(compute, target)}",
        ) from None
    wanted = _completed(compute, attached.get("config") or {})
    if is_described(attached.get("kind", "")) and wanted is not None:
        call.terminal.note(
            f"Warning: the project describes {target} at {_where(wanted)}, and runs go to "
            f"{shown(attached['location'])}, "
            f"where it is attached.\n  If that is wrong: {_attach_line(wanted, target)} --update"
        )


def _completed(compute: ComputeFile, attached: dict[str, Any]) -> ComputeFile | None:
    """What the file says, with what it leaves open as it is attached; None if that is the same."""
    from windlass.client.config.workbench_compute_file import USUAL_PORT

    host, port = str(attached.get("address", "")), attached.get("port") or USUAL_PORT
    is_same_host = compute.host.lower() in ("", host.lower())
    wanted = compute._replace(
        host=host if is_same_host else compute.host,
        port=compute.port or (port if is_same_host else None),
        username=compute.username or str(attached.get("username", "")),
    )
    there = compute._replace(host=host, port=port, username=str(attached.get("username", "")))
    return None if wanted == there else wanted


def _where(compute: ComputeFile) -> str:
    from windlass.client.config.workbench_compute_file import join_address

    account = f"{compute.username}@" if compute.username else ""
    return shown(f"{account}{join_address(compute.host, compute.port)}")


def _attach_line(compute: ComputeFile, target: str) -> str:
    from shlex import quote

    from windlass.client.config.workbench_compute_file import KINDS, REMOTE, join_address

    where = f" --address {quote(join_address(compute.host, compute.port))}" if compute.host else ""
    who = f" --username {quote(compute.username)}" if compute.username else ""
    container = " --docker" if compute.is_container else ""
    return shown(f"windlass compute attach {KINDS[REMOTE]} {target}{where}{who}{container}")
