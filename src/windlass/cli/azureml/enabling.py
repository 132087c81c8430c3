"""Enable and disable `import azureml` in a Python environment.

Two things are written into its site-packages: a folder (import_folder.py), and a `.pth` file that puts the folder first
on the path of every Python that starts there. What else is installed is left alone, Azure's own SDK too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from windlass.cli.azureml import import_folder, launch
from windlass.cli.azureml.import_folder import Link, NotOurs
from windlass.core.errors import Conflict, Denied, InvalidRequest, NotFound

FOLDER = "windlass-azureml"
_SECONDS = 60
_FIRST_LINE = "# Written by `windlass azureml enable`; `windlass azureml disable` removes it.\n"
# Executed by any Python, so its syntax suits old versions too. Distributions are searched as an installer does.
_PROBE = """
import json, os, sys, sysconfig
answer = {"version": list(sys.version_info[:3]), "prefix": sys.prefix, "site": "", "azureml": "", "found": {}}
sys.path[:] = [path for path in sys.path if path]  # not the current folder, which a script does not see
site = sysconfig.get_paths()["purelib"]
others = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
answer["site"] = site if site in sys.path or not others else others[0]
if sys.version_info >= (3, 8):
    import importlib.util
    from importlib import metadata
    spec = importlib.util.find_spec("azureml")
    if spec is not None:
        answer["azureml"] = spec.origin or str(list(spec.submodule_search_locations or [""])[0])
    for each in metadata.distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name in ("windlass", "azureml-core"):
            installer = (each.read_text("INSTALLER") or "").strip()
            answer["found"].setdefault(name, []).append([each.version, str(each.locate_file("")), installer])
sys.stdout.write("\\n" + json.dumps(answer))
"""


class Distribution(NamedTuple):
    version: str
    folder: str
    installer: str


class Environment(NamedTuple):
    """A Python environment, as its interpreter describes it."""

    python: str
    version: str
    prefix: str
    site: str  # its site-packages
    azureml: str  # the file or folder that `import azureml` finds; empty for none
    windlass: list[Distribution]
    azureml_core: list[Distribution]

    @property
    def folder(self) -> str:
        return os.path.join(self.site, FOLDER)

    @property
    def path_file(self) -> str:
        return f"{self.folder}.pth"

    @property
    def is_own(self) -> bool:
        """Whether windlass is installed in it."""
        return os.path.realpath(self.prefix) == os.path.realpath(sys.prefix)

    @property
    def azures_own(self) -> Distribution | None:
        """Azure's own SDK, if it is installed too."""
        others = (each for each in self.azureml_core if each.installer != import_folder.INSTALLER)
        return next(others, None)


def inspect_environment(option: str | None) -> Environment:
    """The environment of the Python that --python names, else of the active one."""
    python = launch.choose(option)
    try:
        asked = subprocess.run([python, "-c", _PROBE], capture_output=True, timeout=_SECONDS, text=True)
        said: dict[str, Any] = json.loads(asked.stdout.rpartition("\n")[2])
        version = tuple(said["version"])
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError):
        raise InvalidRequest(f"{python} does not answer like Python.", "--python names another one.") from None
    launch.check_version(python, version[:2])
    if not os.path.isdir(said["site"]):
        raise NotFound(f"{python} has no folder {said['site']} for packages.", "--python names another one.")
    found = {name: [Distribution(*each) for each in all_of_them] for name, all_of_them in said["found"].items()}
    return Environment(
        python=python,
        version=".".join(map(str, version)),
        prefix=said["prefix"],
        site=said["site"],
        azureml=said["azureml"],
        windlass=found.get("windlass", []),
        azureml_core=found.get("azureml-core", []),
    )


def is_enabled(environment: Environment) -> bool:
    """Whether an import gets the package of windlass. An installer may have removed the distributions since."""
    links = {name: content for name, content in _wanted(environment).items() if isinstance(content, Link)}
    return _has_path_file(environment) and import_folder.is_written(environment.folder, links)


def enable(environment: Environment) -> bool:
    """Write what is missing. Returns whether something was written."""
    wanted = _wanted(environment)
    if _has_path_file(environment) and import_folder.is_written(environment.folder, wanted):
        return False
    if environment.windlass and not environment.is_own:
        other = os.path.join(environment.prefix, "bin", "windlass")
        raise Conflict(
            f"{environment.prefix} has windlass {environment.windlass[0].version} installed itself.",
            f"Type: {other} azureml enable",
        )
    text = _read(environment.path_file)
    if text is not None and not text.startswith(_FIRST_LINE):
        raise _not_ours(environment.path_file)
    try:
        import_folder.write(environment.folder, wanted)
        _write(environment.path_file, _path_text(environment))
    except NotOurs as e:
        raise Conflict(f"{e}.", "Move it away, and try again.") from None
    except OSError as e:
        raise _cannot_write(environment, e) from None
    return True


def disable(environment: Environment) -> bool:
    """Remove what enable() wrote, and nothing else. Returns whether something was removed."""
    text = _read(environment.path_file)
    if text is None and not os.path.lexists(environment.folder):
        return False
    if text is not None and not text.startswith(_FIRST_LINE):
        raise _not_ours(environment.path_file)
    try:
        if text is not None:
            os.remove(environment.path_file)
        left = import_folder.remove(environment.folder)
    except OSError as e:
        raise _cannot_write(environment, e) from None
    if left:
        raise Conflict(f"{left[0]} was not written by windlass, and stays.", f"Look at {environment.folder}.")
    return True


def is_windlass(environment: Environment) -> bool:
    """Whether an import gets the package of windlass."""
    found = os.path.realpath(environment.azureml) if environment.azureml else ""
    return f"{os.sep}windlass{os.sep}compat{os.sep}" in found


def reason(environment: Environment) -> str:
    """Which `azureml` an import gets, and why."""
    is_first = environment.azureml.startswith(environment.folder + os.sep)
    if is_windlass(environment):
        where = f"{FOLDER}.pth puts it first" if is_first else "PYTHONPATH has it first, as in `windlass python`"
        return f"Windlass's: {where}"
    if environment.azureml:
        return "not Windlass's; `windlass azureml enable` puts that first"
    if _read(environment.path_file) is not None:
        return "fails: windlass was removed or moved; `windlass azureml enable` writes it anew"
    return "fails: it is not installed; `windlass azureml enable` provides it"


def _wanted(environment: Environment) -> dict[str, str]:
    return import_folder.contents(has_windlass=not environment.is_own)


def _has_path_file(environment: Environment) -> bool:
    return _read(environment.path_file) == _path_text(environment)


def _path_text(environment: Environment) -> str:
    """Python executes the line when it starts, in some versions twice. In a run, the SDK that came with it is first."""
    folder = ascii(environment.folder)
    is_first = f"'WINDLASS_RUN_ID' in os.environ or {folder} in sys.path"
    line = f"import os, sys; {is_first} or sys.path.insert(0, {folder})\n"
    return _FIRST_LINE + line


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError:
        return ""  # a folder, or not readable: not ours


def _write(path: str, text: str) -> None:
    aside = f"{path}.{os.getpid()}"
    try:
        with open(aside, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(aside, path)
    finally:
        if os.path.lexists(aside):
            os.remove(aside)


def _not_ours(path: str) -> Conflict:
    return Conflict(f"{path} was not written by windlass.", "Move it away, and try again.")


def _cannot_write(environment: Environment, error: OSError) -> Denied:
    return Denied(
        f"{environment.site} cannot be changed: {error.strerror}.",
        "Use an environment of your own (python -m venv), or `windlass python`, which changes none.",
    )
