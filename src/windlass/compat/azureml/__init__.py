"""Azure ML's Python SDK, version 1, by Windlass: Azure's names and signatures over the classes of `windlass`.

It has every module that public code imports. Names that this version lacks can be imported too; their use raises
NotProvided, with a hint what to use instead.
"""

import sys

from ._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)


class _LastFinder:
    """Import finder after all others: raises an explaining error for a module of this package that does not exist."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        is_import = (
            sys._getframe(2).f_code.co_name != "find_spec"
        )  # importlib.util.find_spec() must return None instead
        if is_import and name.startswith("azureml."):
            raise ModuleNotFoundError(f"There is no module {name} in this version; see docs/azureml.md.", name=name)


sys.meta_path.append(_LastFinder)
