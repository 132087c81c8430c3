"""Group G: lists asked for in ways that cannot be, or that would cost too much."""

from __future__ import annotations

import base64
import json
import secrets
from urllib.parse import quote, urlencode

import pytest

from tests.inputs.outside import API, WS, Answer, Outside
from windlass.store.runs.query import Position, RunQuery, write_cursor


def find(server: Outside, **query: str | list[str]) -> Answer:
    return server.call("GET", f"{WS}/runs?{urlencode(query, doseq=True)}")


@pytest.mark.parametrize(
    "limit", ["0", "-1", "1000000000", "1001", "x", "", "1.5", "1e2", "٣", "0x10", "99999999999999999999"]
)
def test_g1_limits(server: Outside, limit: str) -> None:
    find(server, limit=limit).refused(400)


def test_g2_a_cursor_is_good_for_its_own_list_only(server: Outside) -> None:
    experiment = f"pages-{secrets.token_hex(4)}"
    ids = [server.interactive(experiment=experiment) for _ in range(3)]
    page = find(server, experiment=experiment, limit="1").kept()
    assert [run["id"] for run in page["runs"]] == ids[-1:]
    cursor = page["next"]
    assert find(server, experiment=experiment, limit="1", cursor=cursor).kept()["runs"][0]["id"] == ids[-2]
    for change in ({"sort": "name"}, {"experiment": "inputs"}, {"search": "x"}, {"state": "Failed"}, {"tag": "a"}):
        query: dict[str, str | list[str]] = {"experiment": experiment, "cursor": cursor, **change}
        find(server, **query).refused(400)


def test_g2_a_cursor_of_somebody_else_shows_nothing_of_his(server: Outside) -> None:
    """It is a place in a list, no right to read it: elsewhere there is no such place."""
    other = f"other-{secrets.token_hex(4)}"
    server.call("POST", f"{API}/workspaces", {"name": other}).kept()
    for _ in range(2):
        server.interactive()
    cursor = find(server, limit="1").kept()["next"]
    server.call("GET", f"{API}/workspaces/{other}/runs?limit=1&cursor={cursor}").refused(400)
    server.call("GET", f"{WS}/runs?limit=1&cursor={cursor}", token=None).refused(401)


def forged() -> list[str]:
    made = [
        ["x", 5],
        [None, 1],
        [1, None],
        [{"a": 1}, 2],
        [[], []],
        [1, 2**70],
        [float("inf"), 1],
        ["'; DROP TABLE runs;--", 1],
    ]
    bodies = ["0" * 16 + json.dumps(body) for body in made] + ["", "[", "[" * 5000, "{}", "\0"]
    return [base64.urlsafe_b64encode(body.encode()).decode().rstrip("=") for body in bodies] + [
        "x",
        "=",
        "====",
        "!",
        "../x",
        "a" * 9999,
        "a" * 20_000,
        "é",
        "%00",
        "AAAA",
        "-1",
        "null",
        " ",
        "\u202e",
    ]


@pytest.mark.parametrize("cursor", forged(), ids=lambda text: repr(text[:20]))
def test_g2_forged_cursors(server: Outside, cursor: str) -> None:
    find(server, cursor=cursor).refused(400)


@pytest.mark.parametrize("name", ["a\ud800", "a\0b"])
def test_g2_a_cursor_with_a_valid_seal_and_a_text_that_no_database_keeps(server: Outside, name: str) -> None:
    cursor = write_cursor(RunQuery(workspace="default", sort="name"), Position(name, 1))
    find(server, sort="name", cursor=cursor).refused(400)
    fine = write_cursor(RunQuery(workspace="default", sort="name"), Position("a", 1))
    find(server, sort="name", cursor=fine).kept()


def test_g2_every_piece_of_a_cursor_is_no_cursor(sqlite: Outside) -> None:
    for _ in range(2):
        sqlite.interactive()
    cursor = find(sqlite, limit="1").kept()["next"]
    for length in range(len(cursor)):
        find(sqlite, limit="1", cursor=cursor[:length]).refused(400)
    for at in range(0, len(cursor), 5):
        changed = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        assert find(sqlite, limit="1", cursor=changed).status in (200, 400)


