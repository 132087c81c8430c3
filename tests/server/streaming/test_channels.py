"""The server's end of a channel: what a client gets again after a lost connection, and what the target may send."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import API, HOME, Server, serving
from windlass.core.errors import Conflict, InvalidRequest, NotFound
from windlass.drivers.base import CHANNEL_WINDOW, Channel, ChannelEnd
from windlass.server.security.principals import Principal
from windlass.server.streaming.channels import (
    END,
    MAX_RETAINED,
    MOST_OF_MEMBER,
    STDERR,
    STDOUT,
    OpenChannel,
    Opening,
    frame,
)

OWNER = Principal("owner", frozenset())


class Target(Channel):
    """The target's end of a channel, which remembers what it gets."""

    def __init__(self) -> None:
        self.input = b""
        self.is_input_ended = self.is_closed = False
        self.confirmed = 0
        self.size = (0, 0)

    def send(self, data: bytes) -> None:
        self.input += data

    def end_input(self) -> None:
        self.is_input_ended = True

    def resize(self, columns: int, rows: int) -> None:
        self.size = columns, rows

    def confirm(self, count: int) -> None:
        self.confirmed += count

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home: Path = tmp_path_factory.mktemp("home")
    with serving(migrated_sqlite(home), home) as found:
        yield found


def _opening(name: str = "owner") -> Opening:
    return Opening("default", name, "run/demo_1", {"command": ["sh"]})


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def channel(server: Server, target: Target) -> Iterator[OpenChannel]:
    found = server.context.channels.begin(_opening())
    found.attach(target)
    yield found
    found.end(ChannelEnd(0))


def test_output_is_kept_until_the_client_confirms_it(channel: OpenChannel) -> None:
    channel.receive(b"one", is_error=False)
    channel.receive(b"two", is_error=True)
    whole = frame(STDOUT, b"one") + frame(STDERR, b"two")
    assert channel.read(0, 100) == channel.read(0, 100) == (whole, False)
    assert channel.read(5, 4) == (whole[5:9], False)
    channel.confirm(11)
    assert channel.read(11, 100) == (whole[11:], False)
    for position in (0, 10, 23):
        with pytest.raises(InvalidRequest, match="keeps output from 11"):
            channel.read(position, 100)
    channel.end(ChannelEnd(7))
    data, is_over = channel.read(11, 100)
    assert is_over
    kind, length = struct.unpack(">BxxxI", data[11:19])
    assert (kind, json.loads(data[19 : 19 + length])) == (END, {"exit_code": 7, "message": ""})


