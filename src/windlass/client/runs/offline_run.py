"""Offline run: outside of a run it prints what is logged, so that scripts can be tried out."""

from __future__ import annotations

from typing import Any, List

from windlass.client.exceptions import RunEnvironmentException


class _OfflineRun:
    def __init__(self, run_id: str | None = None, **kwargs: Any) -> None:
        if run_id is None:
            import uuid

            run_id = f"OfflineRun_{uuid.uuid4()}"
        self._run_id = run_id

    @property
    def id(self) -> str:
        return self._run_id

    def log(self, name: str, value: Any, description: str = "", step: int | None = None) -> None:
        self._emit("scalar", name, value)

    def log_list(self, name: str, value: Any, description: str = "") -> None:
        self._emit("list", name, value)

    def log_row(self, name: str, description: str | None = None, **kwargs: Any) -> None:
        self._emit("row", name, kwargs)

    def log_table(self, name: str, value: Any, description: str = "") -> None:
        self._emit("table", name, value)

    def log_image(self, name: str, path: Any = None, plot: Any = None, description: str = "") -> None:
        self._emit("image", name, path if plot is None else plot)

    def log_residuals(self, name: str, value: Any, description: str | None = None) -> None:
        self._emit("residual", name, value)

    def log_predictions(self, name: str, value: Any, description: str | None = None) -> None:
        self._emit("predictions", name, value)

    def log_accuracy_table(self, name: str, value: Any, description: str | None = None) -> None:
        self._emit("accuracy_table", name, value)

    def log_confusion_matrix(self, name: str, value: Any, description: str | None = None) -> None:
        self._emit("confusion_matrix", name, value)

    def add_properties(self, properties: dict[str, Any]) -> None:
        print(f"Attempted to add properties {properties}")

    def set_tags(self, tags: Any) -> None:
        print(f"Attempted to set tags {tags}")

    def tag(self, name: str, value: Any = None) -> None:
        print(f"Attempted to add tag {name} with value {value}")

    def upload_file(self, name: str, path_or_stream: Any, datastore_name: str | None = None) -> None:
        print(f"Attempted to track file {name} at {path_or_stream}")

    def upload_files(
        self,
        names: Any,
        paths: Any,
        return_artifacts: bool = False,
        timeout_seconds: float | None = None,
        datastore_name: str | None = None,
    ) -> None:
        print(f"Attempted to track files {names} at {paths} with timeout {timeout_seconds}s")

    def upload_folder(self, name: str, path: str, datastore_name: str | None = None) -> None:
        print(f"Attempted to track folder {name} at {path}")

    def child_run(self, name: str | None = None, run_id: str | None = None, outputs: Any = None) -> _OfflineRun:
        import uuid

        return _OfflineRun(run_id or f"{self.id}.{name or uuid.uuid4()}")

    def get_secret(self, name: str) -> str:
        raise _no_secret(name, f"get_secret({name!r})")

    def get_secrets(self, secrets: List[str]) -> dict[str, str | None]:
        raise _no_secret(", ".join(secrets), f"get_secrets({list(secrets)!r})")

    def complete(self) -> None:
        """Do nothing."""

    def fail(self, error_details: Any = None, error_code: str | None = None) -> None:
        print(f"Run failed with error code {error_code}:\n{error_details}")

    def cancel(self) -> None:
        """Do nothing."""

    def flush(self, timeout_seconds: float = 300) -> None:
        print(f"Attempted to flush run with id {self.id}")

    def __enter__(self) -> _OfflineRun:
        print(f"[START] Run {self.id} context")
        return self

    def __exit__(self, *ending: Any) -> None:
        print(f"[STOP] Run {self.id} context")

    def _emit(self, kind: str, name: str, value: Any) -> None:
        print(f"Attempted to log {kind} metric {name}:\n{value}")


def _no_secret(which: str, call: str) -> RunEnvironmentException:
    return RunEnvironmentException(
        f"Outside of a run there is no run's secret {which}.",
        hint=f"Workspace.from_config().get_default_keyvault().{call}",
    )
