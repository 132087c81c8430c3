"""Automated machine learning."""

from ...._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "automl_check_model_if_explainable automl_setup_model_explanations")
