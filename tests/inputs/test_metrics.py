"""Group F: metrics, tags and logs, by those who send them to the server and by scripts that write what they like."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.inputs.outside import JSON, WS, Answer, Outside


def log(server: Outside, run_id: str, *lines: Any, offset: int = 0, writer: str = "test") -> Answer:
    raw = json.dumps({"writer": writer, "offset": offset, "lines": lines}).encode()
    return server.call("POST", f"{WS}/runs/{run_id}/metrics", raw=raw, headers=JSON)


def line(value: Any = 1.0, **more: Any) -> dict[str, Any]:
    return {"n": "m", "v": value, "t": 0.0, **more}


def values(server: Outside, run_id: str, name: str = "m") -> list[Any]:
    found = server.call("GET", f"{WS}/runs/{run_id}/metrics").kept()["metrics"]
    return [each["v"] for each in found[name]["values"]] if name in found else []


def test_f1_f2_what_is_no_finite_number_comes_back_as_it_was(server: Outside) -> None:
    run_id = server.interactive()
    odd: list[Any] = [
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        5e-324,
        -0.0,
        2**53 + 1,
        True,
        None,
        "text",
        [],
        {},
        [math.nan, {"a": math.inf}],
    ]
    log(server, run_id, *(line(value) for value in odd)).kept()
    raw = b'{"writer": "w2", "offset": 0, "lines": [{"n": "big", "v": 1e309, "t": 0}]}'
    server.call("POST", f"{WS}/runs/{run_id}/metrics", raw=raw, headers=JSON).kept()
    assert repr(values(server, run_id)) == repr(odd)
    assert values(server, run_id, "big") == [math.inf]
    thin = server.call("GET", f"{WS}/runs/{run_id}/metrics/big").kept()
    assert thin["points"][0][3] is None
    for order in ("metric.m", "-metric.m", "metric.big"):
        server.call("GET", f"{WS}/runs?sort={order}&metrics=m&metrics=big").kept()


@pytest.mark.parametrize("step", [-1, 0, 2**63 - 1, -(2**63)])
def test_f3_steps_of_any_size_are_kept(server: Outside, step: int) -> None:
    run_id = server.interactive()
    log(server, run_id, line(s=step)).kept()
    found = server.call("GET", f"{WS}/runs/{run_id}/metrics").kept()["metrics"]["m"]["values"]
    assert found[0]["s"] == step
    assert server.call("GET", f"{WS}/runs/{run_id}/metrics/m").kept()["count"] == 1


BAD_LINES: dict[str, Any] = {
    "F3 step": line(s=2**63),
    "F3 small step": line(s=-(2**63) - 1),
    "F3 half a step": line(s=1.5),
    "F3 step as text": line(s="1"),
    "F3 true as step": line(s=True),
    "F4 time": line(t=1e18),
    "F4 early time": line(t=-1e18),
    "F4 no time": line(t=None),
    "F4 infinite time": line(t=math.inf),
    "F4 NaN as time": line(t=math.nan),
    "F4 time as text": line(t="now"),
    "F5 long name": line(n="x" * 10_240),
    "F5 no name": line(n=""),
    "F5 blank name": line(n="  "),
    "F5 control": line(n="a\x1b[31m"),
    "F5 newline": line(n="a\nb"),
    "F5 NUL": line(n="a\0b"),
    "F5 override": line(n="a\u202eb"),
    "F5 number as name": line(n=5),
    "F5 half a pair": line(n="a\ud800"),
    "F10 unknown kind": line(k="evil"),
    "F10 kind as number": line(k=1),
    "unknown key": line(x=1),
    "no value": {"n": "m", "t": 0},
    "no object": [1],
    "null": None,
    "text": "x",
    "long description": line(d="x" * 10_001),
    "description as number": line(d=5),
    "F15 a whole number beyond floats": line(10**309),
    "F15 such a number inside": line({"a": [10**400]}),
    "F15 a row that is a text": line("x", k="row"),
    "F15 a table that is a list": line([1], k="table"),
    "F15 deep": line(json.loads("[" * 40 + "]" * 40)),
    "half a pair inside": line("a\ud800"),
    "NUL inside": line({"a": ["b\0"]}),
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_cannot_be_is_refused_with_all_of_its_batch(server: Outside, bad: Any) -> None:
    run_id = server.interactive()
    log(server, run_id, line(), bad, line()).refused(400)
    assert values(server, run_id) == []


@pytest.mark.parametrize("moment", [0, -1, -62135596800, 253402300799.0, 1e9])
def test_f4_odd_times_are_kept(server: Outside, moment: float) -> None:
    run_id = server.interactive()
    log(server, run_id, line(t=moment)).kept()
    assert server.call("GET", f"{WS}/runs/{run_id}/metrics").kept()["metrics"]["m"]["values"][0]["t"] == moment


def many_names(server: Outside, count: int) -> None:
    run_id = server.interactive()
    for start in range(0, count, 10_000):
        lines = [{"n": f"metric {number}", "v": number, "t": 0} for number in range(start, start + 10_000)]
        log(server, run_id, *lines, offset=start).kept()
    assert server.call("GET", f"{WS}/runs/{run_id}/metrics?name=metric%20{count - 1}").kept()["metrics"]
    assert server.call("GET", f"{WS}/runs/{run_id}").status == 200
    assert server.call("GET", f"{WS}/runs?metrics=metric%200").status == 200


def test_f6_many_distinct_names(server: Outside) -> None:
    many_names(server, 20_000)


@pytest.mark.slow
def test_f6_a_million_distinct_names(sqlite: Outside) -> None:
    many_names(sqlite, 1_000_000)


def test_f7_a_batch_of_100_000_points(server: Outside) -> None:
    run_id = server.interactive()
    assert log(server, run_id, *(line(float(number)) for number in range(100_000))).kept() == {"offset": 100_000}
    thin = server.call("GET", f"{WS}/runs/{run_id}/metrics/m?max_points=100").kept()
    assert thin["count"] == 100_000
    assert [thin["points"][0][3], thin["points"][-1][3]] == [0.0, 99_999.0]


def test_f8_the_same_step_again_is_another_point(server: Outside) -> None:
    run_id = server.interactive()
    log(server, run_id, line(1.0, s=1), line(2.0, s=1), line(3.0, s=0)).kept()
    assert values(server, run_id) == [1.0, 2.0, 3.0]


def test_f8_the_same_lines_again_count_once(server: Outside) -> None:
    run_id = server.interactive()
    for _ in range(3):
        assert log(server, run_id, line(1.0), line(2.0)).kept() == {"offset": 2}
    assert log(server, run_id, line(9.0), line(9.0), line(3.0)).kept() == {"offset": 3}
    answer = log(server, run_id, line(5.0), offset=7)
    answer.refused(409)
    assert answer.error["details"] == {"expected": 3}
    assert values(server, run_id) == [1.0, 2.0, 3.0]


BAD_BATCHES: dict[str, dict[str, Any]] = {
    "negative": {"offset": -1},
    "huge": {"offset": 2**60},
    "half": {"offset": 0.5},
    "text": {"offset": "0"},
    "no writer": {"writer": ""},
    "up": {"writer": "../x"},
    "long": {"writer": "w" * 101},
    "newline": {"writer": "w\n"},
    "no list": {"lines": "x"},
    "object": {"lines": {}},
    "null": {"lines": None},
}


@pytest.mark.parametrize("change", BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_a_batch_that_cannot_be_is_refused(server: Outside, change: dict[str, Any]) -> None:
    run_id = server.interactive()
    body = {"writer": "test", "offset": 0, "lines": [line()], **change}
    server.call("POST", f"{WS}/runs/{run_id}/metrics", body).refused(400)
    assert values(server, run_id) == []


def test_f9_after_the_end(server: Outside) -> None:
    """A late fact is kept; the end stays what it was."""
    run_id = server.interactive()
    ended = server.call("POST", f"{WS}/runs/{run_id}/end", {"state": "Failed", "error": {"message": "why"}}).kept()
    log(server, run_id, line(1.0)).kept()
    for state in ("Completed", "Canceled", "Failed"):
        assert server.call("POST", f"{WS}/runs/{run_id}/end", {"state": state}).kept()["state"] == "Failed"
    server.call("POST", f"{WS}/runs/{run_id}/cancel").kept()
    server.call("POST", f"{WS}/runs/{run_id}/heartbeat")
    run = server.call("GET", f"{WS}/runs/{run_id}").kept()
    assert (run["state"], run["ended_at"], run["error"]) == ("Failed", ended["ended_at"], ended["error"])


def test_f10_a_metric_of_50_mb_is_refused(sqlite: Outside) -> None:
    run_id = sqlite.interactive()
    try:
        log(sqlite, run_id, line({"rows": "x" * 50_000_000}, k="table")).refused(413)
    except ConnectionResetError:
        pass  # it did not listen to the end
    assert values(sqlite, run_id) == []


def test_f10_images_and_tables_of_any_content_are_only_kept(server: Outside) -> None:
    run_id = server.interactive()
    odd = [
        "<svg onload=alert(1)>",
        "data:text/html,<script>alert(1)</script>",
        "../../etc/passwd",
        {"deep": [[[[]]]]},
        "\x89PNG broken",
    ]
    for number, value in enumerate(odd):
        log(server, run_id, {"n": f"i{number}", "v": value, "t": 0, "k": "image"}, writer=f"w{number}").kept()
        assert values(server, run_id, f"i{number}") == [value]
    # what is no scalar has no curve, which is an answer or a refusal, not a mistake
    assert server.call("GET", f"{WS}/runs/{run_id}/metrics/i0").status in (200, 400, 404, 409, 422)


OUTPUT = {
    "F11 clipboard": b"\x1b]52;c;Y3VybCBldmls\x07",
    "F11 title": b'\x1b]0;owned\x07\x1bP$q"p\x1b\\',
    "F11 colours": b"".join(b"\x1b[%dm*" % (30 + i % 8) for i in range(100_000)),
    "F12 progress bars": b"".join(b"\r%6d/100000" % i for i in range(100_000)),
    "F13 invalid": b"\xff\xfe\x80\xc0\xaf\xed\xa0\x80",
    "F13 cut character": b"abc\xe2",
    "F13 NUL": b"a\0b\0" * 1000,
    "F13 no newline": b"x" * 3_000_000,
    "F13 only newlines": b"\n" * 1_000_000,
    "F13 every byte": bytes(range(256)) * 1000,
}


@pytest.mark.parametrize("said", OUTPUT.values(), ids=OUTPUT)
def test_output_of_any_kind_is_kept_to_the_byte(sqlite: Outside, said: bytes, tmp_path: Any) -> None:
    (tmp_path / "said").write_bytes(said)
    run = sqlite.run("import os, sys; os.write(1, open(sys.argv[1], 'rb').read())", str(tmp_path / "said"))
    assert (run["state"], sqlite.file(run["id"])) == ("Completed", said)
    assert b"".join(data for event, _, data in sqlite.world.follow(run["id"]) if event == "log") == said


@pytest.mark.parametrize(
    "query",
    [
        "log=auto&offset=-1",
        "log=auto&offset=x",
        "log=auto&offset=1e3",
        "log=auto&offset=",
        "log=auto&offset=9999999999999999999999",
        "metrics=maybe",
        "metrics=true&seen=x",
        "metrics=true&seen=x:-1",
        "after=-1&events=true",
        "events=2",
        "log=../x",
        "log=%2fetc%2fpasswd",
        "log=a&log=b",
        "tail=5",
    ],
)
def test_f14_streams_that_cannot_be(server: Outside, query: str) -> None:
    run_id = server.interactive()
    server.call("GET", f"{WS}/runs/{run_id}/stream?{query}").refused(400)
    server.call("POST", f"{WS}/runs/{run_id}/end", {"state": "Completed"}).kept()


def test_f14_beyond_the_end_there_is_nothing(sqlite: Outside) -> None:
    run = sqlite.run("print('short')")
    path = "user_logs/std_log.txt"
    for offset in ("6", "7", "1000000", "999999999999999999"):
        seen = sqlite.call("GET", f"{WS}/runs/{run['id']}/stream?log={path}&offset={offset}")
        assert seen.status == 200 and b"event: log" not in seen.raw and b"event: end" in seen.raw
        assert sqlite.call("GET", f"{WS}/runs/{run['id']}/files/{path}?offset={offset}").raw == b""


def test_f14_runs_that_are_not_there(server: Outside) -> None:
    for what in (
        "stream?log=auto",
        "metrics",
        "metrics/m",
        "events",
        "usage",
        "files",
        "files/x",
        "snapshot",
        "snapshot/x",
    ):
        server.call("GET", f"{WS}/runs/nothing/{what}").refused(404)
        server.call("GET", f"{WS}/runs/nothing/{what}", token=None).refused(401)


# Lines that no SDK of ours writes, into the files that the server reads while the script runs.
METRIC_LINES = [
    *(json.dumps(bad) for bad in BAD_LINES.values()),
    "",
    "{",
    "null",
    "[]",
    "5",
    "\x00",
    '{"n": "m"',
    '{"n": "m", "v": 1, "t": 1e999}',
    '{"n": "m", "v": 1, "t": 1, "s": 1e30}',
    '{"n": {"a": 1}, "v": 1, "t": 1}',
    '{"n": "m", "v": 1, "t": 1, "k": ["table"]}',
    '{"n": "m", "v": 1, "t": 1, "d": {}}',
    '{"n": "m", "v": ' + "[" * 5000 + "]" * 5000 + ', "t": 1}',
    '{"n": "m", "v": ' + "9" * 5000 + ', "t": 1}',
    '{"n": "m", "v": "' + "x" * 3_000_000 + '", "t": 1}',
]
CALL_LINES = [
    "",
    "{",
    "null",
    "[]",
    '{"do": 5}',
    '{"do": "unknown"}',
    '{"do": "tag"}',
    '{"do": "tag", "key": 5, "value": 1}',
    '{"do": "tag", "key": "", "value": "x"}',
    '{"do": "tag", "key": "a\\u0000", "value": "x"}',
    '{"do": "tag", "key": "k", "value": "a\\ud800"}',
    '{"do": "tag", "key": "k", "value": {"a": []}}',
    '{"do": "untag", "keys": 5}',
    '{"do": "untag", "keys": [{}]}',
    '{"do": "properties", "values": []}',
    '{"do": "properties", "values": {"": ""}}',
    '{"do": "properties", "values": {"a\\u0000": "b"}}',
    '{"do": "set", "name": "a\\u0000b"}',
    '{"do": "set", "name": "a\\ud800"}',
    '{"do": "set", "name": {}}',
    '{"do": "set", "description": "' + "x" * 2_000_000 + '"}',
    '{"do": "set", "name": "' + "n" * 100_000 + '"}',
    '{"do": "set", "name": "a\\u202eb"}',
    '{"do": "set", "description": "a\\u001b[31m"}',
    '{"do": "upload", "path": "../x", "file": "uploads/a"}',
    '{"do": "upload", "path": "x", "file": "../../../../etc/passwd"}',
    '{"do": "upload", "path": "x", "file": "uploads/../run.json"}',
    '{"do": "upload", "path": "x", "file": "uploads/link"}',
    '{"do": "upload", "path": "x", "file": "uploads/none"}',
    '{"do": "upload", "path": 5, "file": []}',
    '{"do": "upload"}',
    '{"do": "upload", "path": "x", "file": "uploads/pipe"}',
    '{"do": "upload", "path": "y", "file": "uploads"}',
]
VANDAL = """
import json, os, sys
folder = os.environ["WINDLASS_RUN_FOLDER"]
for name in ("metrics", "calls", "uploads"):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
os.symlink("/etc/passwd", os.path.join(folder, "uploads", "link"))
os.mkfifo(os.path.join(folder, "uploads", "pipe"))
with open(sys.argv[1]) as file:
    lines = json.load(file)
