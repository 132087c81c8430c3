"""Submit a script that a test has as text."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from tests.faults.world import World
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec


def submit_script(world: World, script: str, arguments: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    data = script.encode()
    digest = hashlib.sha256(data).hexdigest()
    if "command" not in spec:
        spec["script"] = "main.py"
    spec.setdefault("target", world.target)
    spec.setdefault("environment", EnvironmentSpec(interpreter=world.python))
    asked = RunSpec(arguments=arguments, **spec)
    body = {
        "experiment": "e2e",
        "spec": to_wire(asked),
        "files": [{"path": "main.py", "digest": digest, "size": len(data), "executable": False}],
    }
    world.ask("PUT", f"/workspaces/default/blobs/{digest}", data)
    return world.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": secrets.token_hex(8)})
