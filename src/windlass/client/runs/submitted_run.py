"""The run inside its own script. To log is to append a line to a file of the run folder: no request to the server."""

from __future__ import annotations

import json
import os
import sys
from time import time
from typing import TYPE_CHECKING, Any, List

from windlass.client.exceptions import RunEnvironmentException
from windlass.client.metrics.line_writer import LineWriter
from windlass.client.metrics.metric_logging import metric_line
from windlass.client.names import metric_name
from windlass.client.runs.run import Run

if TYPE_CHECKING:
    from windlass.client.experiment import Experiment

_NEEDED = ("WINDLASS_RUN_FOLDER", "WINDLASS_RUN_ID", "WINDLASS_WORKSPACE", "WINDLASS_EXPERIMENT")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_LARGEST = 2**63
_MOST_NAMES = 10_000
_repr = float.__repr__
_PIECE = 1 << 20

_current: _SubmittedRun | None = None


def current_run(allow_offline: bool, **kwargs: Any) -> Any:
    """The run of this process, created once; outside of a run an _OfflineRun, or an error."""
    global _current
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if not missing:
        if _current is None or _current.id != os.environ["WINDLASS_RUN_ID"]:
            _current = _SubmittedRun(os.environ["WINDLASS_RUN_FOLDER"], os.environ["WINDLASS_RUN_ID"])
        return _current
    if not allow_offline:
        raise RunEnvironmentException(hint="windlass submit runs a script as a run.")
    from windlass.client.runs.offline_run import _OfflineRun

    return _OfflineRun(**kwargs)


class _SubmittedRun(Run):
    """Metrics, tags and files go through the run folder; requests that need a response go to the server with the run's
    token.
    """

    def __init__(self, folder: str, run_id: str) -> None:
        super().__init__(None, run_id, _check=False)  # type: ignore[arg-type]
        self._folder = folder
        self._script_folder = os.path.join(folder, "source")
        self._append = LineWriter(os.path.join(folder, "metrics")).append
        self._append_to_calls = LineWriter(os.path.join(folder, "calls")).append
        self._heads: dict[str, str] = {}

    @property
    def experiment(self) -> Experiment:
        if self._experiment is None:
            from windlass.client.workspace.workspace import workspace_of_run

            self._experiment = workspace_of_run()._experiment(os.environ["WINDLASS_EXPERIMENT"])
        return self._experiment

    def log(self, name: str, value: Any, description: str = "", step: int | None = None) -> None:
        """Log a value; takes microseconds. Floats (NumPy's too) and small whole numbers have a fast path."""
        if isinstance(value, float):
            text = _repr(value)
            text = _NOT_FINITE.get(text, text)
        elif type(value) is int and -_LARGEST < value < _LARGEST:
            text = str(value)
        else:
            return super().log(name, value, description, step)
        if description or (step is not None and type(step) is not int):
            return super().log(name, value, description, step)
        head = self._heads.get(name) or self._head(name)
        tail = "}\n" if step is None else f',"s":{step}}}\n'
        return self._append(f'{head}{text},"t":{time()!r}{tail}'.encode())

    def _head(self, name: str) -> str:
        if len(self._heads) >= _MOST_NAMES:
            self._heads.clear()
        head = self._heads[name] = f'{{"n":{json.dumps(metric_name(name))},"v":'
        return head

    def _write_metric(self, name: str, value: Any, kind: str, step: int | None, description: str) -> None:
        line = metric_line(name, value, kind, step, description)
        self._append(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _change(self, **changes: Any) -> None:
        for key, value in (changes.get("tags") or {}).items():
            self._write_call(do="tag", key=key, value=value)
        if changes.get("remove_tags"):
            self._write_call(do="untag", keys=changes["remove_tags"])
        if changes.get("properties"):
            self._write_call(do="properties", values=changes["properties"])
        named = {key: changes[key] for key in ("name", "description") if key in changes}
        if named:
            self._write_call(do="set", **named)
        if "archived" in changes:
            super()._change(archived=changes["archived"])
        self._seen = None

    def _store_file(self, name: str, source: Any) -> None:
        """Copy the file to the run folder, so that the script may change it afterwards."""
        from windlass.client.runs.files import file_size

        folder = os.path.join(self._folder, "uploads")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = os.path.join(folder, os.urandom(16).hex())
        with open(copy, "xb") as out:
            if isinstance(source, (bytes, bytearray)):
                out.write(source)
            elif hasattr(source, "read"):
                _pour(source, out)
            else:
                file_size(os.fspath(source))
                with open(source, "rb") as file:
                    _pour(file, out)
            size = out.tell()
        self._write_call(do="upload", path=name, file=f"uploads/{os.path.basename(copy)}", size=size)

    def _write_call(self, **call: Any) -> None:
        self._append_to_calls(json.dumps(call, separators=(",", ":")).encode() + b"\n")

    def get_secret(self, name: str) -> str:
        """A secret that this run was granted; read from an inherited file, without a request."""
        from windlass.client.runs import script_secrets

        return script_secrets.get(name)

    def get_secrets(self, secrets: List[str]) -> dict[str, str | None]:
        from windlass.client.runs import script_secrets

        found = script_secrets.read()
        return {name: found.get(name) for name in secrets}

    def flush(self, timeout_seconds: float = 300) -> None:
        """Do nothing: logged metrics are in the run folder already."""

    def complete(self, _set_status: bool = True) -> None:
        """Do nothing: a submitted run ends with its script."""

    def fail(self, error_details: Any = None, error_code: str | None = None, _set_status: bool = True) -> None:
        """Add an error to the run's events. The run itself ends with its script."""
        if error_details is not None or error_code is not None:
            super().fail(error_details, error_code)

    def cancel(self) -> None:
        print("Warning: cancel is not supported for submitted runs; end the script instead.", file=sys.stderr)

    def __exit__(self, *ending: Any) -> None:
        pass


def _pour(source: Any, out: Any) -> None:
    while True:
        piece = source.read(_PIECE)
        if not piece:
            return
        out.write(piece if isinstance(piece, bytes) else piece.encode("utf-8"))
