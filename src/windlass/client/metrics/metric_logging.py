"""The log methods of a run: scalars, lists, rows, tables, images and charts."""

from __future__ import annotations

import io
import os
import time
from typing import Any

from windlass.client.exceptions import UserErrorException
from windlass.client.metrics import metric_values
from windlass.client.names import metric_name, relative_path
from windlass.client.runs.record import RunRecord

_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")


class MetricLogging(RunRecord):
    def log(self, name: str, value: Any, description: str = "", step: int | None = None) -> None:
        """Log a value. Several values of one name are a series."""
        self._write_metric(name, metric_values.scalar(name, value), "scalar", _step(step), description)

    def log_list(self, name: str, value: Any, description: str = "") -> None:
        """Log several values at once."""
        self._write_metric(name, metric_values.values(name, value), "list", None, description)

    def log_row(self, name: str, description: str | None = None, **kwargs: Any) -> None:
        """Log a row of a table; each keyword is a column."""
        self._write_metric(name, metric_values.row(name, kwargs), "row", None, description or "")

    def log_table(self, name: str, value: Any, description: str = "") -> None:
        """Log a table: a dict of columns."""
        self._write_metric(name, metric_values.table(name, value), "table", None, description)

    def log_image(self, name: str, path: str | None = None, plot: Any = None, description: str = "") -> None:
        """Log an image: the path of a file, or a matplotlib plot."""
        if (path is None) == (plot is None):
            raise UserErrorException("log_image takes either path or plot.")
        image = _plotted(plot) if path is None else path
        end = ".png" if path is None else os.path.splitext(path)[1] or ".png"
        if path is not None:
            _check_image(path)
        file = f"{name}_{int(time.time() * 1000)}{end}"
        self._store_file(relative_path(file), image)
        address = f"aml://artifactId/ExperimentRun/dcid.{self.id}/{file}"
        self._write_metric(name, address, "image", None, description)

    def log_confusion_matrix(self, name: str, value: Any, description: str = "") -> None:
        self._write_metric(name, metric_values.document(name, value), "confusion_matrix", None, description)

    def log_accuracy_table(self, name: str, value: Any, description: str = "") -> None:
        self._write_metric(name, metric_values.document(name, value), "accuracy_table", None, description)

    def log_residuals(self, name: str, value: Any, description: str = "") -> None:
        self._write_metric(name, metric_values.document(name, value), "residuals", None, description)

    def log_predictions(self, name: str, value: Any, description: str = "") -> None:
        self._write_metric(name, metric_values.document(name, value), "predictions", None, description)


def metric_line(name: str, value: Any, kind: str, step: int | None, description: str) -> dict[str, Any]:
    """A metric in the format of files and requests (docs/dev/runner.md)."""
    line: dict[str, Any] = {"n": metric_name(name), "v": value, "t": time.time()}
    if kind != "scalar":
        line["k"] = kind
    if step is not None:
        line["s"] = step
    if description:
        line["d"] = description
    return line


def _step(step: Any) -> int | None:
    if step is None or type(step) is int:
        return step
    try:
        whole = int(step)
    except (TypeError, ValueError):
        whole = None
    if whole is None or whole != step:
        raise UserErrorException(f"A step is a whole number, not {step!r}.")
    return whole


def _plotted(plot: Any) -> bytes:
    buffer = io.BytesIO()
    if not hasattr(plot, "savefig"):
        raise UserErrorException(f"plot must be a matplotlib plot or figure, not a {type(plot).__name__}.")
    plot.savefig(buffer, format="png")
    return buffer.getvalue()


def _check_image(path: str) -> None:
    try:
        with open(path, "rb") as file:
            begin = file.read(16)
    except OSError as e:
        raise UserErrorException(f"The image {path} cannot be read: {e.strerror}") from None
    if not begin.startswith(_IMAGES):
        raise UserErrorException(f"{path} is not an image (PNG, JPEG, GIF, BMP, TIFF, WebP).")
