"""Automated machine learning."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "AutoMLExplainerSetupClass automl_setup_model_explanations")
