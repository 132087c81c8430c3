__version__ = "0.1.0"
VERSION = __version__  # as Azure has it