def test_the_target_gets_credit_for_the_bytes_that_were_passed_on_and_no_others(channel: OpenChannel) -> None:
    for _ in range(CHANNEL_WINDOW // 4 - 1):
        channel.receive(b"x", is_error=False)
    assert channel.passed_on(9 * (CHANNEL_WINDOW // 4 - 1)) == 0
    channel.receive(b"xy", is_error=False)
    end = 9 * (CHANNEL_WINDOW // 4 - 1) + 10
    assert channel.passed_on(end - 1) == 0
    assert channel.passed_on(end) == CHANNEL_WINDOW // 4 + 1
    assert channel.passed_on(end) == 0


def test_input_that_is_repeated_counts_once_and_a_gap_is_refused(channel: OpenChannel, target: Target) -> None:
    assert channel.write(0, b"hello", False) == 5
    assert channel.write(0, b"hello", False) == 5
    assert channel.write(3, b"lo world", False) == 11
    with pytest.raises(Conflict, match="has 11 bytes of input"):
        channel.write(12, b"x", False)
    assert channel.write(11, b"", True) == 11
    assert (target.input, target.is_input_ended) == (b"hello world", True)


def test_input_waits_for_credit(channel: OpenChannel, target: Target) -> None:
    data = b"x" * (CHANNEL_WINDOW + 10)
    assert channel.write(0, data, True) == CHANNEL_WINDOW
    assert not target.is_input_ended
    channel.accept(4)
    assert channel.write(CHANNEL_WINDOW, data[CHANNEL_WINDOW:], True) == CHANNEL_WINDOW + 4
    channel.accept(100)
    assert channel.write(CHANNEL_WINDOW + 4, data[CHANNEL_WINDOW + 4 :], True) == len(data)
    assert (target.input, target.is_input_ended) == (data, True)


def test_a_channel_that_is_opened_too_late_is_ended_at_once(server: Server, target: Target) -> None:
    channel = server.context.channels.begin(_opening())
    channel.close("It took too long.")
    channel.attach(target)
    assert target.is_closed
    channel.end(ChannelEnd(0))


def test_only_the_member_who_opened_it_may_use_it(server: Server, channel: OpenChannel) -> None:
    table = server.context.channels
    assert table.get("default", channel.id, OWNER) is channel
    for workspace, name in (("default", "bob"), ("other", "owner")):
        with pytest.raises(NotFound):
            table.get(workspace, channel.id, Principal(name, frozenset()))
    stranger = server.make_token("contributor")
    path = f"{HOME}/channels/{channel.id}"
    assert server.call("GET", f"{path}/output", token=stranger).status == 404
    assert server.call("DELETE", path, token=stranger).status == 404
    assert server.call("PUT", f"{path}/terminal", {"columns": 100, "rows": 30}).status == 200
    assert server.call("DELETE", path).status == 200


def test_a_channel_ends_with_the_token_of_its_client(server: Server, target: Target) -> None:
    secret = server.store.tokens.issue("default", "eve", "contributor", "owner")[1]
    channel = server.context.channels.begin(_opening("eve"))
    channel.attach(target)
    channel.receive(b"hello", is_error=False)
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        headers = {"Authorization": f"Bearer {secret}"}
        connection.request("GET", f"{HOME}/channels/{channel.id}/output", headers=headers)
        answer = connection.getresponse()
        assert answer.read(13) == frame(STDOUT, b"hello")
        assert server.call("DELETE", f"{HOME}/tokens/eve").status == 204
        assert answer.read() == b""
    assert target.is_closed
    channel.end(ChannelEnd(0))


def test_of_two_readers_the_last_goes_on(server: Server, channel: OpenChannel) -> None:
    path, headers = f"{HOME}/channels/{channel.id}/output", {"Authorization": f"Bearer {server.token}"}
    with ExitStack() as stack:
        answers = []
        for _ in range(2):
            connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)))
            connection.request("GET", path, headers=headers)
            answers.append(connection.getresponse())
        channel.receive(b"hello", is_error=False)
        assert answers[1].read(13) == frame(STDOUT, b"hello")
        assert answers[0].read() == b""
        channel.end(ChannelEnd(0))
        assert b'"exit_code": 0' in answers[1].read()


def test_a_response_ends_after_a_megabyte_and_the_next_goes_on(server: Server, channel: OpenChannel) -> None:
    for _ in range(20):
        channel.receive(b"x" * 100_000, is_error=False)
    channel.end(ChannelEnd(0))
    received = b""
    while b"exit_code" not in received:
        piece = server.call("GET", f"{HOME}/channels/{channel.id}/output?after={len(received)}").raw
        assert 0 < len(piece) <= MAX_RETAINED
        received += piece
    assert received.count(b"x") == 2_000_001


def test_a_member_has_a_limited_number(server: Server) -> None:
    table = server.context.channels
    opened = [table.begin(_opening("ann")) for _ in range(MOST_OF_MEMBER)]
    with pytest.raises(Conflict, match=f"{MOST_OF_MEMBER} shells"):
        table.begin(_opening("ann"))
    table.begin(_opening("bob")).end(ChannelEnd(0))
    opened[0].end(ChannelEnd(0))
    opened[0] = table.begin(_opening("ann"))
    for channel in opened:
        channel.end(ChannelEnd(0))


@pytest.mark.parametrize(
    "body",
    [
        {"port": 0},
        {"port": 80, "command": ["ls"]},
        {"port": 80, "terminal": {"columns": 80, "rows": 24}},
        {"terminal": {"columns": 0, "rows": 24}},
        {"term": "$(id)"},
        {"command": "ls"},
        {"command": ["a\0b"]},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(server: Server, body: dict[str, object]) -> None:
    run = server.submit()["id"]
    assert server.call("POST", f"{API}/workspaces/default/runs/{run}/channels", body).status == 400


def test_a_run_that_does_not_run_is_refused_with_what_to_do(server: Server) -> None:
    run = server.submit()["id"]
    refusal = server.call("POST", f"{HOME}/runs/{run}/channels", {"command": ["ls"]})
    assert refusal.status == 409
