"""Conda and pip packages of an environment, in the format of a conda file."""

from __future__ import annotations

import os
from typing import Any, Iterator

from windlass.client.config.file_location import NOWHERE
from windlass.client.config.run_configuration_file import FOLDERS
from windlass.client.environments import conda_file, conda_lines, requirements
from windlass.client.environments.requirements import merge as merge_lines
from windlass.client.exceptions import UserErrorException
from windlass.client.unsupported import not_provided

# The name that a project's conda file has by default.
CONDA_FILE = "conda_dependencies.yml"
_PYTHON = "python"
# The default package of Azure's conda file; here a run has it on its path in any case.
_DEFAULT_PIP = "azureml-defaults"
_PYPI = "https://pypi.org/simple"


class CondaDependencies:
    """Conda and pip packages.

    >>> packages = CondaDependencies.create(pip_packages=["numpy==1.26.4"])
    >>> list(packages.pip_packages)
    ['numpy==1.26.4']
    """

    DEFAULT_NUMBER_OF_CONDA_PACKAGES = 0
    DEFAULT_NUMBER_OF_PIP_PACKAGES = 0

    def __init__(self, conda_dependencies_file_path: str | None = None, _underlying_structure: Any = None) -> None:
        self.base: str | None = None  # the folder that paths in it start from
        self._file = ""  # the file that it was read from
        if conda_dependencies_file_path is not None:
            path = find_conda_file(conda_dependencies_file_path)
            self._body = conda_file.read(path)
            self._file = os.path.abspath(path)
            self.base = os.path.dirname(self._file)
        elif _underlying_structure is not None:
            self._body = _underlying_structure
        else:
            self._body = {
                "name": "project_environment",
                "dependencies": [{"pip": [_DEFAULT_PIP]}],  # with any available Python
                "channels": ["anaconda", "conda-forge"],
            }
        if conda_dependencies_file_path is None:
            conda_file.check(self._body, NOWHERE)
        _merge_pip(self._body)

    @staticmethod
    def create(
        pip_indexurl: str | None = None,
        pip_packages: list[str] | None = None,
        conda_packages: list[str] | None = None,
        python_version: str | None = None,
        pin_sdk_version: bool = True,
    ) -> CondaDependencies:
        """Packages from lists. `pip_packages` replaces the default; `pin_sdk_version` has no effect here.

        Packages that the index of `pip_indexurl` does not have come from PyPI.
        """
        made = CondaDependencies()
        if pip_indexurl:
            made.set_pip_option(f"--index-url {pip_indexurl}")
            made.set_pip_option(f"--extra-index-url {_PYPI}")
        if python_version is not None:
            made.set_python_version(python_version)
        if pip_packages is not None:
            made.remove_pip_package(_DEFAULT_PIP)
        for package in pip_packages or ():
            made.add_pip_package(package)
        for package in conda_packages or ():
            made.add_conda_package(package)
        return made

    @staticmethod
    def merge_requirements(requirements: list[str]) -> list[str]:
        """Pip packages, each once, with all its version specifiers.

        >>> CondaDependencies.merge_requirements(["numpy>=1.20", "scipy", "numpy<2"])
        ['numpy>=1.20,<2', 'scipy']
        """
        return merge_lines(requirements)

    @staticmethod
    def sdk_origin_url() -> str:
        """The default index of packages."""
        return _PYPI

    def get_default_number_of_packages(self) -> tuple[int, int]:
        """The numbers of conda and pip packages of an object without named packages."""
        default = CondaDependencies()
        return len(list(default.conda_packages)), len(list(default.pip_packages))

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

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that the file sets, as in newer versions of conda."""
        return {str(name): str(value) for name, value in (self._body.get("variables") or {}).items()}

    @property
    def python_is_chosen(self) -> bool:
        """Whether a version of Python is named, as opposed to any available one."""
        return self.get_python_version() is not None

    def get_python_version(self) -> str | None:
        """The version of Python, or comparisons such as ">=3.8,<3.10"; None if none is named."""
        named = (item for item in self.conda_packages if conda_lines.name_of(item) == _PYTHON)
        return next(map(conda_lines.python_version, named), None)

    def set_python_version(self, version: str) -> None:
        """Set the version of Python, or comparisons such as ">=3.8,<3.10"."""
        self._set_python(f"{_PYTHON}{'=' if str(version)[:1].isalnum() else ''}{version}")

    def _set_python(self, wanted: str) -> None:
        items = self._items()
        for at, item in enumerate(items):
            if isinstance(item, str) and conda_lines.name_of(item) == _PYTHON:
                items[at] = wanted
                return
        items.insert(0, wanted)

    def add_channel(self, channel: str) -> None:
        channels = self._body.setdefault("channels", [])
        if channel not in channels:
            channels.append(channel)

    def remove_channel(self, channel: str) -> None:
        if channel in self.conda_channels:
            self._body["channels"].remove(channel)

    def add_conda_package(self, conda_package: str) -> None:
        """Add a package. Python is listed once: a version of it replaces an earlier one."""
        is_python = conda_lines.name_of(conda_package) == _PYTHON
        if is_python and conda_lines.python_version(conda_package) is not None:
            self._set_python(conda_package)
        elif conda_package not in self._items() and not (is_python and self._names_python()):
            self._items().append(conda_package)

    def remove_conda_package(self, conda_package: str) -> None:
        if conda_lines.name_of(conda_package) == _PYTHON:
            raise UserErrorException("python must not be removed from conda dependencies")
        if conda_package in self._items():
            self._items().remove(conda_package)

    def add_pip_package(self, pip_package: str) -> None:
        """Add a package, in place of another version of the same package."""
        self.remove_pip_package(pip_package)
        self._pip(make=True).append(pip_package)

    def remove_pip_package(self, pip_package: str) -> None:
        if pip_package.startswith("-"):
            raise UserErrorException(f"Invalid package name {pip_package}")
        name = requirements.name_of(pip_package)
        pip = self._pip()
        pip[:] = [item for item in pip if item.startswith("-") or requirements.name_of(item) != name]

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

    @not_provided("CNTK", "add_pip_package() takes the address of a wheel, too.")
    def add_cntk_package(self, core_type: str = "cpu") -> None: ...

    def add_tensorflow_pip_package(self, core_type: str = "cpu", version: str | None = None) -> None:
        self.add_pip_package(_tensorflow(core_type, version, "=="))

    def add_tensorflow_conda_package(self, core_type: str = "cpu", version: str | None = None) -> None:
        self.add_conda_package(_tensorflow(core_type, version, "="))

    def as_dict(self) -> dict[str, Any]:
        import copy

        return copy.deepcopy(self._body)

    def serialize_to_string(self) -> str:
        from windlass.client.config.yaml import dumps

        return dumps(self.as_dict())

    def save(self, path: str | None = None) -> str:
        """Write a conda file, with the comments of the replaced file or of the file that this was read from.

        `path` is the file's name, not a folder.
        """
        from windlass.client.config import yaml

        if path is None or os.path.isdir(path):
            raise UserErrorException("A conda file needs a name of its own, not only a folder.")
        yaml.write(path, self._relative_to(os.path.dirname(os.path.abspath(path))), like=self._file)
        return path

    def is_written_in(self, path: str) -> bool:
        """Whether a file has exactly these packages already; it may have its own comments."""
        if not os.path.isfile(path):
            return False
        try:
            return CondaDependencies(path).as_dict() == self._relative_to(os.path.dirname(os.path.abspath(path)))
        except UserErrorException:
            return False

    def save_to_file(self, base_directory: str, conda_file_path: str | None = None) -> str:
        name = conda_file_path or "auto_conda_dependencies.yml"
        full = os.path.join(os.path.abspath(base_directory), name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        self.save(full)
        return name

    def _relative_to(self, folder: str) -> dict[str, Any]:
        """The definition for a file in that folder, with relative paths converted to start there."""
        body = self.as_dict()
        if self.base is not None and self.base != folder:
            for item in body.get("dependencies") or []:
                if isinstance(item, dict):
                    item["pip"] = [_moved(line, self.base, folder) for line in item["pip"] or []]
        return body

    def _items(self) -> list[Any]:
        if not self._body.get("dependencies"):
            self._body["dependencies"] = []
        items: list[Any] = self._body["dependencies"]
        return items

    def _names_python(self) -> bool:
        return any(conda_lines.name_of(item) == _PYTHON for item in self.conda_packages)

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


def find_conda_file(path: str) -> str:
    """The file itself; else one whose name differs in capitals only; else one in the project's configuration folder."""
    folder, name = os.path.dirname(path), os.path.basename(path)
    places = [folder, *(os.path.join(folder, inner) for inner in FOLDERS)]
    if os.path.isfile(path):
        return path
    for place in places:
        found = _in_any_case(place or ".", name)
        if found is not None:
            return os.path.join(place, found)
    return path


