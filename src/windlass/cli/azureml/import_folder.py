"""Folder for a Python's path that makes `azureml` and `windlass` importable, and nothing else that is installed here.

    azureml, windlass   links to the packages
    windlass-python     the interpreter that windlass is installed in, which runs the server
    *.dist-info         the distributions of Azure's SDK: an installer finds their requirements satisfied
    contents.json       what was written, so that just this is removed

If windlass is removed, the links lead nowhere: Python starts as ever, and the import says that there is no module.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from windlass._version import AZUREML_VERSION, __version__
from windlass.client.http.home import home
from windlass.client.http.interpreter import FILE as INTERPRETER

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = f"{AZUREML_VERSION}+windlass"
INSTALLER = "windlass"
_CONTENTS = "contents.json"
# Of azureml-sdk, so that an installer does not warn of them.
_EXTRAS = ("automl", "contrib", "databricks", "explain", "interpret", "notebooks", "services", "tensorboard")


class Link(str):
    """The target of a symbolic link; a plain `str` is the content of a file."""


class NotOurs(Exception):
    """A file or folder that windlass did not write is in the way."""


def package() -> str:
    """The folder of the package `windlass` that is running, even if it was imported by way of a link."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def shared_folder() -> str:
    """The folder for `windlass python` and `windlass jupyter`, made when it is not there yet."""
    from binascii import crc32

    key = crc32(f"{package()}\n{sys.executable}".encode("utf-8", "surrogateescape"))
    folder = os.path.join(home(), "python", f"{__version__}-{key:08x}")
    if not os.path.exists(os.path.join(folder, "windlass", "__init__.py")):
        from windlass.core.errors import Denied

        try:
            write(folder, contents())
        except (OSError, NotOurs) as e:
            raise Denied(f"{folder} cannot be written: {e}.", "WINDLASS_HOME names another folder.") from None
    return folder


def contents(has_windlass: bool = True) -> dict[str, str]:
    """The contents of the folder by path. A Python that has windlass installed needs only `azureml`."""
    from windlass.client.environments.sdk_packages import NAMES

    found: dict[str, str] = {"azureml": Link(os.path.join(package(), "compat", "azureml"))}
    if has_windlass:
        found["windlass"] = Link(package())
        found[INTERPRETER] = f"{sys.executable}\n"
    for name in NAMES:
        found.update(_distribution(name))
    return found


def _distribution(name: str) -> dict[str, str]:
    """The metadata of a distribution that is provided by windlass."""
    extras = "".join(f"Provides-Extra: {extra}\n" for extra in _EXTRAS) if name == "azureml-sdk" else ""
    files = {
        "INSTALLER": f"{INSTALLER}\n",
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"
        f"Summary: Provided by Windlass {__version__}.\n{extras}",
    }
    folder = f"{name.replace('-', '_')}-{VERSION}.dist-info"
    record = "".join(f"{folder}/{file},{_record_digest(text)},{len(text)}\n" for file, text in files.items())
    files["RECORD"] = f"{record}{folder}/RECORD,,\n"
    return {f"{folder}/{file}": text for file, text in files.items()}


def _record_digest(text: str) -> str:
    import base64
    import hashlib

    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def write(folder: str, wanted: Mapping[str, str]) -> None:
    """Make the folder atomically. One that windlass made before is replaced; any other raises NotOurs."""
    import json
    import shutil

    if is_written(folder, wanted):  # by another process, perhaps
        return
    aside = os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.{os.getpid()}")
    try:
        os.makedirs(aside)
        for name, content in wanted.items():
            place(os.path.join(aside, name), content)
        place(os.path.join(aside, _CONTENTS), json.dumps(wanted, indent=1) + "\n")
        if os.path.lexists(folder):
            left = remove(folder)
            if left:
                raise NotOurs(f"{left[0]} is not windlass's")
        os.rename(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def place(path: str, content: str) -> None:
    """Write a file or link that is not there yet."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if isinstance(content, Link):
        os.symlink(content, path)
        return
    with open(path, "x", encoding="utf-8") as file:
        file.write(content)


def is_written(folder: str, wanted: Mapping[str, str]) -> bool:
    """Whether the folder has all of this."""
    return all(_holds(os.path.join(folder, name), content) for name, content in wanted.items())


def remove(folder: str) -> list[str]:
    """Remove what windlass wrote into a folder, and the folder if it is empty then. Returns what is left."""
    written = _written(folder)
    for name, content in written.items():
        path = os.path.join(folder, name)
        if _holds(path, content):
            os.remove(path)
    if written:
        os.remove(os.path.join(folder, _CONTENTS))
    for name in sorted({os.path.dirname(name) for name in written}, reverse=True):
        _remove_if_empty(os.path.join(folder, name))
    return [os.path.join(at, name) for at, folders, files in os.walk(folder) for name in (*folders, *files)]


def _written(folder: str) -> dict[str, str]:
    """Read the folder's own list of contents; empty if it has none."""
    import json

    try:
        with open(os.path.join(folder, _CONTENTS), encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError):
        return {}
    return {
        name: Link(content) if os.path.islink(os.path.join(folder, name)) else content
        for name, content in said.items()
        if isinstance(content, str) and os.path.normpath(name) == name and not name.startswith(("/", ".."))
    }


def _holds(path: str, content: str) -> bool:
    if isinstance(content, Link):
        return os.path.islink(path) and os.readlink(path) == content
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return not os.path.islink(path) and file.read() == content
    except (OSError, ValueError):
        return False


def _remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass  # not empty, or not there
