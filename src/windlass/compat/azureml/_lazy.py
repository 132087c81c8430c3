"""Lazy modules of this package: lists of names, each imported from the SDK on first use."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Tuple

_OURS = "windlass.compat."  # the prefix for type checkers and tests; users have the package itself on their path


def lazy(module: str, names: str = "") -> Tuple[Callable[[str], Any], Callable[[], List[str]], List[str]]:
    """`__getattr__`, `__dir__` and `__all__` for a module with these names."""
    listed = names.split()

    def __getattr__(name: str) -> Any:
        if name in ("__version__", "VERSION"):
            from windlass._version import AZUREML_VERSION

            return AZUREML_VERSION
        value = _find(module, name) if name in listed else _submodule(module, name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> List[str]:
        return sorted({*vars(sys.modules[module]), *listed})

    return __getattr__, __dir__, [name for name in listed if not name.startswith("_")]


def _find(module: str, name: str) -> Any:
    import windlass

    if name in windlass._MODULES:
        return getattr(windlass, name)
    from windlass.client.unsupported import placeholder

    return placeholder(name, module[len(_OURS) :] if module.startswith(_OURS) else module)


def _submodule(module: str, name: str) -> Any:
    """Import a submodule as an attribute: `azureml.core.model` after `import azureml.core`, as in Azure's packages."""
    if "__path__" in vars(sys.modules[module]) and not name.startswith("__"):
        try:
            return import_module(f"{module}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{module}.{name}":
                raise
    raise AttributeError(f"module {module!r} has no attribute {name!r} in this version")
