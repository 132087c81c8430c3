"""Names of Azure's SDK that people import and this version lacks, with what to do instead.

A name that is provided one day leaves this list.
"""

from __future__ import annotations

_HERE_OR_ATTACHED = "The target `local` runs scripts on this machine; RemoteCompute attaches another one."
_PATHS = "Pass paths as arguments of the script; what it writes to ./outputs is kept with the run."
_FILES = "Model.get_model_path(name) fetches a registered model, for a service of your own."
_SIGNED_IN = "Leave it out: Workspace.from_config() needs none, and WINDLASS_TOKEN signs in at a shared server."
_STEPS = "Submit each step with Experiment.submit(), one after another."
_CHILDREN = "Submit a run per combination, or try them in one script, each in a run.child_run()."
_SCRIPT = "ScriptRunConfig runs the script; its environment names the framework among the packages."
_OWN_TRAINING = "Train in a script of your own, with ScriptRunConfig."
_SPARK = "Runs are of Python; packages are named by CondaDependencies."

_NAMES = {
    _HERE_OR_ATTACHED: (
        "AdlaCompute", "AksCompute", "AmlCompute", "BatchAiCompute", "BatchCompute", "ComputeInstance",
        "DataFactoryCompute", "DatabricksCompute", "HDInsightCompute", "KubernetesCompute", "KustoCompute",
        "LinkedService", "LocalTarget", "SynapseCompute", "SynapseWorkspaceLinkedServiceConfiguration",
    ),
    _PATHS: (
        "AzureBlobDatastore", "Data", "DataLocation", "DataPath", "DataPathComputeBinding", "DataReference",
        "DataReferenceConfiguration", "DataType", "Dataset", "DatasetConsumptionConfig", "Datastore", "FileDataset",
        "HDFSOutputDatasetConfig", "OutputFileDatasetConfig", "TabularDataset", "TabularDatasetFactory",
    ),
    _FILES: (
        "AciWebservice", "AksEndpoint", "AksWebservice", "ContainerImage", "Image", "InferenceConfig",
        "LocalWebservice", "ResourceConfiguration", "Webservice",
    ),
    _SIGNED_IN: (
        "AuthenticationException", "AzureCliAuthentication", "InteractiveLoginAuthentication", "MsiAuthentication",
        "ServicePrincipalAuthentication", "TokenAuthentication",
    ),
    _STEPS: (
        "AutoMLStep", "CommandStep", "DataTransferStep", "DatabricksStep", "EstimatorStep", "HyperDriveStep",
        "ParallelRunConfig", "ParallelRunStep", "Pipeline", "PipelineData", "PipelineEndpoint", "PipelineParameter",
        "PipelineRun", "PublishedPipeline", "PythonScriptStep", "Schedule", "ScheduleRecurrence", "StepSequence",
        "TrainingOutput",
    ),
    _CHILDREN: (
        "BanditPolicy", "BayesianParameterSampling", "GridParameterSampling", "HyperDriveConfig", "HyperDriveRun",
        "MedianStoppingPolicy", "PrimaryMetricGoal", "RandomParameterSampling", "TruncationSelectionPolicy", "choice",
        "loguniform", "quniform", "uniform",
    ),
    _SCRIPT: ("Estimator", "Mpi", "Nccl", "PyTorch", "SKLearn", "TensorFlow"),
    _OWN_TRAINING: (
        "AutoMLConfig", "AutoMLImageConfig", "AutoMLRun", "FeaturizationConfig", "ForecastingParameters",
        "ReinforcementLearningEstimator",
    ),
    _SPARK: ("JarLibrary", "PyPiLibrary", "RCranPackage", "RSection", "SparkPackage"),
    "Environment has the same sections.": ("EnvironmentDefinition",),
    "Run.get(workspace, run_id) finds a run.": ("get_run",),
    "run.wait_for_completion(show_output=True) shows how a run goes, and a notebook shows the run itself.": (
        "RunDetails", "Tensorboard",
    ),
}  # fmt: skip

HINTS = {name: hint for hint, names in _NAMES.items() for name in names}
