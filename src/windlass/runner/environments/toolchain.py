"""Finds the tools that build environments (uv, conda, rattler) on this machine, and installs those that are missing.

`tools` of run.json has the server's hints: {"uv": a path, or {"digest", "size", "platform"} of a program that it can
send; "rattler": the path of a Python that has rattler, or the same of its wheel, with its "name"; "conda": the path of
a conda, or false for none}.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from ..supervisor.launch import find_command
from ..workdir.machine_folder import Machine, check_digest, remove
from . import interpreters, network, requirements
from .build_context import BuildContext
from .build_once import BuildOnce, EnvironmentFailed, completed

# The rattler to install if there is none, the oldest Python that it runs on, and the preferred one.
RATTLER = "0.28"
_RATTLER_REQUIREMENT = f"py-rattler>={RATTLER},<1"
_MIN_PYTHON = "3.10"
_PREFERRED_PYTHON = "3.12"
# If an index is unreachable, uv would retry for 50 seconds and pip longer, for every run anew. Read timeouts are left
# at their defaults: an index that answers may have to fetch the package itself.
_FAST_TIMEOUTS = {"UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1", "PIP_RETRIES": "1"}
_UV_PLACES = ("~/.local/bin/uv", "~/.cargo/bin/uv")
_CONDA_NAMES = ("mamba", "micromamba", "conda")
_CONDA_HOMES = (
    "~/miniforge3", "~/mambaforge", "~/miniconda3", "~/anaconda3", "~/micromamba", "/opt/conda", "/opt/miniforge3",
    "/opt/miniconda3", "/opt/anaconda3", "/anaconda", "/usr/local/miniconda3", "/usr/local/anaconda3",
)  # fmt: skip


def files_to_send(machine: Machine, run: Mapping[str, Any]) -> List[List[Any]]:
    """Programs that the server has, this machine lacks and can run; in the form of a snapshot's files."""
    given = run.get("tools") or {}
    needs = {"uv": _find_uv() is None, "rattler": _needs_rattler(machine, run.get("environment") or {}, given)}
    sent = [name for name, is_needed in needs.items() if is_needed and _is_for_us(given.get(name))]
    programs = [[name, given[name]["digest"], given[name]["size"], True] for name in sent]
    return [*programs, *network.files_to_send(given)]


def _needs_rattler(machine: Machine, spec: Dict[str, Any], given: Mapping[str, Any]) -> bool:
    return (
        bool(requirements.conda_requirements(spec))
        and conda(given) is None
        and completed(_rattler_path(machine)) is None
    )


def _is_for_us(given: Any) -> bool:
    return isinstance(given, dict) and given.get("platform") == platform()


def platform() -> str:
    system = os.uname()
    return f"{system.sysname} {system.machine}"


def uv(context: BuildContext) -> str:
    """The path of uv, which is installed if it is missing."""
    return existing_uv(context) or _install_uv(context)


def existing_uv(context: BuildContext) -> Optional[str]:
    """The uv that is named, installed or sent; None if it would have to be installed."""
    given = context.given.get("uv")
    if isinstance(given, dict):
        return _find_uv() or _sent_program(context, "uv", check_digest(given["digest"]))
    return _first_executable([given]) or _find_uv()


def _find_uv() -> Optional[str]:
    return _first_executable([find_command("uv", os.environ.get("PATH")), *map(os.path.expanduser, _UV_PLACES)])


def conda(given: Mapping[str, Any]) -> Optional[str]:
    """The path of a conda, mamba or micromamba that is installed here; None if there is none."""
    named = given.get("conda")
    if named is not None:
        return str(named) if named else None
    on_path = [find_command(name, os.environ.get("PATH")) for name in _CONDA_NAMES]
    at_home = [f"{os.path.expanduser(home)}/bin/{name}" for home in _CONDA_HOMES for name in _CONDA_NAMES]
    return _first_executable([*on_path, *at_home])


def rattler(context: BuildContext) -> List[str]:
    """The beginning of an argv that runs rattler.py on a Python that has py-rattler, which is installed if missing."""
    given = context.given.get("rattler")
    named = None if isinstance(given, dict) else _first_executable([given])
    python = named or _install_rattler(context)
    return [python, "-I", _runner_path(), "conda"]


def _install_uv(context: BuildContext) -> str:
    def make(inner: BuildContext) -> None:
        inner.run_checked([sys.executable, "-m", "venv", inner.once.path])
        inner.run_checked([f"{inner.once.path}/bin/python", "-m", "pip", "install", "--quiet", "uv"], fast_timeouts())

    try:
        return f"{_install_once(context, 'uv', make)}/bin/uv"
    except EnvironmentFailed as e:
        raise context.logged_failure(
            f"Building an environment needs uv; it is not on this machine and could not be put there: {e}\n"
            "Type there: python3 -m pip install --user uv"
        ) from e