def _in_any_case(folder: str, name: str) -> str | None:
    try:
        there = os.listdir(folder)
    except OSError:
        return None
    alike = [other for other in there if other.lower() == name.lower()]
    fitting = [other for other in alike if os.path.isfile(os.path.join(folder, other))]
    return name if name in fitting else min(fitting, default=None)


def _moved(line: str, base: str, folder: str) -> str:
    """A line whose path is relative to `base`, with the path made relative to `folder`."""
    target = requirements.target_of(line)
    full = os.path.join(base, target)
    if not requirements.is_file(line) or os.path.isabs(target) or not os.path.isfile(full):
        return line
    return line.replace(target, os.path.relpath(full, folder))


def _merge_pip(body: dict[str, Any]) -> None:
    """Merge several `pip:` lists into the first one, as conda does."""
    items = body.get("dependencies") or []
    lists = [item for item in items if isinstance(item, dict)]
    if len(lists) > 1:
        lists[0]["pip"] = [line for item in lists for line in item["pip"] or []]
        body["dependencies"] = [item for item in items if not any(item is other for other in lists[1:])]


def _tensorflow(core_type: str, version: str | None, sign: str) -> str:
    if core_type not in ("cpu", "gpu"):
        raise UserErrorException(f"Invalid core type {core_type}. Only accept 'cpu' or 'gpu'")
    return f"tensorflow{'-gpu' if core_type == 'gpu' else ''}{sign}{version or '2.2.0'}"
