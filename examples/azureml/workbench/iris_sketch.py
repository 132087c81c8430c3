"""A script of Azure ML Workbench's time: it logs by the run logger."""

import os
import sys

from azureml.logging import get_azureml_logger

run_logger = get_azureml_logger()

regularization = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
run_logger.log("Regularization Rate", regularization)
run_logger.log("Accuracy", 1 - regularization)
run_logger.log("Labels", ["setosa", "versicolor", "virginica"])
run_logger.log("Variable", os.environ.get("EXAMPLE_ENV_VAR", ""))
