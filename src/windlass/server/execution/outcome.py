"""The outcome of a run: its error message, usage, artifacts and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from windlass.core.entities import Artifact, Run
from windlass.core.states import Observation, Reason, RunState, Step
from windlass.store import Ending, Store

MAIN_LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
LARGE_OUTPUT = 8 << 20
MANY_OUTPUTS = 100
_LAST_BYTES = 4096
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def has_large_outputs(seen: Observation) -> bool:
    """Whether collecting a run's outputs takes more than a moment."""
    sizes = [size for path, size, _ in seen.files if path.startswith("source/outputs/")]
    return sum(sizes) > LARGE_OUTPUT or len(sizes) > MANY_OUTPUTS


def ending(store: Store, run: Run, step: Step, seen: Observation, artifacts: Sequence[Artifact]) -> Ending:
    error = _describe(store, run, step, artifacts)
    started_at = _moment(seen.started_at, run.created_at)
    return Ending(error, seen.usage, artifacts, started_at, _moment(seen.ended_at, started_at or run.created_at))


def _moment(unix_seconds: float | None, earliest: datetime) -> datetime | None:
    """The time, clamped to between `earliest` and now: a machine's clock may be wrong, and may jump."""
    if unix_seconds is None:
        return None
    likely = min(max(unix_seconds, earliest.timestamp()), datetime.now(UTC).timestamp())
    return datetime.fromtimestamp(likely, UTC)


def _describe(store: Store, run: Run, step: Step, artifacts: Sequence[Artifact]) -> dict[str, Any] | None:
    """The error of a failed run: its reason, one sentence, and the last line that it printed."""
    if step.state is not RunState.FAILED:
        return None
    path = BUILD_LOG if step.reason is Reason.ENVIRONMENT_FAILED else MAIN_LOG
    line = _last_line(store, artifacts, path)
    sentence = f"Run {run.id} failed: {step.message.rstrip('.')}."
    if line and line not in step.message and step.reason in (Reason.EXITED, Reason.ENVIRONMENT_FAILED):
        sentence += f" Its last line: {line}"
    return {"code": step.reason.value, "message": sentence}


def _last_line(store: Store, artifacts: Sequence[Artifact], path: str) -> str:
    found = next((artifact for artifact in artifacts if artifact.path == path), None)
    if found is None:
        return ""
    with store.blobs.open(found.digest) as file:
        file.seek(max(0, found.size - _LAST_BYTES))
        text = _COLOURS.sub("", file.read().decode("utf-8", "replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:300] if lines else ""
