"""Data."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    HDFSOutputDatasetConfig LinkFileOutputDatasetConfig LinkTabularOutputDatasetConfig MountOptions
    OutputDatasetConfig OutputFileDatasetConfig OutputTabularDatasetConfig RegistrationConfiguration
    TransformationMixin UploadOptions
    """,
)
