"""What a fuzzer makes of the OpenAPI document, at every operation: edges, nonsense, and what goes against its word.

The checks are schemathesis's own: never a 5xx, no answer that the document does not know, wrong data are refused,
nothing works without the token, and so on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, response_schema_conformance

from tests import sampling
from tests.inputs.conftest import running
from tests.inputs.operations import SHUTDOWN
from tests.inputs.outside import PATIENCE_SECONDS, WS, Outside
from tests.postgres import fresh_database
from tests.sampling import spread
from windlass.server import app
from windlass.server.http.openapi import describe
from windlass.server.security import principals

assert app.ROUTE_MODULES  # whose import declares the routes
DOCUMENT = describe()
# Cases are generated while tests are collected, by every worker: a sample is taken before, not after.
SAMPLED = set(spread(sorted(set(DOCUMENT["paths"]) - {SHUTDOWN}), 6 if sampling.IS_ON else None))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT).include(path=sorted(SAMPLED))
# The cases of this phase are computed while tests are collected, which takes each worker seconds.
SCHEMA.config.phases.coverage.enabled = not sampling.IS_ON
# Of a text that is too long it is also right to answer 413.
SCHEMA.config.checks.negative_data_rejection.expected_statuses.append("413")
# What cannot be said in a schema: that bytes have their digest, or that a target is there.
BEYOND_SCHEMAS = positive_data_acceptance
# This version of OpenAPI has no words for the events of a stream.
OF_EVENTS = response_schema_conformance
SENT: deque[float] = deque(maxlen=principals.WRONG_PER_SECOND // 3)  # when the last cases were
LINE = {"n": "m", "v": 1.0, "t": 0.0}
Case: TypeAlias = schemathesis.Case[Any]

bounded = settings(
    max_examples=15, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
patient = settings(parent=bounded, max_examples=300)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fuzzed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A server of its own, since settings are changed and garbage is collected as the fuzzer likes."""
    folder = tmp_path_factory.mktemp("fuzzed")
    if request.param == "sqlite":
        yield from running(folder, "sqlite")
    else:
        with fresh_database(request.getfixturevalue("postgres_server")) as url:
            yield from running(folder, "postgresql", url)


@pytest.fixture(scope="module")
def names(fuzzed: Outside) -> dict[str, dict[str, str]]:
    """What is there, by the part of an address that stands before it. The run is over, so that its stream ends."""
    run = fuzzed.run("open('outputs/a.txt', 'w').write('a')")
    fuzzed.call("POST", f"{WS}/runs/{run['id']}/metrics", {"writer": "w", "offset": 0, "lines": [LINE]}).kept()
    return {
        "workspaces": {"workspace": "default"},
        "runs": {"id": run["id"]},
        "experiments": {"name": "inputs"},
        "targets": {"name": "local"},
        "metrics": {"name": "m"},
        "files": {"path": "outputs/a.txt"},
        "snapshot": {"path": "main.py"},
    }


def send(case: Case, server: Outside, names: dict[str, dict[str, str]]) -> None:
    _take_time()
    if case.meta is not None and not case.meta.generation.mode.is_negative:
        _lead_somewhere(case, names)
    is_stream = case.path.endswith("/stream")
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{server.port}",
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=PATIENCE_SECONDS,
        excluded_checks=[BEYOND_SCHEMAS, OF_EVENTS] if is_stream else [BEYOND_SCHEMAS],
    )


def _take_time() -> None:
    """Each case is sent with two wrong tokens, too: who sends too many of them in a second is answered otherwise."""
    if len(SENT) == SENT.maxlen:
        time.sleep(max(0.0, SENT[0] + 1.0 - time.monotonic()))
    SENT.append(time.monotonic())


def _lead_somewhere(case: Case, names: dict[str, dict[str, str]]) -> None:
    """Names that a schema can make are hardly ever those of what is there."""
    for before, known in names.items():
        for part, value in known.items():
            if f"/{before}/{{{part}}}" in case.path:
                case.path_parameters[part] = value
    body: Any = case.body
    if isinstance(body, dict) and isinstance(body.get("spec"), dict):
        body["spec"]["target"] = "local"


@SCHEMA.parametrize()
@bounded
def test_what_a_fuzzer_sends_is_answered_as_the_document_says(
    case: Case, fuzzed: Outside, names: dict[str, dict[str, str]]
) -> None:
    send(case, fuzzed, names)


if not sampling.IS_ON:

    @pytest.mark.slow
    @SCHEMA.parametrize()
    @patient
    def test_what_a_patient_fuzzer_sends_is_answered_as_the_document_says(
        case: Case, fuzzed: Outside, names: dict[str, dict[str, str]]
    ) -> None:
        send(case, fuzzed, names)
