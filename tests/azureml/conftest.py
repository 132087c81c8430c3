"""Users have the package `azureml` on their path; so have these tests."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.sdk.conftest import exp, project, shared_home, ws
from windlass import compat

sys.path.insert(0, str(Path(compat.__path__[0])))

__all__ = ["exp", "project", "shared_home", "ws"]
