"""The designer's modules."""

from ...._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, "load_data_frame_from_directory save_data_frame_to_directory")
