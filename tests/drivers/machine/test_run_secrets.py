"""What a run was granted goes with the frame that starts its job, and is in nothing that is kept or shown."""

from __future__ import annotations

import json
from pathlib import PurePath

from pydantic import SecretStr

from windlass.drivers import plan
from windlass.drivers.base import Job
from windlass.drivers.machine import protocol

CANARY = "the-canary-sings"
GRANTED = {"b": SecretStr(CANARY), "a": SecretStr("other")}


def job(**more: object) -> Job:
    return Job("demo_1.1", "demo_1", 1, "n", 1, ("{python}", "train.py"), **more)  # type: ignore[arg-type]


def test_values_go_with_the_start() -> None:
    document = protocol.run_document(job(granted=GRANTED), {})
    assert document["secrets"] == ["a", "b"] and document["granted"] == {"a": "other", "b": CANARY}


def test_a_job_that_is_only_held_ready_has_names() -> None:
    document = protocol.run_document(job(granted=GRANTED), {}, is_prestaged=True)
    assert document["secrets"] == ["a", "b"] and "granted" not in document
    assert CANARY not in json.dumps(document)


def test_a_job_without_secrets_says_nothing_of_them() -> None:
    document = protocol.run_document(job(), {})
    assert "secrets" not in document and "granted" not in document
    assert "secrets" not in plan.render("box", "local", PurePath("/m"), job())


def test_a_plan_shows_names() -> None:
    for granted in (GRANTED, dict.fromkeys(GRANTED)):
        text = plan.render("box", "local", PurePath("/m"), job(granted=granted))
        assert "secrets      a b\n" in text and CANARY not in text


def test_a_job_shows_no_value() -> None:
    assert CANARY not in repr(job(granted=GRANTED))
