"""Experiment: a named series of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.exceptions import ResourceNotFound, UserErrorException
from windlass.client.unsupported import not_provided, not_provided_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.client.runs.moments import Moment
    from windlass.client.runs.run import Run
    from windlass.client.workspace.workspace import Workspace


_OPTIONS = "It has tags, display_name, run_id and show_output; all else is set in the configuration."


class DefaultFolder(str):
    """A default folder, as opposed to one that the caller passed."""


HERE = DefaultFolder(".")


class ViewType:
    ActiveOnly = "ActiveOnly"
    All = "All"
    ArchivedOnly = "ArchivedOnly"


class Experiment:
    """A named series of runs; created if it does not exist.

    >>> experiment = Experiment(Workspace.from_config(), "demo")
    >>> run = experiment.submit(ScriptRunConfig(".", "train.py"))
    >>> run.wait_for_completion()["status"]
    'Completed'
    """

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        _skip_name_validation: bool = False,
        _id: str | None = None,
        _archived_time: str | None = None,
        _create_in_cloud: bool = True,
        _experiment_dto: Any = None,
        *,
        _view: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._name = names.experiment_name(str(name))
        self._workspace = workspace
        self._seen: dict[str, Any] | None = _view
        if _create_in_cloud and _view is None:
            self._seen = workspace._session.call("POST", f"{workspace._path}/experiments", {"name": self._name})

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    @property
    def workspace_object(self) -> Workspace:
        return self._workspace

    @property
    def name(self) -> str:
        return self._name

    @property
    def id(self) -> str:
        return str(self._view["id"])

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._view["tags"])

    @property
    def archived_time(self) -> str | None:
        moment: str | None = self._view["archived_at"]
        return moment

    @property
    def _view(self) -> dict[str, Any]:
        if self._seen is None:
            self.refresh()
        assert self._seen is not None
        return self._seen

    @property
    def _path(self) -> str:
        return f"{self._workspace._path}/experiments/{self._name}"

    def submit(self, config: Any, tags: dict[str, Any] | None = None, **kwargs: Any) -> Run:
        """Submit a run of a configuration; returns at once. With `show_output=True`, waits and shows its output."""
        return self._submit(config, tags, **kwargs)

    def _submit(self, config: Any, tags: dict[str, Any] | None, show_output: bool = False, **options: Any) -> Run:
        if not hasattr(config, "submit_to"):
            raise UserErrorException(
                f"A {type(config).__name__} cannot be submitted.", "ScriptRunConfig describes a script to run."
            )
        try:
            run: Run = config.submit_to(self, tags=tags, **options)
        except TypeError as e:
            unknown = [name for name in options if f"unexpected keyword argument '{name}'" in str(e)]
            if unknown:
                raise UserErrorException(f"submit() does not know the option {unknown[0]}.", _OPTIONS) from None
            raise
        if show_output:
            run.wait_for_completion(show_output=True)
        return run

    def start_logging(
        self,
        name: str | None = None,
        run_id: str | None = None,
        outputs: Any = None,
        display_name: str | None = None,
        snapshot_directory: str | None = HERE,
    ) -> Run:
        """Begin an interactive run in this process, as in a notebook. It lasts until complete(), fail() or the end of
        its `with` block.

        `snapshot_directory` is stored as its source: the current folder by default, unless it is too large; None for
        no snapshot. New files in `outputs` (./outputs by default, False for no folder) are uploaded at its end.
        """
        from windlass.client.runs.interactive_run import start

        return start(
            self,
            name=name,
            run_id=run_id,
            outputs=outputs,
            display_name=display_name,
            snapshot_directory=snapshot_directory,
        )

    def get_runs(
        self,
        type: str | None = None,
        tags: Any = None,
        properties: Any = None,
        include_children: bool = False,
        *,
        submitted_by: str | Sequence[str] | None = None,
        mine: bool = False,
        search: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        archived: bool | None = False,
    ) -> Iterator[Run]:
        """The runs, the newest first.

        The further filters are: the members who submitted them, and `mine` for one's own; a text in id, name, arguments
        or tags; the time of the submit (a datetime, "2026-01-31", or "2d" for two days ago); `archived=True` for the
        archived runs, which are left out otherwise, and None for all.
        """
        from windlass.client.runs.listing import find

        return find(
            self,
            type,
            tags,
            properties,
            None,
            None if include_children else "none",
            submitted_by=submitted_by,
            mine=mine,
            search=search,
            since=since,
            until=until,
            archived=archived,
        )

    def archive(self) -> None:
        self._change(archived=True)

    @not_provided_parameters("Renaming an experiment", "Submit to an experiment of the new name.", "new_name")
    def reactivate(self, new_name: str | None = None) -> None:
        """Undo archive()."""
        self._change(archived=False)

    def tag(self, key: str, value: Any = None) -> None:
        self.set_tags({key: value})

    def set_tags(self, tags: dict[str, Any]) -> None:
        """Add or change tags; others stay."""
        self._change(tags={str(key): "" if value is None else str(value) for key, value in tags.items()})

    @not_provided("Removing tags of an experiment", "Set them to another value, or tag its runs.")
    def remove_tags(self, tags: Any) -> None: ...

    def refresh(self) -> None:
        self._seen = self._workspace._session.call("GET", self._path)

    def _change(self, **changes: Any) -> None:
        self._seen = self._workspace._session.call("PATCH", self._path, changes)

    @staticmethod
    def list(
        workspace: Workspace, experiment_name: str | None = None, view_type: str = ViewType.ActiveOnly, tags: Any = None
    ) -> list[Experiment]:
        found = workspace._session.call("GET", f"{workspace._path}/experiments")["experiments"]
        wanted = {tags: None} if isinstance(tags, str) else dict(tags or {})
        return [
            Experiment(workspace, view["name"], _view=view)
            for view in found
            if experiment_name in (None, view["name"])
            and (view_type == ViewType.All or (view_type == ViewType.ArchivedOnly) == bool(view["archived_at"]))
            and all(key in view["tags"] and value in (None, view["tags"][key]) for key, value in wanted.items())
        ]

    @staticmethod
    def delete(workspace: Workspace, experiment_id: str) -> None:
        """Delete an experiment that has no runs."""
        for experiment in Experiment.list(workspace, view_type=ViewType.All):
            if experiment_id in (experiment.id, experiment.name):
                workspace._session.call("DELETE", experiment._path)
                return
        raise ResourceNotFound(f"There is no experiment {experiment_id} in workspace {workspace.name}.")

    @staticmethod
    @not_provided("Experiments of older project files", "Experiment(Workspace.from_config(path), name) finds it.")
    def from_directory(path: str, auth: Any = None) -> Any: ...

    @classmethod
    @not_provided("The address of documentation", "docs/reference/sdk.md describes the class.")
    def get_docs_url(cls) -> Any: ...

    def get_portal_url(self) -> str:
        return f"{self._workspace._session.address.url}/workspaces/{self._workspace.name}/experiments/{self._name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and (self._name, self._workspace) == (other._name, other._workspace)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"Experiment(Name: {self._name},\nWorkspace: {self._workspace.name})"

    def _repr_html_(self) -> str:
        from windlass.client.notebook.html import experiment_html

        return experiment_html(self)
