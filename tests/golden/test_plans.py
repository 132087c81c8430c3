"""Plans read as agreed. After a change that is meant, `python -m tests.golden.test_plans` writes them anew."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from windlass import drivers
from windlass.core.entities import Container, EnvironmentSpec, Resources
from windlass.drivers.base import DriverContext, Job, ThisComputer
from windlass.testing.harness import GivenSecrets
from windlass.testing.programs import MemoryBundle

HERE = Path(__file__).parent
CONFIGS: dict[str, dict[str, Any]] = {
    "local": {"root": "/srv/windlass/machine"},
    "docker": {"root": "/srv/windlass/machine"},
    "cluster": {"root": "/srv/windlass/machine", "vm_size": "Standard_NC6"},
    "ssh": {"address": "box.example.org", "username": "me"},
}

JOBS = {
    "script": Job(
        "demo_1790000000_0a1b2c3d.1",
        "demo_1790000000_0a1b2c3d",
        1,
        "nonce-of-this-attempt",
        1,
        ("{python}", "train.py", "--alpha", "0.1"),
        env={"WINDLASS_RUN_ID": "demo_1790000000_0a1b2c3d", "OMP_NUM_THREADS": "2"},
        secrets={"WINDLASS_RUN_TOKEN": SecretStr("s3cr3t"), "AZUREML_RUN_TOKEN": SecretStr("s3cr3t")},
        environment=EnvironmentSpec(interpreter="/usr/bin/python3"),
        bundle=MemoryBundle({"train.py": b"print('hello')\n", "data/x.csv": b"1\n", "data/y.csv": b"2\n"}),
    ),
    "built": Job(
        "demo_2.3",
        "demo_2",
        3,
        "n",
        7,
        ("{python}", "-m", "package.train"),
        environment=EnvironmentSpec(
            name="sklearn",
            python_version="3.11",
            pip=("scikit-learn==1.5.0", "git+https://user:s3cr3t@example.org/private.git"),
            pip_options=("--index-url", "https://user:s3cr3t@example.org/simple"),
        ),
        bundle=MemoryBundle({"package/train.py": b""}),
        resources=Resources(nodes=1, cpus=1.5, gpus=1, memory_mb=4096),
        time_limit=timedelta(hours=1),
        grace=timedelta(seconds=0.5),
        watch=("logs", "my plots"),
    ),
    "container": Job(
        "demo_4.1",
        "demo_4",
        1,
        "n",
        1,
        ("{python}", "train.py"),
        environment=EnvironmentSpec(interpreter="python3", image="registry.example.org/team/torch:2.5"),
        container=Container(shm_size_mb=2048, arguments=("--cpus", "2", "-e", "NAME=two words", "--network=none")),
        resources=Resources(memory_mb=4096),
    ),
    "command": Job(
        "demo_3.1",
        "demo_3",
        1,
        "n",
        1,
        ("bash", "-c", 'echo "$HOME"', "it's", "two\nlines", "bell\a", "grüße", ""),
        env={"TEXT": "a\tb", "EMPTY": ""},
        watch=(),
    ),
}


def plan_text(kind: str, job: Job) -> str:
    kind_of = drivers.load(kind)
    driver = kind_of("box", kind_of.config_model(**CONFIGS[kind]), GivenSecrets(), drivers.open_pool())
    driver.context = DriverContext(computer=ThisComputer(8.0, 32_768, gpus=2))
    return driver.plan(job).text


def golden(kind: str, name: str) -> Path:
    return HERE / kind / f"{name}.txt"


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_the_plan_reads_as_agreed(kind: str, name: str) -> None:
    text = plan_text(kind, JOBS[name])
    assert text == golden(kind, name).read_text(encoding="utf-8")
    assert "s3cr3t" not in text


def test_every_kind_for_users_has_golden_plans() -> None:
    assert set(CONFIGS) == {kind for kind in drivers.known_kinds() if not drivers.load(kind).is_internal}


if __name__ == "__main__":
    for each_kind in CONFIGS:
        for each_name, each_job in JOBS.items():
            golden(each_kind, each_name).parent.mkdir(exist_ok=True)
            golden(each_kind, each_name).write_text(plan_text(each_kind, each_job), encoding="utf-8")
