"""What a machine says that it has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = (
    "import json, sys; from windlass.runner.system import inventory; "
    "print(json.dumps(inventory.collect(sys.argv[1], None)))"
)


def offered(folder: Path, path: str = "") -> dict[str, object]:
    """By a process of its own, since a machine's GPUs are asked for once."""
    import json

    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run([sys.executable, "-c", ASK, str(folder)], capture_output=True, check=True, env=environment)
    found: dict[str, object] = json.loads(asked.stdout)
    return found


def test_what_every_machine_has(tmp_path: Path) -> None:
    found = offered(tmp_path)
    assert {"os", "machine", "cores", "memory_mb", "disk_free_mb", "gpus", "gpu_names", "docker"} <= set(found)
    assert found["cores"] == len(os.sched_getaffinity(0))


def fake_nvidia_smi(folder: Path, code: str) -> str:
    """A stand-in for nvidia-smi: there is no GPU here."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{code}\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('[ "$1" = --query-gpu=name ] && printf "Tesla T4\\nTesla V100\\n"', ["Tesla T4", "Tesla V100"]),
        ("echo no devices were found; exit 6", []),
        ("kill -9 $$", []),
    ],
    ids=["two", "none", "dies"],
)
def test_gpus_where_the_driver_does_not_tell(tmp_path: Path, code: str, names: list[str]) -> None:
    found = offered(tmp_path, fake_nvidia_smi(tmp_path, code))
    assert (found["gpu_names"], found["gpus"]) == (names, len(names))
