"""Lines of logs by number: of long and short ones, growing and sealed ones, and a search in them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.serving import HOME, Server
from windlass.core.entities import Artifact
from windlass.core.states import Reason, RunState, Step
from windlass.server.streaming.line_index import BLOCK, LONGEST, SHORTEST_CUT, FileMoved, LineIndexes
from windlass.server.streaming.log_reader import find_file
from windlass.store import Ending

LOG = "user_logs/std_log.txt"


def grow(server: Server, run: str, data: bytes, path: str = LOG) -> None:
    logs = server.store.logs
    logs.append(run, 1, path, logs.size(run, 1, path), data)


def end_with(server: Server, run: str, path: str, data: bytes, gap: tuple[int, int] = (0, 0)) -> None:
    store = server.store
    digest, size = store.blobs.put(iter([data]))
    artifact = Artifact(path, digest, size, datetime.now(UTC), *gap)
    step = Step(RunState.COMPLETED, Reason.EXITED, "", 0)
    store.runs.advance(run, expect=RunState.RUNNING, step=step, fence=None, ending=Ending(artifacts=[artifact]))
    store.logs.drop(run, 1)


def lines(server: Server, run: str, **asked: Any) -> Any:
    query = "&".join(f"{key}={quote(str(value))}" for key, value in {"path": LOG, **asked}.items())
    return server.call("GET", f"{HOME}/runs/{run}/lines?{query}").json


def search(server: Server, run: str, text: str, **asked: Any) -> Any:
    query = "&".join(f"{key}={quote(str(value))}" for key, value in {"path": LOG, "text": text, **asked}.items())
    return server.call("GET", f"{HOME}/runs/{run}/lines/search?{query}").json


def test_a_log_is_read_by_the_line_while_it_grows(server: Server) -> None:
    run = server.interactive()["id"]
    grow(server, run, b"one\ntwo\r 50%\r100%\nthr")
    assert lines(server, run) == {
        "path": LOG,
        "attempt": 1,
        "first": 0,
        "lines": ["one", "two\r 50%\r100%", "thr"],
        "cut": [],
        "gap": None,
        "line_count": 3,
        "size": 21,
        "is_complete": False,
    }
    grow(server, run, b"ee\n\nfive\n")
    found = lines(server, run, first=-3)
    assert (found["first"], found["lines"], found["line_count"]) == (2, ["three", "", "five"], 5)
    assert lines(server, run, first=1, limit=2)["lines"] == ["two\r 50%\r100%", "three"]
    assert lines(server, run, first=-1000)["first"] == 0
    beyond = lines(server, run, first=9)
    assert (beyond["first"], beyond["lines"]) == (5, [])


def test_a_new_run_with_the_id_of_a_deleted_one_has_its_own_lines(server: Server) -> None:
    first = server.interactive(run_id="again")["id"]
    grow(server, first, b"short\n" * BLOCK)
    assert lines(server, first)["line_count"] == BLOCK
    server.call("POST", f"{HOME}/runs/{first}/end", {"state": "Completed"})
    assert server.call("DELETE", f"{HOME}/runs/{first}").status == 200
    second = server.interactive(run_id="again")["id"]
    grow(server, second, b"".join(b"line %d of the second run\n" % number for number in range(BLOCK)))
    found = lines(server, second, first=40_000, limit=1)
    assert (found["lines"], found["line_count"]) == (["line 40000 of the second run"], BLOCK)


def test_every_line_has_its_number(server: Server) -> None:
    """Lines of all lengths, around the blocks of the index, read in pages and found by searches."""
    run = server.interactive()["id"]
    chance = random.Random(7)
    written = [f"{number} " + "x" * chance.choice([0, 1, 90, 800, 9_000]) for number in range(300)]
    written += ["" for _ in range(50)] + [f"{number} end" for number in range(350, 400)]
    written[20] = "20 " + "y" * (BLOCK - 4)
    written[200] = "200 " + "z" * (3 * BLOCK)
    whole = "\n".join(written).encode() + b"\n"
    for start in range(0, len(whole), 50_000):  # the index goes on with the log
        grow(server, run, whole[start : start + 50_000])
        lines(server, run, first=-1, limit=1)
    found: list[str] = []
    while len(found) < len(written):
        page = lines(server, run, first=len(found), limit=37)
        assert page["first"] == len(found) and page["line_count"] == len(written)
        assert {(each["line"], each["size"]) for each in page["cut"]} == {
            (number, len(written[number]))
            for number in (20, 200)
            if len(found) <= number < len(found) + len(page["lines"])
        }
        found += page["lines"]
    assert found == [line[:LONGEST] for line in written]
    for number in (0, 20, 21, 199, 200, 201, 299, 355, 399):
        match = search(server, run, f"{number} ", after=number - 1, limit=1)["matches"]
        assert [each["line"] for each in match] == [number]


def test_the_lines_of_a_sealed_log_stay(server: Server) -> None:
    run = server.interactive()["id"]
    grow(server, run, b"one\ntwo\n")
    assert not lines(server, run)["is_complete"]
    end_with(server, run, LOG, b"one\ntwo\nthree")
    found = lines(server, run)
    assert found["lines"] == ["one", "two", "three"] and found["line_count"] == 3 and found["is_complete"]


def test_a_gap_is_named(server: Server) -> None:
    """Of a log that reached its limit, the beginning and the end are kept."""
    run = server.interactive()["id"]
    end_with(server, run, LOG, b"one\ntwlast\nend\n", gap=(6, 1234))
    found = lines(server, run)
    assert found["gap"] == {"line": 1, "size": 1234}
    assert found["lines"] == ["one", "tw [1234 bytes are not kept] last", "end"]
    assert lines(server, run, first=2)["gap"] == {"line": 1, "size": 1234}


def test_a_page_of_long_lines_is_bounded(server: Server) -> None:
    run = server.interactive()["id"]
    grow(server, run, b"".join(b"%d " % number + b"m" * 12_000 + b"\n" for number in range(1500)))
    page = lines(server, run, limit=1500)
    assert len(page["lines"]) == 1500 == len(page["cut"])
    assert len(page["lines"][0]) == LONGEST and len(page["lines"][-1]) == SHORTEST_CUT
    assert page["lines"][-1].startswith("1499 m")


def test_of_a_long_line_of_progress_the_end_is_shown(server: Server) -> None:
    run = server.interactive()["id"]
    short = b"".join(b"\r%6d of 2000" % done for done in range(1, 2001))
    long = b"".join(b"\r%6d of 99999" % done for done in range(1, 100_000))
    grow(server, run, b"before\n" + short + b"\n" + long + b"\nafter\n")
    page = lines(server, run)
    assert [text.rpartition("\r")[2].strip() for text in page["lines"]] == [
        "before",
        "2000 of 2000",
        "99999 of 99999",
        "after",
    ]
    assert page["cut"] == [{"line": 1, "size": len(short)}, {"line": 2, "size": len(long)}]


def test_a_search_goes_on_where_it_stopped(server: Server) -> None:
    run = server.interactive()["id"]
    grow(server, run, "".join(f"step {i} loss\n" for i in range(250)).encode() + b"over")
    found: list[int] = []
    after: int | None = -1
    while after is not None:
        page = search(server, run, "loss", after=after, limit=100)
        found += [match["line"] for match in page["matches"]]
        after = page["next"]
    assert found == list(range(250))
    assert search(server, run, "step 7 ")["matches"] == [{"line": 7, "text": "step 7 loss"}]
    assert search(server, run, "over")["matches"] == [{"line": 250, "text": "over"}]
    assert search(server, run, "nothing") == {
        "path": LOG, "attempt": 1, "matches": [], "next": None, "line_count": 251,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found", "in_any_case"),
    [("Error", [1], [0, 1]), ("größe", [2], [2, 3]), ("a.c", [4], [4]), ("ERROR", [], [0, 1]), ("日本", [5], [5])],
)
def test_a_search_is_for_text_as_it_is_or_in_any_case(
    shared: Server, text: str, found: list[int], in_any_case: list[int]
) -> None:
    run = shared.interactive()["id"]
    grow(shared, run, "an error\nan Error\ndie größe\nDIE GRÖßE\na.c abc\n日本\n".encode())
    assert [match["line"] for match in search(shared, run, text)["matches"]] == found
    assert [match["line"] for match in search(shared, run, text, ignore_case="true")["matches"]] == in_any_case


def test_a_match_in_a_long_line_is_shown_with_what_is_around_it(shared: Server) -> None:
    run = shared.interactive()["id"]
    grow(shared, run, b"short\n" + b"x" * (2 * BLOCK - 3) + b"needle" + b"y" * BLOCK + b"\nneedle\n")
    found = search(shared, run, "needle")["matches"]
    assert [match["line"] for match in found] == [1, 2]
    assert "xneedley" in found[0]["text"] and len(found[0]["text"]) == 1000


def test_any_bytes_can_be_shown(shared: Server) -> None:
    run = shared.interactive()["id"]
    grow(shared, run, b"\xff\xfe caf\xc3\n\x00\x1b[31mred\x1b[0m\n\xe6\x97")
    assert lines(shared, run)["lines"] == ["\ufffd\ufffd caf\ufffd", "\0\x1b[31mred\x1b[0m", "\ufffd"]


def test_an_empty_log_has_no_lines(shared: Server) -> None:
    run = shared.interactive()["id"]
    grow(shared, run, b"")
    assert (lines(shared, run)["line_count"], lines(shared, run)["lines"]) == (0, [])
    assert search(shared, run, "x")["matches"] == []


def test_a_file_that_is_not_there_is_said(shared: Server) -> None:
    run = shared.interactive()["id"]
    assert lines(shared, run, path="logs/none.txt")["error"]["code"] == "not_found"
    assert lines(shared, run, attempt=2)["error"]["message"] == f"There is no file {LOG} of attempt 2 of run {run}."
    grow(shared, run, b"x\n")
    assert search(shared, run, "a\nb")["error"]["code"] == "invalid_request"
    assert search(shared, run, "")["error"]["code"] == "invalid_request"


def test_a_log_that_is_sealed_while_it_is_read_is_opened_again(server: Server) -> None:
    run = server.interactive()["id"]
    grow(server, run, b"one\ntwo\n")
    live = find_file(server.store, server.store.runs.get("default", run), LOG)
    assert live is not None and live.digest is None
    end_with(server, run, LOG, b"one\ntwo\nthree\n")
    with pytest.raises(FileMoved):
        LineIndexes().lines(live)
    assert lines(server, run)["lines"] == ["one", "two", "three"]
