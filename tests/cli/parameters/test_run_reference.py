"""Which run a user means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.fake import FakeSession, W, a_run, windlass

IDS = ["demo_1763268000_3f9a1c2b", "demo_1763268001_3f00beef", "other_1763268002_77aa88bb", "own-id"]


@pytest.fixture
def session() -> FakeSession:
    def find(body: Any, query: dict[str, Any]) -> Any:
        found = [run_id for run_id in reversed(IDS) if query.get("search", "") in run_id]
        return {"runs": [a_run(run_id) for run_id in found[: query["limit"]]], "next": None}

    answers = {f"POST {W}/runs/{run_id}/cancel": a_run(run_id) for run_id in IDS}
    return FakeSession({f"GET {W}/runs": find, **answers})


def meant(session: FakeSession, text: str) -> str:
    assert windlass(session, "cancel", text) == 0
    return session.asked[-1][0].split("/")[-2]


@pytest.mark.parametrize(
    ("text", "run_id"),
    [
        (IDS[0], IDS[0]),
        ("3f9", IDS[0]),
        ("77aa88bb", IDS[2]),
        ("other", IDS[2]),
        ("own-id", "own-id"),
        ("own", "own-id"),
        ("@last", "own-id"),
        ("@last~1", IDS[2]),
    ],
)
def test_a_run_is_found(session: FakeSession, text: str, run_id: str) -> None:
    assert meant(session, text) == run_id


def test_a_whole_id_needs_no_search(session: FakeSession) -> None:
    meant(session, IDS[0])
    assert len(session.asked) == 1


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("3f", 2, "could be any of"),
        ("demo", 2, "Type more"),
        ("nothing", 3, "There is no run nothing"),
        ("@first", 2, "@last"),
        ("@last~9", 3, "there are only 4 runs"),
        ("../../etc", 2, "A run id has"),
        ("a\x1bb", 2, "A run id has"),
    ],
)
def test_others_are_refused_with_a_reason(
    session: FakeSession, text: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert windlass(session, "cancel", text) == code
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) <= 2