BAD_FILTERS = [
    "metric.loss",
    "metric.",
    "metric.<1",
    "loss<1",
    "metric.loss<",
    "metric.loss<x",
    "metric.loss<nan",
    "",
    "metric.loss<1;DROP TABLE runs",
    "metric.loss<(1)",
    "(" * 400,
    "metric.loss<1e",
    "metric.loss~1",
    "metric.loss LIKE 1",
    "metric.loss<'1'",
    "metric.loss<--1",
]


@pytest.mark.parametrize("where", BAD_FILTERS)
def test_g3_filters_that_are_none(server: Outside, where: str) -> None:
    find(server, where=where).refused(400)


@pytest.mark.parametrize(
    "field",
    [
        "where",
        "search",
        "tag",
        "property",
        "experiment",
        "type",
        "parent",
        "target",
        "sort",
        "since",
        "state",
        "metrics",
    ],
)
def test_g3_filters_of_100_kb(server: Outside, field: str) -> None:
    for text in ("x" * 100_000, "(" * 1000 + ")" * 1000, "metric." + "a" * 100_000 + "<1"):
        answer = find(server, **{field: text})
        assert answer.refused(400)


def test_g3_more_filters_than_anybody_needs(server: Outside) -> None:
    for field in ("where", "tag", "state", "metrics", "property"):
        value = {"where": "metric.a<1", "state": "Failed"}.get(field, "a:b")
        assert find(server, **{field: [value] * 40}).status == 200
        find(server, **{field: [value] * 1000}).refused(400)


@pytest.mark.parametrize(
    "bomb", ["(a+)+$", "(a|a)*b", "a" * 400 + "!", "[[:alpha:]", "(?=(a+))*b", "\\", ".*" * 100, "*" * 400]
)
def test_g4_expressions_are_only_characters(server: Outside, bomb: str) -> None:
    run_id = server.interactive(name="a" * 500)
    find(server, search=bomb).kept()
    find(server, tag=bomb).kept()
    find(server, where=f"metric.{'a' * 400}<1").kept()
    assert find(server, search=run_id).kept()["runs"][0]["id"] == run_id


SQL = [
    "'",
    '"',
    "' OR '1'='1",
    "'; DROP TABLE runs;--",
    "%",
    "_",
    "\\",
    "%%",
    "a%b_c\\d",
    "/*",
    "--",
    ";",
    "\x1b",
    "{0}",
    "$1",
    ":id",
    "?",
]


@pytest.mark.parametrize("text", SQL)
def test_g5_the_characters_of_sql_are_only_characters(server: Outside, text: str) -> None:
    """Each finds exactly the run that has it in its name, its tag and its value."""
    mark = secrets.token_hex(8)
    others = [server.interactive(name=f"{mark} plain", tags={mark: "plain"}) for _ in range(2)]
    try:
        mine = server.interactive(name=f"{mark} {text}", tags={mark: text})
    except AssertionError:  # some cannot be part of a name
        assert not text.isprintable()
        assert find(server, search=f"{mark} {text}").kept()["runs"] == []
        return
    assert [run["id"] for run in find(server, search=f"{mark} {text}").kept()["runs"]] == [mine]
    assert [run["id"] for run in find(server, tag=f"{mark}:{text}").kept()["runs"]] == [mine]
    assert {run["id"] for run in find(server, search=mark).kept()["runs"]} == {mine, *others}
    for field in ("experiment", "target", "parent", "type"):
        assert find(server, **{field: text}).status in (200, 400)