def _install_rattler(context: BuildContext) -> str:
    builder = uv(context)
    nearest = interpreters.nearest(_PREFERRED_PYTHON)
    is_new_enough = interpreters.is_at_least(nearest.version, _MIN_PYTHON)

    def make(inner: BuildContext) -> None:
        # If the machine's Pythons are too old for rattler, uv downloads one; no script runs on it.
        python = [nearest.path] if is_new_enough else [_PREFERRED_PYTHON, "--managed-python"]
        inner.run_checked(
            [builder, "venv", "--no-project", "--quiet", "--python", *python, inner.once.path], fast_timeouts()
        )
        install = [builder, "pip", "install", "--quiet", "--python", f"{inner.once.path}/bin/python"]
        if not _install_sent(install, inner):
            inner.run_checked([*install, _RATTLER_REQUIREMENT], fast_timeouts())

    try:
        return f"{_install_once(context, os.path.basename(_rattler_path(context.machine)), make)}/bin/python"
    except EnvironmentFailed as e:
        raise context.logged_failure(
            "Conda packages need a conda, mamba or micromamba on this machine, or py-rattler, which could not be put "
            f"there: {e}\nInstall Miniforge there, or name the packages under pip."
            f"{_alternative_fix(context.given.get('rattler'), is_new_enough)}"
        ) from e


def _rattler_path(machine: Machine) -> str:
    return f"{machine.tools}/rattler-{RATTLER}"


def _install_sent(install: List[str], context: BuildContext) -> bool:
    """Install the wheel that was sent. False if there is none, or uv finds it unfit for this Python or C library."""
    given: Any = context.given.get("rattler")
    if not _is_for_us(given):
        return False
    wheels = f"{context.once.scratch}/wheels"
    os.mkdir(wheels, 0o700)
    try:
        os.link(
            f"{context.machine.files}/{check_digest(given['digest'])}", f"{wheels}/{os.path.basename(given['name'])}"
        )
    except FileNotFoundError:
        return False
    # A cache on the same disk, so that nothing is copied; it is removed with the scratch folder.
    cache = {"UV_CACHE_DIR": f"{context.once.scratch}/cache"}
    if context.run_tool([*install, "--no-index", "--find-links", wheels, _RATTLER_REQUIREMENT], cache).code == 0:
        return True
    context.log_line("The rattler that was sent cannot be used here; installing one from the package index.")
    return False


def _alternative_fix(given: Any, is_new_enough: bool) -> str:
    """A hint with another way to get rattler."""
    if not is_new_enough:
        return f" Python {_MIN_PYTHON} or newer on this machine helps, too."
    if not isinstance(given, dict):
        return (
            " On the server, pip install 'windlass[environments]' helps, too: machines of its kind get it from there."
        )
    return "" if _is_for_us(given) else f" The server's own is for {given.get('platform')}; this is {platform()}."


def fast_timeouts() -> Dict[str, str]:
    """Short timeouts, except for variables that are set on this machine."""
    return {name: value for name, value in _FAST_TIMEOUTS.items() if name not in os.environ}


def _install_once(context: BuildContext, name: str, make: Callable[[BuildContext], None]) -> str:
    """Install a tool into the machine's folder, once; the output is copied to the log of the build that needs it."""
    once = BuildOnce(f"{context.machine.tools}/{name}", context.once.log, context.once.hooks, outer=context.once)
    if once.completed() is None:

        def work() -> Dict[str, Any]:
            once.log_line(f"Getting {name} for this machine, once.")
            make(BuildContext(context.machine, context.given, once))
            return {}

        once.get_or_build(work)
    return once.path


def _sent_program(context: BuildContext, name: str, digest: str) -> Optional[str]:
    """Path of a program that was sent as a file, made executable; None if it was not sent, or does not run here."""
    path = f"{context.machine.tools}/{name}-{digest[:16]}"
    if not os.path.exists(path):
        scratch = f"{path}.{os.getpid()}.tmp"
        try:
            shutil.copyfile(f"{context.machine.files}/{digest}", scratch)
        except FileNotFoundError:
            return None
        os.chmod(scratch, 0o700)
        os.rename(scratch, path)
    if _is_runnable(path, context):
        return path
    remove(path)  # a power cut may have left it empty: the next build copies it again
    return None


def _is_runnable(path: str, context: BuildContext) -> bool:
    try:
        return context.run_tool([path, "--version"]).code == 0
    except EnvironmentFailed as e:  # it is for another system, or the disk is mounted noexec
        context.log_line(str(e))
        return False


def _runner_path() -> str:
    """The path of the runner: one zip file, or a folder of sources."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    above = os.path.dirname(folder)
    return above if os.path.isfile(above) else folder


def _first_executable(paths: Iterable[Optional[str]]) -> Optional[str]:
    return next((path for path in paths if path and os.path.isfile(path) and os.access(path, os.X_OK)), None)
