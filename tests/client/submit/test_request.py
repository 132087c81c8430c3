"""Sending a run: missing files are uploaded, and the request is repeated with the same key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.client.http.connection import Body
from windlass.client.submit import request, snapshot
from windlass.client.submit.snapshot import Snapshot, SourceChanged
from windlass.core.errors import NotFound, SnapshotIncomplete, SpecNotSupported

BODY = {"experiment": "demo", "spec": {"target": "local", "definition": {"amlcompute": {"vmSize": "d2_v2"}}}}


class FakeSession:
    """Answers each request with the next of `answers`."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any, str]] = []

    def call(self, method: str, path: str, body: Any = None, query: Any = None, key: str = "") -> Any:
        self.asked.append((f"{method} {path}", body, key))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def transfer(self, method: str, path: str, body: Body, length: int) -> None:
        assert not isinstance(body, bytes)
        self.asked.append((f"{method} {path}", b"".join(body()), ""))

    @property
    def requests(self) -> list[str]:
        return [what for what, _, _ in self.asked]


@pytest.fixture
def taken(tmp_path: Path) -> Snapshot:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("print(1)\n")
    return snapshot.take(str(tmp_path / "source"), str(tmp_path / "home"))


def incomplete(*missing: str, **details: Any) -> SnapshotIncomplete:
    return SnapshotIncomplete("not here", "", {"missing": list(missing), **details})


def send(session: FakeSession, taken: Snapshot, body: dict[str, Any] = BODY, saves_requests: bool = False) -> Any:
    return request.send(session, "/w", body, taken, saves_requests=saves_requests)  # type: ignore[arg-type]


def test_missing_files_are_uploaded(taken: Snapshot) -> None:
    session = FakeSession(incomplete(taken.files[0].digest), {"id": "r"})
    assert send(session, taken) == {"id": "r"}
    assert session.requests == ["POST /w/runs", "POST /w/blobs", "POST /w/runs"]
    (_, first, key), _, (_, second, again) = session.asked
    assert first == second == {**BODY, "files": taken.manifest()}
    assert key == again != ""


@pytest.mark.parametrize("missing", [(), ("0" * 64,)])
def test_a_refusal_that_no_upload_helps_against_is_raised(taken: Snapshot, missing: tuple[str, ...]) -> None:
    session = FakeSession(incomplete(*missing))
    with pytest.raises(SnapshotIncomplete):
        send(session, taken)
    assert session.requests == ["POST /w/runs"]


def test_few_changed_bytes_are_uploaded_first(taken: Snapshot) -> None:
    session = FakeSession({"id": "r"})
    send(session, taken, saves_requests=True)
    assert session.requests == ["POST /w/blobs", "POST /w/runs"]


def test_a_large_manifest_is_sent_only_if_the_server_does_not_have_it(
    taken: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "_MANY_FILES", 0)
    unchanged = Snapshot(taken.folder, taken.files)
    session = FakeSession(incomplete(manifest=True), {"id": "r"})
    send(session, unchanged, saves_requests=True)
    (_, first, _), (_, second, _) = session.asked
    assert "files" not in first and first["spec"]["snapshot"] == taken.digest()
    assert second == {**BODY, "files": taken.manifest()}


def test_a_cluster_of_the_run_is_created_first_and_deleted_if_the_run_is_refused(taken: Snapshot) -> None:
    body = {**BODY, "run_id": "demo_1_0000000a", "spec": {**BODY["spec"], "target": "amlcompute"}}  # type: ignore[dict-item]
    session = FakeSession(NotFound("none"), {}, SpecNotSupported("refused"), {})
    with pytest.raises(SpecNotSupported, match="refused"):
        send(session, taken, body)
    name = "run-0000000a"
    assert session.requests == [
        f"GET /w/targets/{name}",
        "POST /w/targets",
        "POST /w/runs",
        f"DELETE /w/targets/{name}",
    ]
    assert (session.asked[2][1]["run_id"], session.asked[2][1]["spec"]["target"]) == ("demo_1_0000000a", name)


def test_a_folder_that_changes_is_submitted_again() -> None:
    answers: list[Any] = [SourceChanged("x"), SourceChanged("x"), {"id": "r"}]

    def submit() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, dict)
        return answer

    assert request.retry_if_changed(submit) == {"id": "r"}
    answers[:] = [SourceChanged("x")] * 3
    with pytest.raises(SourceChanged):
        request.retry_if_changed(submit)


def test_the_line_of_a_node_count_is_added_to_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "a.runconfig").write_text("target: local\nnodeCount: 2\n")
    for nodes, is_located in ((2, True), (3, False)):
        with (
            pytest.raises(SpecNotSupported) as caught,
            request.locating_node_count(str(tmp_path / "a.runconfig"), nodes),
        ):
            raise SpecNotSupported("runs on one node")
        assert caught.value.message.endswith("runs on one node")
        assert ("a.runconfig" in caught.value.message) == is_located