@pytest.mark.parametrize(
    "sort",
    [
        "password",
        "token",
        "nonce",
        "pk",
        "searched",
        "version",
        "created_at desc",
        "created_at;--",
        "--created_at",
        "",
        "-",
        "metric.",
        "(select 1)",
        "1",
        "created_at,name",
        "__class__",
        "runs.id",
    ],
)
def test_g6_what_runs_cannot_be_sorted_by(server: Outside, sort: str) -> None:
    find(server, sort=sort).refused(400)


@pytest.mark.parametrize(
    "sort", ["metric.'; DROP TABLE runs;--", "-metric.%00x", "metric.nothing", "metric.\u202e", "metric. "]
)
def test_g6_metrics_of_any_name_can_be_asked_for(server: Outside, sort: str) -> None:
    assert find(server, sort=sort).status in (200, 400)


@pytest.mark.parametrize(
    "query",
    [
        "limit=1&limit=2",
        "sort=name&sort=state",
        "search=a&search=b",
        "cursor=a&cursor=b",
        "since=2026-01-01&since=2026-01-01",
        "unknown=1",
        "LIMIT=1",
        "limit[]=1",
        "limit[$ne]=1",
        "__proto__=1",
        "&&&=",
        "=",
        "a",
        "token=x",
        "access_token=x",
        "limit=1;sort=name",
    ],
)
def test_g7_parameters_twice_or_unknown(server: Outside, query: str) -> None:
    server.call("GET", f"{WS}/runs?{query}").refused(400)


@pytest.mark.parametrize(
    "moment",
    [
        "2026-02-30",
        "2026-13-01",
        "yesterday",
        "",
        "0",
        "1e9",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:00:00+99:99",
        "2026-01-01T00:00:00+24:00",
        "99999-01-01",
        "-1",
        "2026-01-01T00:00:00Z; DROP",
        "٢٠٢٦-01-01",
        "2026-W54-1",
        "0000-01-01",
        "2026-01-01" + "0" * 400,
    ],
)
def test_g8_times_that_are_none(server: Outside, moment: str) -> None:
    for field in ("since", "until"):
        find(server, **{field: moment}).refused(400)


@pytest.mark.parametrize(
    "moment",
    [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "1969-12-31",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
    ],
)
def test_g8_times_at_the_ends_of_time(server: Outside, moment: str) -> None:
    for field in ("since", "until"):
        assert find(server, **{field: moment}).status in (200, 400)


def test_g9_search_in_any_language(server: Outside) -> None:
    mark = secrets.token_hex(4)
    for name, sought in (
        ("STRASSE", "straße"),
        ("Straße", "STRASSE"),
        ("ÉCOLE", "école"),
        ("Ünï", "ÜNÏ"),
        ("漢字", "漢字"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("İstanbul", "i\u0307stanbul"),
        ("\U0001f600", "\U0001f600"),
    ):
        run_id = server.interactive(name=f"{mark} {name}")
        found = [run["id"] for run in find(server, search=f"{mark} {sought}").kept()["runs"]]
        assert run_id in found, (name, sought)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=99999999999999999999", "after=1&after=2", "limit=5"])
def test_events_after_what_is_no_number(server: Outside, query: str) -> None:
    run_id = server.interactive()
    server.call("GET", f"{WS}/runs/{run_id}/events?{query}").refused(400)


@pytest.mark.parametrize(
    "query", ["max_points=0", "max_points=-5", "max_points=x", "max_points=1000000000", "max_points=4&max_points=5"]
)
def test_curves_of_no_points(server: Outside, query: str) -> None:
    run_id = server.interactive()
    server.call("GET", f"{WS}/runs/{run_id}/metrics/m?{query}").refused(400)
    server.call("GET", f"{WS}/runs/{run_id}/metrics/{quote('no such', safe='')}").refused(404)


def test_routes_without_parameters_take_none(server: Outside) -> None:
    run_id = server.interactive()
    for target in (
        f"{API}/status",
        f"{API}/health",
        f"{API}/workspaces",
        f"{WS}/experiments",
        f"{WS}/targets",
        f"{WS}/runs/{run_id}",
    ):
        server.call("GET", f"{target}?x=1").refused(400)
