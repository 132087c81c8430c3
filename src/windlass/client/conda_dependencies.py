"""The packages of an environment, in the form of a conda file."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Iterator

from windlass.client import yaml
from windlass.client.exceptions import UserErrorException

_KEYS = ("name", "channels", "dependencies", "prefix", "variables")
_NAME_END = re.compile(r"[\[=<>~! ;@]")
_VERSION = re.compile(r"(\d+)\.(\d+)(\.(\d+))?")
_THIS_PYTHON = ".".join(str(part) for part in sys.version_info[:3])
# What Azure's file names by default; a run finds it on its path in any case.
_DEFAULT_PIP = "azureml-defaults"


class CondaDependencies:
    """Conda and pip packages.

    >>> packages = CondaDependencies.create(pip_packages=["numpy==1.26.4"])
    >>> list(packages.pip_packages)
    ['numpy==1.26.4']
    """

    def __init__(self, conda_dependencies_file_path: str | None = None, _underlying_structure: Any = None) -> None:
        if conda_dependencies_file_path is not None:
            self._body = _read(conda_dependencies_file_path)
        elif _underlying_structure is not None:
            self._body = _underlying_structure
        else:
            self._body = {
                "name": "project_environment",
                "dependencies": [f"python={_THIS_PYTHON}", {"pip": [_DEFAULT_PIP]}],
                "channels": ["anaconda", "conda-forge"],
            }
        _check(self._body)
        # Whether somebody asked for this version of Python, as opposed to any that is there.
        is_given = conda_dependencies_file_path is not None or _underlying_structure is not None
        self.python_is_chosen = is_given and self.get_python_version() is not None

    @staticmethod
    def create(
        pip_indexurl: str | None = None,
        pip_packages: list[str] | None = None,
        conda_packages: list[str] | None = None,
        python_version: str | None = None,
        pin_sdk_version: bool = True,
    ) -> CondaDependencies:
        """Packages from lists. `pip_packages` replaces the default; `pin_sdk_version` has nothing to pin here."""
        made = CondaDependencies()
        if pip_indexurl:
            made.set_pip_option(f"--index-url {pip_indexurl}")
        if python_version is not None:
            made.set_python_version(python_version)
        if pip_packages is not None:
            made.remove_pip_package(_DEFAULT_PIP)
        for package in pip_packages or ():
            made.add_pip_package(package)
        for package in conda_packages or ():
            made.add_conda_package(package)
        return made

    @property
    def conda_channels(self) -> Iterator[str]:
        return iter(list(self._body.get("channels") or []))

    @property
    def conda_packages(self) -> Iterator[str]:
        return iter([item for item in self._items() if isinstance(item, str)])

    @property
    def pip_packages(self) -> Iterator[str]:
        return iter([item for item in self._pip() if not item.startswith("-")])

    @property
    def pip_options(self) -> Iterator[str]:
        return iter([item for item in self._pip() if item.startswith("-")])

    def get_python_version(self) -> str | None:
        for item in self.conda_packages:
            if package_name(item) == "python":
                found = _VERSION.search(item)
                return found.group() if found else None
        return None

    def set_python_version(self, version: str) -> None:
        self.python_is_chosen = True
        items = self._items()
        wanted = f"python={version}"
        for at, item in enumerate(items):
            if isinstance(item, str) and package_name(item) == "python":
                items[at] = wanted
                return
        items.append(wanted)

    def add_channel(self, channel: str) -> None:
        channels = self._body.setdefault("channels", [])
        if channel not in channels:
            channels.append(channel)

    def remove_channel(self, channel: str) -> None:
        if channel in self.conda_channels:
            self._body["channels"].remove(channel)

    def add_conda_package(self, conda_package: str) -> None:
        version = _VERSION.search(conda_package) if package_name(conda_package) == "python" else None
        if version is not None:
            self.set_python_version(version.group())
        elif conda_package not in self._items():
            self._items().append(conda_package)

    def remove_conda_package(self, conda_package: str) -> None:
        if package_name(conda_package) == "python":
            raise UserErrorException("python must not be removed from conda dependencies")
        if conda_package in self._items():
            self._items().remove(conda_package)

    def add_pip_package(self, pip_package: str) -> None:
        """Add a package; another version of the same package goes."""
        self.remove_pip_package(pip_package)
        self._pip(make=True).append(pip_package)

    def remove_pip_package(self, pip_package: str) -> None:
        if pip_package.startswith("-"):
            raise UserErrorException(f"Invalid package name {pip_package}")
        name = package_name(pip_package)
        pip = self._pip()
        pip[:] = [item for item in pip if item.startswith("-") or package_name(item) != name]

    def set_pip_requirements(self, pip_requirements: list[str]) -> None:
        self._pip(make=True)[:] = list(pip_requirements)

    def set_pip_option(self, pip_option: str) -> None:
        self.remove_pip_option(pip_option)
        self._pip(make=True).append(pip_option)

    def set_pip_index_url(self, index_url: str) -> None:
        self.set_pip_option(index_url)

    def remove_pip_option(self, pip_option: str) -> None:
        if not pip_option.startswith("-"):
            raise UserErrorException(f"Invalid pip option {pip_option}")
        pip = self._pip()
        pip[:] = [item for item in pip if item.split()[0] != pip_option.split()[0]]

    def add_tensorflow_pip_package(self, core_type: str = "cpu", version: str | None = None) -> None:
        self.add_pip_package(_tensorflow(core_type, version, "=="))

    def add_tensorflow_conda_package(self, core_type: str = "cpu", version: str | None = None) -> None:
        self.add_conda_package(_tensorflow(core_type, version, "="))

    def as_dict(self) -> dict[str, Any]:
        import copy

        return copy.deepcopy(self._body)

    def serialize_to_string(self) -> str:
        from windlass.client.yaml_writer import dumps

        return dumps(self._body)

    def save(self, path: str | None = None) -> str:
        """Write a conda file. `path` is the file's name, not a folder."""
        if path is None or os.path.isdir(path):
            raise UserErrorException("A conda file needs a name of its own, not only a folder.")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.serialize_to_string())
        return path

    def save_to_file(self, base_directory: str, conda_file_path: str | None = None) -> str:
        name = conda_file_path or "auto_conda_dependencies.yml"
        full = os.path.join(os.path.abspath(base_directory), name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        self.save(full)
        return name

    def _items(self) -> list[Any]:
        if not self._body.get("dependencies"):
            self._body["dependencies"] = []
        items: list[Any] = self._body["dependencies"]
        return items

    def _pip(self, make: bool = False) -> list[str]:
        for item in self._items():
            if isinstance(item, dict) and "pip" in item:
                item["pip"] = item["pip"] or []
                found: list[str] = item["pip"]
                return found
        pip: list[str] = []
        if make:
            self._items().append({"pip": pip})
        return pip


def package_name(requirement: str) -> str:
    """numpy[x]>=1.2 -> numpy"""
    text = requirement.rpartition("::")[2].strip()
    if text.endswith(".whl"):
        return text.rpartition("/")[2].partition("-")[0].lower()
    return _NAME_END.split(text, maxsplit=1)[0].strip().lower()


def _read(path: str) -> Any:
    try:
        return yaml.load(path)
    except FileNotFoundError:
        raise UserErrorException(f"There is no conda file {os.path.abspath(path)}.") from None


def _check(body: Any) -> None:
    if not isinstance(body, dict):
        raise UserErrorException("Environment error: not a valid YAML structure")
    for key in body:
        if key not in _KEYS:
            raise UserErrorException(f"Environment error: unknown {key} key in environment specification")
    for item in body.get("dependencies") or []:
        is_pip = isinstance(item, dict) and list(item) == ["pip"] and all(isinstance(p, str) for p in item["pip"] or [])
        if not isinstance(item, str) and not is_pip:
            raise UserErrorException(f"Environment error: {item!r} is not the name of a package")


def _tensorflow(core_type: str, version: str | None, sign: str) -> str:
    if core_type not in ("cpu", "gpu"):
        raise UserErrorException(f"Invalid core type {core_type}. Only accept 'cpu' or 'gpu'")
    return f"tensorflow{'-gpu' if core_type == 'gpu' else ''}{sign}{version or '2.2.0'}"
