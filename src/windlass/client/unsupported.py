"""Names of Azure's SDK that this version does not provide, with hints what to use instead.

Code may import all of them; their use raises NotProvided, never an empty result. A name that a later version provides
is removed from the tables below.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import wraps
from typing import Any, Callable, Dict, Tuple, TypeVar

from windlass.client.exceptions import NotProvided

F = TypeVar("F", bound=Callable[..., Any])

NO_DATA = ("The data of a model", "Say in its tags what it was made from.")
_HERE_OR_ATTACHED = "The target `local` runs scripts on this machine; RemoteCompute attaches another one."
_PATHS = "Pass paths as arguments of the script; what it writes to ./outputs is kept with the run."
_FILES = "Model.get_model_path(name) fetches a registered model, for a service of your own."
_STEPS = "Submit each step with Experiment.submit(), one after another."
_CHILDREN = "Submit a run per combination, or try them in one script, each in a run.child_run()."
_SCRIPT = "ScriptRunConfig runs the script; its environment names the framework among the packages."
_OWN_TRAINING = "Train in a script of your own, with ScriptRunConfig."
_SPARK = "Runs are of Python; packages are named by CondaDependencies."
_PLOTS = "Use the packages interpret-community or shap in the script, and keep what they find with run.upload_file()."
_LOGS = "Fetch the run's files with run.download_files(prefix='logs') and start tensorboard on them."
_CLIENTS = "Experiment and Run do what Azure's internal clients do."
_SHOWN = "run.wait_for_completion(show_output=True) shows how a run goes, and a notebook shows the run itself."

_NAMES = {
    _HERE_OR_ATTACHED: ("LinkedService", "SynapseWorkspaceLinkedServiceConfiguration"),
    _PATHS: (
        "AzureBlobDatastore", "Data", "DataLocation", "DataPath", "DataPathComputeBinding", "DataReference",
        "DataReferenceConfiguration", "DataType", "DatacacheConfiguration", "Dataset", "DatasetConsumptionConfig",
        "DatasetRegistrationOptions", "Datastore", "FileDataset", "GlobsOptions", "HDFSOutputDatasetConfig",
        "InputDatasets", "LinkOutput", "MountOptions", "OutputData", "OutputDatasets", "OutputFileDatasetConfig",
        "OutputOptions", "RegistrationOptions", "TabularDataset", "TabularDatasetFactory", "UploadOptions", "Uri",
    ),
    _FILES: (
        "AciWebservice", "AksEndpoint", "AksWebservice", "ContainerImage", "Image", "InferenceConfig",
        "LocalWebservice", "ModelPackage", "ModelProfile", "Webservice",
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
    _SCRIPT: ("Chainer",),
    _OWN_TRAINING: (
        "AutoMLConfig", "AutoMLImageConfig", "AutoMLRun", "FeaturizationConfig", "ForecastingParameters",
        "ReinforcementLearningEstimator",
    ),
    _SPARK: (
        "DEFAULT_MMLSPARK_CPU_IMAGE", "DatabricksCluster", "EggLibrary", "JarLibrary", "MavenLibrary", "PyPiLibrary",
        "RCranLibrary", "RCranPackage", "RGitHubPackage", "RSection",
    ),
    "environment.build(workspace).get_log() is the log of how an image was built.": ("DockerImageDetails",),
    "WINDLASS_URL names a shared server, and its settings the address it listens at.": (
        "PrivateEndPoint", "PrivateEndPointConfig",
    ),
    _LOGS: ("Tensorboard",),
}  # fmt: skip

# Name: what to use instead, for names that users may look for in the SDK itself.
HINTS = {name: hint for hint, names in _NAMES.items() for name in names}

# Module or package of `azureml`: what to use instead of its other names.
_MODULES = {
    "azureml._base_sdk_common": _CLIENTS,
    "azureml._restclient": _CLIENTS,
    "azureml._run_impl": _CLIENTS,
    "azureml.accel": _FILES,
    "azureml.automl": _OWN_TRAINING,
    "azureml.contrib.automl": _OWN_TRAINING,
    "azureml.contrib.brainwave": _FILES,
    "azureml.contrib.dataset": _PATHS,
    "azureml.contrib.explain": _PLOTS,
    "azureml.contrib.fairness": _PLOTS,
    "azureml.contrib.functions": _FILES,
    "azureml.contrib.gbdt": _OWN_TRAINING,
    "azureml.contrib.interpret": _PLOTS,
    "azureml.contrib.notebook": "Execute the notebook with nbclient or papermill in a script, with ScriptRunConfig.",
    "azureml.contrib.services": _FILES,
    "azureml.contrib.tensorboard": _LOGS,
    "azureml.contrib.train.rl": _OWN_TRAINING,
    "azureml.core.compute": _HERE_OR_ATTACHED,
    "azureml.core.compute_target": _HERE_OR_ATTACHED,
    "azureml.core.image": _FILES,
    "azureml.core.linked_service": _HERE_OR_ATTACHED,
    "azureml.core.webservice": _FILES,
    "azureml.data": _PATHS,
    "azureml.datadrift": "Compare the data in a script, and log how far it is apart with run.log().",
    "azureml.dataprep": "Read and clean data with pandas, in the script.",
    "azureml.evaluate": "Log with Run.get_context().log().",
    "azureml.explain": _PLOTS,
    "azureml.fsspec": _PATHS,
    "azureml.interpret": _PLOTS,
    "azureml.mlflow": "Log with Run.get_context().log().",
    "azureml.monitoring": _FILES,
    "azureml.opendatasets": "Download the data in the script, or pass the path of a copy as an argument.",
    "azureml.pipeline": _STEPS,
    "azureml.responsibleai": _PLOTS,
    "azureml.studio": "Submit the Python code of the module as a script, with ScriptRunConfig.",
    "azureml.tensorboard": _LOGS,
    "azureml.train.automl": _OWN_TRAINING,
    "azureml.train.hyperdrive": _CHILDREN,
    "azureml.widgets": _SHOWN,
}


class _NotProvidedType(ABCMeta):
    """Metaclass of placeholders: classes that can be named, subclassed and compared with, and do nothing else."""

    __azure_name__: str  # subclasses have names of their own
    __not_provided__: str  # what to use instead

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotProvided(cls.__azure_name__, cls.__not_provided__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):  # Python and notebooks ask any class for such names
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise NotProvided(f"{cls.__azure_name__}.{name}", cls.__not_provided__)


def not_provided(what: str, instead: str) -> Callable[[F], F]:
    """Mark a function as one that Azure has and this version lacks: calling it raises NotProvided.

    For a property, mark its getter.
    """

    def mark(function: F) -> F:
        @wraps(function)
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotProvided(what, instead)

        refuse.__doc__ = f"{what}: not provided in this version. {instead}"
        refuse.__not_provided__ = instead  # type: ignore[attr-defined]
        return refuse  # type: ignore[return-value]

    return mark


def not_provided_parameters(what: str, instead: str, *names: str) -> Callable[[F], F]:
    """Mark parameters that Azure has and this version lacks: a call that gives one of them raises NotProvided.

    None and other false values count as not given.
    """

    def mark(function: F) -> F:
        places = function.__code__.co_varnames

        @wraps(function)
        def check(*args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(places, args)), **kwargs}
            if any(given.get(name) for name in names):
                raise NotProvided(what, instead)
            return function(*args, **kwargs)

        check.__not_provided_parameters__ = dict.fromkeys(names, instead)  # type: ignore[attr-defined]
        return check  # type: ignore[return-value]

    return mark


_NO_STEPS = ("A pipeline of steps", "Submit each step with Experiment.submit(), and keep the Run that it returns.")
_NO_SWEEP = ("A sweep with a primary metric", "Compare the metrics of run.get_children(): child.get_metrics().")
_NO_OUTPUT = (
    "A model or output that the service made",
    "Write it to ./outputs in the script, and fetch it with run.download_files(prefix='outputs').",
)
_NO_AUTOML = ("Automated training", "Train in a script of your own, with ScriptRunConfig.")


class AzureRuns:
    """Mixin of Run: methods of Azure's runs of pipelines, sweeps and AutoML, which scripts call on any run."""

    @not_provided(*_NO_STEPS)
    def find_step_run(self, name: str) -> Any: ...

    @not_provided(*_NO_STEPS)
    def get_steps(self) -> Any: ...

    @not_provided(*_NO_STEPS)
    def get_pipeline_output(self, pipeline_output_name: str) -> Any: ...

    @not_provided(*_NO_STEPS)
    def publish_pipeline(
        self, name: str, description: str, version: str, continue_on_step_failure: Any = None, **kwargs: Any
    ) -> Any: ...

    @not_provided(*_NO_OUTPUT)
    def get_output(self, *args: Any, **kwargs: Any) -> Any: ...

    @not_provided(*_NO_OUTPUT)
    def get_outputs(self) -> Any: ...

    @not_provided(*_NO_OUTPUT)
    def get_output_data(self, name: str) -> Any: ...

    @not_provided(*_NO_SWEEP)
    def get_best_run_by_primary_metric(
        self, include_failed: bool = True, include_canceled: bool = True, include_resume_from_runs: bool = True
    ) -> Any: ...

    @not_provided(*_NO_SWEEP)
    def get_children_sorted_by_primary_metric(
        self, top: int = 0, reverse: bool = False, discard_no_metric: bool = False
    ) -> Any: ...

    @not_provided(*_NO_SWEEP)
    def get_best_child(self, *args: Any, **kwargs: Any) -> Any: ...

    @not_provided(*_NO_AUTOML)
    def continue_experiment(self, *args: Any, **kwargs: Any) -> Any: ...

    @not_provided(*_NO_AUTOML)
    def get_run_sdk_dependencies(self, *args: Any, **kwargs: Any) -> Any: ...

    @not_provided(*_NO_AUTOML)
    def clean_preprocessor_cache(self) -> Any: ...

    @property
    @not_provided(*_NO_AUTOML)
    def model_id(self) -> Any: ...


_placeholders: Dict[str, type] = {}


def placeholder(name: str, module: str) -> type:
    """The placeholder class for a name of Azure's SDK, looked up in that module first; the same in all modules."""
    if name not in _placeholders:
        instead = HINTS.get(name) or _instead_of(module)
        body = {"__module__": module, "__azure_name__": name, "__not_provided__": instead}
        _placeholders[name] = _NotProvidedType(name, (), body)
    return _placeholders[name]


def _instead_of(module: str) -> str:
    parts: Tuple[str, ...] = tuple(module.split("."))
    for count in range(len(parts), 0, -1):
        found = _MODULES.get(".".join(parts[:count]))
        if found:
            return found
    raise KeyError(module)