for name in ("metrics", "calls"):
    path = os.path.join(folder, name, "vandal.jsonl")
    for line in lines[name]:
        with open(path, "a", encoding="utf-8", errors="surrogatepass") as file:
            file.write(line + "\\n")
    with open(path, "ab") as file:
        file.write(b"\\xff\\xfe\\x00\\n")
good = os.path.join(folder, "metrics", "good.jsonl")
with open(good, "w") as file:
    file.write('{"n": "good", "v": 1.5, "t": 1}\\n')
for name in ("usage.jsonl", "events.jsonl"):
    with open(os.path.join(folder, name), "ab") as file:
        file.write(b"\\xff{broken\\n[]\\nnull\\n")
with open(os.path.join(folder, "calls", "vandal.jsonl"), "a") as file:
    file.write('{"do": "tag", "key": "good", "value": "yes"}\\n')
sys.exit(3)
"""


def test_a_script_may_write_anything_into_the_files_of_its_run(server: Outside, tmp_path: Any) -> None:
    """What can be kept is kept, the rest is passed over; the run ends as it ended, and nothing else stops."""
    (tmp_path / "lines.json").write_text(json.dumps({"metrics": METRIC_LINES, "calls": CALL_LINES}))
    run = server.run(VANDAL, str(tmp_path / "lines.json"))
    assert (run["state"], run["exit_code"]) == ("Failed", 3)
    assert run["tags"]["good"] == "yes"
    assert run["name"].isprintable() and run["description"].isprintable()
    assert len(run["name"]) <= 1000 and len(run["description"]) <= 10_000
    assert values(server, run["id"], "good") == [1.5]
    events = server.call("GET", f"{WS}/runs/{run['id']}/events").kept()["events"]
    assert len([event for event in events if event["kind"] == "metrics_skipped"]) == 1
    assert server.call("GET", f"{WS}/runs/{run['id']}/metrics?last=true").status == 200
    for what in ("metrics", "events", "usage", "files"):
        assert b"root:" not in server.call("GET", f"{WS}/runs/{run['id']}/{what}").raw
    assert server.call("GET", f"{WS}/runs/{run['id']}/stream?metrics=true&events=true").status == 200
    assert server.file(run["id"], "x") == b""
