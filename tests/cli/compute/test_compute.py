"""`windlass compute` for targets that are attached: how they are shown, trusted, changed and detached."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.boxes import BOX, IDENTITY, KEY, PRINT, PROBED, PUBLIC, sent, server
from tests.cli.fake import W, windlass
from windlass.core.errors import Conflict


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no person at a terminal."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


def test_the_list_shows_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    strange = {**BOX, "name": "strange", "quarantine": "changed", "location": "jane@10.0.0.7:2222"}
    session = server(**{f"GET {W}/targets": {"targets": [BOX, strange]}})
    assert windlass(session, "compute", "list") == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TARGET", "KIND", "WHERE", "STATE", "SLOTS", "ACTIVE", "QUEUED"], (
        "one that waits for its machine has a slot, and does not run"
    )
    assert first.split() == ["box", "ssh", "jane@10.0.0.7", "8", "1", "2"]
    assert second.split() == ["strange", "ssh", "jane@10.0.0.7:2222", "quarantined", "8", "1", "2"]


def test_one_is_shown_with_its_host_key_and_what_it_offered(
    at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    at_terminal(80)
    assert windlass(server(), "compute", "show", "box") == 0
    said = capsys.readouterr().out
    assert PRINT in said and "(not compared by anybody yet)" in " ".join(said.split())
    assert "Offers\n" in said and "  cores   8\n" in said and "sudo apt-get install git" in said
    assert KEY not in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_quarantine_is_shown_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    held = {**BOX, "quarantine": "The host key of box is not the one that was pinned."}
    assert windlass(server(**{f"GET {W}/targets/box": held}), "compute", "show", "box") == 0
    said = capsys.readouterr().out
    assert "quarantined" in said and "windlass compute trust box" in said


def test_a_check_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    health = {"ok": True, "message": "8 cores, Python 3.11.2", "inventory": BOX["inventory"]}
    assert windlass(server(**{f"POST {W}/targets/box/check": health}), "compute", "check", "box") == 0
    said = capsys.readouterr().out
    assert said.startswith("box: ok  8 cores, Python 3.11.2\n") and "sudo apt-get install git" in said


def test_trust_asks_the_machine_and_pins_what_it_has() -> None:
    new = {**PROBED, "identity": {**IDENTITY, "pin": KEY + "new", "shown_as": "SHA256:new"}}
    session = server(**{f"POST {W}/targets/box/probe": new, f"POST {W}/targets/box/trust": BOX})
    assert windlass(session, "compute", "trust", "box", "--pin", "SHA256:new") == 0
    trusted = sent(session, f"POST {W}/targets/box/trust")
    assert trusted == {"pin": KEY + "new", "confirmed": True}
    session = server(**{f"POST {W}/targets/box/probe": new, f"POST {W}/targets/box/trust": BOX})
    assert windlass(session, "compute", "trust", "box", "--yes") == 0
    assert sent(session, f"POST {W}/targets/box/trust")["confirmed"] is False, "nobody compared it"
    assert windlass(server(), "compute", "trust", "box") == 2, "with nobody to ask"
    assert windlass(server(), "compute", "trust", "box", "--host-key", "SHA256:old") == 6


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (("--slots", "3"), {"slots": 3}),
        (("--python", "/opt/py"), {"config": {"python": "/opt/py"}}),
        (("--docker", "--base-image", "i"), {"config": {"docker": True, "base_image": "i"}}),
        (("--no-docker", "--base-image", ""), {"config": {"docker": False, "base_image": None}}),
        (("--allow-privileged", "--slots", "1"), {"slots": 1, "config": {"allow_privileged": True}}),
    ],
)
def test_an_update_sends_what_changes(words: tuple[str, ...], body: dict[str, Any]) -> None:
    session = server(**{f"PATCH {W}/targets/box": BOX})
    assert windlass(session, "compute", "update", "box", *words) == 0
    assert sent(session, f"PATCH {W}/targets/box") == body


def test_an_update_of_nothing_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(server(), "compute", "update", "box") == 2
    assert "nothing to change" in capsys.readouterr().err


def test_detach(capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"DELETE {W}/targets/box"
    assert windlass(server(**{gone: {"name": "box", "left": []}}), "compute", "detach", "box") == 0
    assert capsys.readouterr().out == "Detached box.\n"
    session = server(**{gone: {"name": "box", "left": ["r1"]}})
    assert windlass(session, "compute", "detach", "box", "--force") == 0
    assert session.asked[-1][2] == {"force": "true"} and "Left there: r1" in capsys.readouterr().out
    assert windlass(server(**{gone: Conflict("1 run goes on there", "h")}), "compute", "detach", "box") == 6


def test_the_public_key_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(server(), "compute", "public-key") == 0
    assert capsys.readouterr().out == PUBLIC["public"] + "\n"


EVENTS = [
    {"number": 7, "at": "2026-01-31T12:00:03.000000Z", "kind": "trusted", "message": "trusted by jane"},
    {"number": 4, "at": "2026-01-31T12:00:00.000000Z", "kind": "node_ready", "message": "node n1 is ready\x1b[31m"},
]


def test_its_events_are_listed_the_oldest_first(capsys: pytest.CaptureFixture[str]) -> None:
    session = server(**{f"GET {W}/targets/box/events": {"events": EVENTS, "next": None}})
    assert windlass(session, "compute", "events", "box", "-n", "20") == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TIME", "EVENT", "WHAT"]
    assert "node ready" in first and "node n1 is ready" in first and "\x1b" not in first and "trusted by jane" in second
    assert session.asked[-1][2] == {"limit": 20}
    assert windlass(session, "compute", "events", "box", "--json") == 0
    assert [event["number"] for event in json.loads(capsys.readouterr().out)["events"]] == [4, 7]
    assert windlass(session, "compute", "show", "box") == 0
    assert "Latest events\n" in (said := capsys.readouterr().out) and said.index("node n1") < said.index("by jane")


def test_a_target_without_events_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    session = server(**{f"GET {W}/targets/box/events": {"events": [], "next": None}})
    assert windlass(session, "compute", "events", "box") == 0
    assert capsys.readouterr().out == "Nothing has happened to box yet.\n"
    assert windlass(session, "compute", "show", "box") == 0
    assert "Latest events" not in capsys.readouterr().out
    assert windlass(server(), "compute", "events", "box") == 3
