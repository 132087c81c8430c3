"""What `runs`, `show`, `metrics` and their like print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.fake import FakeSession, W, a_run, windlass
from windlass.cli.runs.listing import STATES
from windlass.core.errors import Denied, ServerUnavailable
from windlass.core.states import RunState

FIRST = a_run("demo_1763268000_3f9a1c2b", name="baseline")
SECOND = a_run("a-much-longer-experiment-name_1763268001_77aa88bb", experiment="a-much-longer-experiment-name" * 3,
               state="Failed", message="exit code 7", target="a-gpu-cluster-far-away", name="n" * 60)  # fmt: skip
RUN = f"GET {W}/runs/{FIRST['id']}"
METRICS = {
    "loss": {
        "kind": "scalar",
        "count": 3,
        "values": [{"v": 0.5, "t": 1.0}, {"v": 0.25, "t": 2.0}, {"v": 0.3, "t": 3.0}],
        "min": 0.25,
        "max": 0.5,
    },
    "table": {"kind": "table", "count": 1, "values": [{"v": {"a": [1, 2]}, "t": 1.0}]},
}
FILES = [
    {"path": "outputs/model.pkl", "size": 1_200_000, "is_live": False, "digest": "cd" * 32},
    {"path": "user_logs/std_log.txt", "size": 12, "is_live": False},
]


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(
        {
            f"GET {W}/runs": {"runs": [FIRST, SECOND], "next": None},
            RUN: {**FIRST, "spec": {"script": "train.py", "arguments": ["--name", "two words"]}},
            f"{RUN}/metrics": {"metrics": METRICS},
            f"{RUN}/files": {"files": FILES},
        }
    )


def test_runs_are_a_table_that_fits(
    session: FakeSession, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    at_terminal(80)
    assert windlass(session, "runs") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["RUN", "EXPERIMENT", "NAME", "TARGET", "STATE", "SUBMITTED", "TOOK"]
    assert lines[1].startswith("3f9a1c2b  demo")
    assert "2.5s" in lines[1]
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in "".join(lines)


def test_in_a_pipe_nothing_is_cut(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert windlass(session, "runs") == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert SECOND["experiment"] in line and SECOND["name"] in line and SECOND["target"] in line


def test_in_a_narrow_terminal_each_run_is_a_record(
    session: FakeSession, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    at_terminal(50)
    assert windlass(session, "runs") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3f9a1c2b"
    assert "  STATE       Completed" in lines and "  NAME        baseline" in lines


def test_ids_that_were_chosen_are_shown_whole(
    session: FakeSession, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    at_terminal(80)
    chosen = a_run("an-id-that-somebody-has-chosen-for-this-run", name="n" * 60)
    session.answers[f"GET {W}/runs"] = {"runs": [chosen], "next": None}
    assert windlass(session, "runs") == 0
    assert chosen["id"] in capsys.readouterr().out


@pytest.mark.parametrize("columns", ["1", "0", "x", "-5", "40", "10000"])
def test_any_width_will_do(
    session: FakeSession,
    columns: str,
    at_terminal: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at_terminal(80)
    monkeypatch.setenv("COLUMNS", columns)
    assert windlass(session, "runs") == 0
    assert windlass(session, "show", FIRST["id"]) == 0
    assert "3f9a1c2b" in capsys.readouterr().out


def test_json_is_one_document(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(session, "runs", "--json") == 0
    out, err = capsys.readouterr()
    assert [run["id"] for run in json.loads(out)["runs"]] == [FIRST["id"], SECOND["id"]]
    assert err == ""
    assert windlass(session, "--json", "show", FIRST["id"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == FILES
    assert document["metrics"]["loss"]["count"] == 3


def test_filters_reach_the_server_and_metrics_that_matter_are_shown(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.answers[f"GET {W}/runs"] = {"runs": [{**FIRST, "metrics": {"loss": 0.25}}], "next": None}
    code = windlass(session, "runs", "-e", "demo", "-s", "completed", "-s", "active", "-t", "team=vision", "-t", "x",
                    "--where", "metric.loss<0.3", "--sort", "-metric.loss", "-n", "5")  # fmt: skip
    assert code == 0
    assert session.asked[0][2] == {
        "experiment": "demo",
        "state": ["Completed", "active"],
        "tag": ["team:vision", "x"],
        "where": ["metric.loss<0.3"],
        "sort": "-metric.loss",
        "metrics": ["loss"],
        "parent": "none",
        "limit": 5,
    }
    heading, line = capsys.readouterr().out.splitlines()
    assert "loss" in heading.split()
    assert "0.25" in line.split()


def test_every_state_can_be_asked_for() -> None:
    assert {"active", *(state.value for state in RunState)} == set(STATES)


def test_all_runs_are_read_page_by_page(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    def page(body: Any, query: dict[str, Any]) -> Any:
        return {"runs": [SECOND], "next": None} if query.get("cursor") else {"runs": [FIRST], "next": "c1"}

    session.answers[f"GET {W}/runs"] = page
    assert windlass(session, "runs", "--all", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["runs"]), document["more"]) == (2, False)
    assert windlass(session, "runs", "-n", "1") == 0
    assert "--all shows more" in capsys.readouterr().err


def test_empty_lists_say_what_to_do(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.answers[f"GET {W}/runs"] = {"runs": [], "next": None}
    session.answers[f"GET {W}/experiments"] = {"experiments": []}
    assert windlass(session, "runs") == 0
    assert capsys.readouterr().out == "No runs yet. Start one: windlass submit train.py\n"
    assert windlass(session, "runs", "-e", "x") == 0
    assert capsys.readouterr().out.startswith("No such runs.")
    assert windlass(session, "experiments") == 0
    assert "windlass submit -e NAME train.py" in capsys.readouterr().out


def test_show_has_everything_on_one_screen(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(session, "show", FIRST["id"]) == 0
    out = capsys.readouterr().out
    for part in (FIRST["id"], "Completed", "train.py --name 'two words'", "outputs/model.pkl", "1.2 MB",
                 "loss", "0.25", "windlass download 3f9a1c2b", FIRST["url"]):  # fmt: skip
        assert part in out


def test_metrics_as_summary_series_and_csv(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(session, "metrics", FIRST["id"]) == 0
    assert ["loss", "0.3", "0.25", "0.5", "3"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert windlass(session, "metrics", FIRST["id"], "--csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name,index,step,time,value"
    assert lines[1] == "loss,0,,1.0,0.5"
    assert lines[4] == 'table,0,,1.0,"{""a"": [1, 2]}"'
    assert windlass(session, "metrics", FIRST["id"], "accuracy") == 3
    assert "no metric 'accuracy'" in capsys.readouterr().err


def test_compare_marks_what_differs(
    session: FakeSession, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    at_terminal(80)
    other = SECOND["id"]
    session.answers |= {
        f"GET {W}/runs/{other}": {**SECOND, "spec": {"script": "train.py", "arguments": ["--name", "x"]}},
        f"GET {W}/runs/{other}/metrics": {"metrics": {}},
        f"GET {W}/runs/{other}/files": {"files": FILES},
    }
    assert windlass(session, "compare", FIRST["id"], other, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"] == [{"name": "--name", "values": ["two words", "x"], "differs": True}]
    assert {row["name"]: row["differs"] for row in document["files"]} == {"outputs/model.pkl": False}
    assert {row["name"]: row["values"] for row in document["metrics"]}["loss"] == [0.3, None]
    assert windlass(session, "compare", FIRST["id"], other, "-d") == 0
    out = capsys.readouterr().out
    assert "* --name" in out
    assert "model.pkl" not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert windlass(session, "compare", FIRST["id"], FIRST["id"]) == 2


def test_tags_are_set_and_removed(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.answers[f"PATCH {W}/runs/{FIRST['id']}"] = {**FIRST, "tags": {"a": "1", "b": None}}
    assert windlass(session, "tag", FIRST["id"], "a=1", "b", "-r", "c") == 0
    assert session.asked[-1][1] == {"tags": {"a": "1", "b": ""}, "remove_tags": ["c"]}
    assert capsys.readouterr().out == "a=1, b\n"
    assert windlass(session, "tag", FIRST["id"], "=x") == 2


def test_cancel_tells_what_became_of_each(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [a_run(f"demo_1763268000_0000000{n}")["id"] for n in range(3)]
    answers = [
        a_run(ids[0], state="Running", status="CancelRequested"),
        a_run(ids[1], state="Canceled"),
        a_run(ids[2], state="Completed"),
    ]
    session.answers |= {f"POST {W}/runs/{i}/cancel": answer for i, answer in zip(ids, answers, strict=True)}
    assert windlass(session, "cancel", *ids, ids[0]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "00000000  is asked to stop",
        "00000001  canceled",
        "00000002  had ended already: Completed",
    ]


def test_the_story_of_a_run_is_read_to_its_end(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    story = [
        {"seq": 1, "at": "2026-01-31T12:00:00Z", "kind": "submitted", "state": "Starting", "message": ""},
        {"seq": 2, "at": "2026-01-31T12:00:01Z", "kind": "state", "state": "Failed", "message": "bad\nluck"},
    ]
    session.answers[f"{RUN}/events"] = lambda body, query: {"events": story[query["after"] :][:1]}
    assert windlass(session, "events", FIRST["id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:] for line in lines[1:]] == [["Starting"], ["Failed", "bad", "luck"]]


@pytest.mark.parametrize("width", [80, 50, 30])
def test_a_long_reason_continues_on_the_next_line(
    session: FakeSession, width: int, at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    why = "The machine did not answer for ten minutes, so nobody knows how the script ended. " * 3
    story = [{"seq": 1, "at": "2026-01-31T12:00:00Z", "kind": "state", "state": "NotResponding", "message": why}]
    session.answers[f"{RUN}/events"] = lambda body, query: {"events": story[query["after"] :]}
    at_terminal(width)
    assert windlass(session, "events", FIRST["id"]) == 0
    out = capsys.readouterr().out
    assert " ".join(why.split()) in " ".join(out.replace("WHY", "").split())
    assert max(map(len, out.splitlines())) <= width


def test_numbers_that_json_lacks_become_texts(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    values = [{"v": value, "t": 1.0} for value in (float("nan"), float("inf"), float("-inf"), 1.0)]
    session.answers[f"{RUN}/metrics"] = {"metrics": {"loss": {"kind": "scalar", "count": 4, "values": values}}}
    assert windlass(session, "metrics", FIRST["id"], "--json") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [v["v"] for v in found["metrics"]["loss"]["values"]] == ["NaN", "Infinity", "-Infinity", 1.0]


def test_another_version_of_the_server_is_named(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.answers[f"GET {W}/runs"] = {"pages": []}
    session.answers["GET /health"] = {"version": "9.9.9"}
    assert windlass(session, "runs") == 1
    assert "The server is version 9.9.9" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["compute", "server"])
def test_a_group_alone_explains_itself(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(FakeSession(), group) == 0
    assert f"Usage: windlass {group}" in capsys.readouterr().out


def test_gc_shows_before_it_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"kind": "log", "id": f"r{n}", "bytes": 1000, "why": "old"} for n in range(3)]
    items.append({"kind": "environment", "id": "e", "bytes": 5_000_000, "why": "not used for 30 days"})

    def collect(body: Any, query: Any) -> Any:
        return {"items": items, "bytes": 5_003_000, "applied": body["apply"], "unanswered": ["default/box"]}

    session = FakeSession({"POST /gc": collect})
    assert windlass(session, "gc") == 0
    out, err = capsys.readouterr()
    assert "default/box did not answer" in err
    assert [line.split()[:3] for line in out.splitlines()[1:3]] == [["log", "3", "3.0"], ["environment", "1", "5.0"]]
    assert "frees 5.0 MB: windlass gc --yes" in out
    assert [body for _, body, _ in session.asked] == [{"apply": False}]
    assert windlass(session, "gc", "--yes") == 0
    assert capsys.readouterr().out.endswith("Deleted 4 things, freed 5.0 MB.\n")
    assert session.asked[-1][1] == {"apply": True}
    assert windlass(session, "gc", "--apply", "--json") == 0
    assert json.loads(capsys.readouterr().out)["applied"] is True


def test_names_cannot_play_with_the_terminal(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.answers[f"GET {W}/runs"] = {"runs": [{**FIRST, "name": "x\x1b]0;hi\x07\u202ey"}], "next": None}
    session.answers[RUN] |= {"message": "a\x1b[2Jb", "tags": {"k\r": "v\x9b"}}
    assert windlass(session, "runs") == 0
    assert windlass(session, "show", FIRST["id"]) == 0
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x07\u202e\r\x9b")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Denied("No.", "Ask."), 4),
        (ServerUnavailable("Gone.", "Start it."), 5),
        (KeyError("x"), 1),
        (OSError(28, "No space left on device"), 8),
    ],
)
def test_errors_are_two_lines_and_an_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession({f"GET {W}/runs": error})
    assert windlass(session, "runs") == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) <= 2
    assert "Traceback" not in err
    assert windlass(session, "runs", "--json") == code
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code
    assert windlass(session, "--debug", "runs") == code
    assert "Traceback" in capsys.readouterr().err
