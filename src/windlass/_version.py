__version__ = "0.1.0"
VERSION = __version__  # as Azure has it
AZUREML_VERSION = "1.61.0"  # of Azure's SDK: the one whose names and signatures the package `azureml` has
