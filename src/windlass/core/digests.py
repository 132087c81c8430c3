"""Content digests of snapshots and environments: equal files, or equal packages, have the same digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Iterable

from windlass.core.entities import EnvironmentSpec, SnapshotFile


def snapshot_digest(files: Iterable[SnapshotFile]) -> str:
    """The digest of a source tree: paths, contents and executable bits, whatever the order they come in."""
    return _digest([[f.path, f.digest, f.size, f.executable] for f in sorted(files, key=lambda f: f.path)])


def environment_digest(spec: EnvironmentSpec) -> str:
    """The digest of the packages and the image of an environment. Its name, version and variables do not count."""
    lists = [list(spec.pip), list(spec.pip_options), list(spec.conda), list(spec.channels)]
    container = [spec.image, spec.dockerfile] if (spec.image, spec.dockerfile) != (None, None) else []
    mode = [["strict"]] if spec.strict else []
    return _digest([spec.python_version, *lists, *container, *mode])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
