"""Run: its record, metrics, files, children and snapshot, and the calls that change it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List

from windlass.client import names
from windlass.client.exceptions import UserErrorException
from windlass.client.runs.files import RunFiles
from windlass.client.runs.labels import RunLabels
from windlass.client.runs.lifecycle import RunLifecycle
from windlass.client.unsupported import NO_DATA, AzureRuns, not_provided, not_provided_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from windlass.client.environments.environment import Environment
    from windlass.client.experiment import Experiment
    from windlass.client.models.model import Model
    from windlass.client.workspace.workspace import Workspace

INTERACTIVE = "interactive"
SCRIPT = "azureml.scriptrun"


class Run(RunLabels, RunLifecycle, RunFiles, AzureRuns):
    """One execution, kept in history.

    >>> run = Run.get_context()
    >>> run.log("accuracy", 0.9)  # in a script that was not submitted
    Attempted to log scalar metric accuracy:
    0.9
    """

    _script_folder: str | None = None  # the source folder of its script; set in the script itself

    def __init__(self, experiment: Experiment, run_id: str, outputs: Any = None, **kwargs: Any) -> None:
        super().__init__(experiment, names.run_id(str(run_id)), kwargs.get("_view"))
        if self._seen is None and kwargs.get("_check", True):
            self._refresh()

    # Constructors and lists.

    @classmethod
    def get_context(cls, allow_offline: bool = True, used_for_context_manager: bool = False, **kwargs: Any) -> Any:
        """The run that this script is part of; outside of a run, an offline run that prints what is logged to it."""
        from windlass.client.runs.submitted_run import current_run

        return current_run(allow_offline, **kwargs)

    @classmethod
    def get_submitted_run(cls, **kwargs: Any) -> Any:
        return cls.get_context(allow_offline=False, **kwargs)

    @staticmethod
    def get(workspace: Workspace, run_id: str) -> Run:
        return workspace.get_run(run_id)

    @staticmethod
    def list(
        experiment: Experiment,
        type: str | None = None,
        tags: Any = None,
        properties: Any = None,
        status: str | None = None,
        include_children: bool = False,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """The runs of an experiment, the newest first."""
        from windlass.client.runs.listing import find

        return find(experiment, type, tags, properties, status, None if include_children else "none")

    @staticmethod
    def list_by_compute(
        compute: Any, type: str | None = None, tags: Any = None, properties: Any = None, status: str | None = None
    ) -> Iterator[Run]:
        """The runs on a target, the newest first."""
        from windlass.client.runs.listing import on_target

        return on_target(compute.workspace, compute.name, type, tags, properties, status)

    # Properties and logs.

    @property
    def type(self) -> str | None:
        kind = str(self._view["type"])
        return None if kind == INTERACTIVE else kind

    @property
    def number(self) -> int:
        return int(self._view["number"])

    @property
    def parent(self) -> Run | None:
        above = self._view["parent"]
        return None if above is None else self.experiment.workspace.get_run(above)

    def get_details_with_logs(self) -> dict[str, Any]:
        """get_details() with the contents of the logs in place of their addresses."""
        found = self.get_details()
        for name in found["logFiles"]:
            found["logFiles"][name] = self._read_file(name).decode("utf-8", "replace")
        return found

    def get_all_logs(self, destination: str | None = None) -> List[str]:
        """Fetch the logs to a folder; returns their paths."""
        from windlass.client.runs.downloads import Download, quoted, safe_path

        folder = destination or safe_path("assets", self.id)
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise UserErrorException(f"{folder} exists and is not a directory.")
        files = [
            Download(name, f"{self._path}/files/{quoted(name)}", safe_path(folder, name))
            for name in self.get_details()["logFiles"]
        ]
        return self._save_all(files)

    def get_environment(self) -> Environment:
        from windlass.client.environments.environment import Environment

        definition = (self._refresh().get("spec") or {}).get("definition") or {}
        if "environment" not in definition:
            raise UserErrorException("There is no run definition or environment specified for the run.")
        return Environment.from_dict(definition["environment"])

    # Metrics.

    def get_metrics(
        self, name: str | None = None, recursive: bool = False, run_type: str | None = None, populate: bool = False
    ) -> dict[str, Any]:
        """{name: value} of the logged metrics; with `recursive`, {run id: metrics} of the run and all runs below it."""
        if not recursive:
            return self._metrics(name)
        family = [self, *self.get_children(recursive=True)]
        return {run.id: run._metrics(name) for run in family if run_type is None or run.type == run_type}

    def _metrics(self, name: str | None) -> dict[str, Any]:
        from windlass.client.metrics.get_metrics import fold, warn_skipped

        self.flush()
        series = self._call("GET", "/metrics", query={"name": name})["metrics"]
        warn_skipped(series)
        return fold(series)

    # Children.

    def get_children(
        self,
        recursive: bool = False,
        tags: Any = None,
        properties: Any = None,
        type: str | None = None,
        status: str | None = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        from windlass.client.runs.listing import below

        return below(self, recursive, type, tags, properties, status)

    def child_run(self, name: str | None = None, run_id: str | None = None, outputs: Any = None) -> Run:
        """A run below this one, which goes on until complete(), fail() or the end of its `with`."""
        from windlass.client.runs.interactive_run import start

        return start(self.experiment, name=name, run_id=run_id, outputs=outputs, parent=self.id)

    def create_children(
        self, count: int | None = None, tag_key: str | None = None, tag_values: Any = None
    ) -> List[Run]:
        """Several children at once: a number of them, or one for each value of a tag."""
        from windlass.client.runs.interactive_run import create_children

        return create_children(self, count, tag_key, tag_values)

    def submit_child(self, config: Any, tags: dict[str, Any] | None = None, **kwargs: Any) -> Run:
        """Submit a run below this one. In a script it goes to the target of the script's run, unless it names one."""
        from windlass.client.runs import script_secrets

        if script_secrets.is_in_run() and hasattr(config, "_for_child"):
            run = self if self._view["target"] else self.get_context()  # an interactive run has no target
            config = config._for_child(run._view["target"])
        return self.experiment._submit(config, tags, parent=self.id, **kwargs)

    def rerun(
        self,
        arguments: Any = None,
        compute_target: Any = None,
        *,
        set_arguments: Mapping[str, Any] | None = None,
        environment: Environment | None = None,
        environment_variables: Mapping[str, Any] | None = None,
        resources: Any = None,
        node_count: int | None = None,
        distributed_job_config: Any = None,
        secrets: List[str] | None = None,
        max_run_duration_seconds: int | None = None,
        priority: int | None = None,
        retries: int | None = None,
        retry_on: List[str] | None = None,
        experiment_name: str | None = None,
        display_name: str | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> Run:
        """Submit this run again, from the same snapshot, with changes; returns the new run at once.

        `arguments` replace all arguments of the script, and `set_arguments={"alpha": 0.2}` sets --alpha alone.
        Variables, secrets and tags are added to those of this run; all else that is given replaces what it had. The
        new run has the property `rerun_of`.
        """
        from windlass.client.runs.rerun import rerun

        changes = {
            "compute_target": compute_target,
            "environment": environment,
            "environment_variables": None if environment_variables is None else dict(environment_variables),
            "resources": resources,
            "node_count": node_count,
            "distributed_job_config": distributed_job_config,
            "secrets": secrets,
            "max_run_duration_seconds": max_run_duration_seconds,
            "priority": priority,
            "retries": retries,
            "retry_on": retry_on,
        }
        return rerun(self, arguments, set_arguments, experiment_name, display_name, tags, changes)

    # Snapshots.

    def exec(self, command: List[str], input: bytes = b"") -> tuple[int, bytes]:
        """Run a command where the run is: in its folder, with its variables, and in its container if it has one.

        The run must be running. Returns the exit code and the output; standard error is printed. Raises Conflict if the
        command did not end by itself: the run has ended, for instance.
        """
        from windlass.client.runs.channel import run_command

        return run_command(self._session, self.experiment.workspace._path, self.id, command, input)

    def get_snapshot_id(self) -> str | None:
        found = self._refresh()["snapshot"]
        return None if found is None else str(found)

    def take_snapshot(self, file_or_folder_path: str) -> str:
        """Keep a source folder with this run; for runs that are not submitted with one."""
        from windlass.client.submit.submission import attach_snapshot

        return attach_snapshot(self, file_or_folder_path)

    def restore_snapshot(self, snapshot_id: str | None = None, path: str | None = None) -> str:
        """Fetch the source of this run as a ZIP file; returns its path."""
        from windlass.client.runs.snapshot_zip import restore

        return restore(self, snapshot_id, path)

    def _read_file(self, name: str) -> bytes:
        from windlass.client.runs.downloads import quoted

        return b"".join(self._session.download(f"{self._path}/files/{quoted(name)}"))

    # Secrets.

    def get_secret(self, name: str) -> str:
        """The value of a secret of the workspace; inside a run's script, of one that the run was granted."""
        return self.experiment.workspace.get_default_keyvault().get_secret(name)

    def get_secrets(self, secrets: List[str]) -> dict[str, str | None]:
        """{name: value}; None for secrets that do not exist or were not granted."""
        return self.experiment.workspace.get_default_keyvault().get_secrets(secrets)

    @not_provided_parameters(*NO_DATA, "datasets", "sample_input_dataset", "sample_output_dataset")
    def register_model(
        self,
        model_name: str,
        model_path: str | None = None,
        tags: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        model_framework: str | None = None,
        model_framework_version: str | None = None,
        description: str | None = None,
        datasets: Any = None,
        sample_input_dataset: Any = None,
        sample_output_dataset: Any = None,
        resource_configuration: Any = None,
        **kwargs: Any,
    ) -> Model:
        """Register a file or folder of the run as the next version of a model. Inside the run's script it may be an
        uploaded one, or one in ./outputs as it is now; without `model_path`, the one that has the model's name.
        """
        from windlass.client.models import registry as registry
        from windlass.client.models.model import Model

        view = registry.register_of_run(
            self,
            model_name,
            model_path or model_name,
            self._script_folder,
            tags=tags,
            properties=properties,
            description=description,
            model_framework=model_framework,
            model_framework_version=model_framework_version,
        )
        return Model(self.experiment.workspace, _view=view)

    # Not provided in this version.

    @staticmethod
    @not_provided("A class of one's own for a type of runs", "Wrap the Run that Run.get() returns.")
    def add_type_provider(runtype: str, run_factory: Any) -> None: ...

    @not_provided("Removing what a run left on its target", "windlass gc removes what is not needed any more.")
    def clean(self) -> Any: ...

    @property
    @not_provided("Datasets of a run", "Pass paths as arguments of the script.")
    def input_datasets(self) -> Any: ...

    @property
    @not_provided("Datasets of a run", "Write to ./outputs.")
    def output_datasets(self) -> Any: ...

    # Comparison and display.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.id, self.experiment) == (other.id, other.experiment)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Run(Experiment: {self.experiment.name},\nId: {self.id},\nType: {self.type},\nStatus: {self.status})"

    def _repr_html_(self) -> str:
        from windlass.client.notebook.html import run_html

        return run_html(self)


class ScriptRun(Run):
    """A run of a submitted script."""

    RUN_TYPE = SCRIPT

    def __init__(
        self, experiment: Experiment, run_id: str, directory: Any = None, _run_config: Any = None, **kwargs: Any
    ) -> None:
        """Find a run by its id. `directory` has no meaning here: the source is in the run's snapshot."""
        super().__init__(experiment, run_id, **kwargs)


def make_run(experiment: Experiment, view: dict[str, Any]) -> Run:
    """A Run or ScriptRun from the server's view."""
    kind = ScriptRun if view["type"] == SCRIPT else Run
    return kind(experiment, view["id"], _view=view)


def get_run(experiment: Experiment, run_id: str, rehydrate: bool = True, clean_up: bool = True) -> Run:
    """Find a run by its id, as Run.get() does. `rehydrate` and `clean_up` have no meaning here."""
    return experiment.workspace.get_run(run_id)
