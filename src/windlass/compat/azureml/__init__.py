"""Azure ML's Python SDK, version 1, by Windlass: Azure's names and signatures over the classes of `windlass`.

Every module that public code imports is here. A name that this version lacks can be imported, too; using it raises
NotProvided and says what to use instead.
"""

import sys

from ._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)


class _LastFinder:
    """Explains that a module of this package does not exist, once Python has looked everywhere."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        is_import = sys._getframe(2).f_code.co_name != "find_spec"  # which asks whether there is such a module
        if is_import and name.startswith("azureml."):
            raise ModuleNotFoundError(f"There is no module {name} in this version; see docs/azureml.md.", name=name)


sys.meta_path.append(_LastFinder)
