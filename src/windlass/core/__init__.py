"""Core layer: names, entities, states and decisions. Pure: no I/O, no clock, no randomness."""

import sys


def __getattr__(name: str) -> object:
    """Raise an error that names the right import: classes of `azureml.core` are in `windlass`, not in windlass.core."""
    package = sys.modules["windlass"]
    if name in package._MODULES:
        problem = f"{name} is not in windlass.core. Write: from windlass import {name}"
    else:
        hint = package._hint(name) if name[:1].isupper() else ""
        if not hint:
            raise AttributeError(f"module 'windlass.core' has no attribute {name!r}")
        problem = f"{name} is not provided in this version. {hint}"
    raise package._error_for_caller()(problem)
