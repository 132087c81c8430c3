"""Which connections make room for new ones: idle ones without a valid token, of the address that has the most."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.server.http.connection_table import ConnectionSlot, ConnectionTable, Limits

TABLE = Limits(in_all=8, unauthenticated=4, unauthenticated_per_address=3)


@dataclass
class Line:
    is_idle: bool = True
    is_open: bool = True

    def abort(self) -> None:
        self.is_open = False


def entered(table: ConnectionTable, host: str, line: Line) -> ConnectionSlot:
    place = table.enter(host, line)
    assert place is not None
    return place


def test_the_oldest_idle_one_of_an_address_makes_room() -> None:
    table = ConnectionTable(TABLE)
    lines = [Line(is_idle=False), Line(), Line(), Line()]
    for line in lines:
        entered(table, "10.0.0.1", line)
    assert [line.is_open for line in lines] == [True, False, True, True]
    assert len(table) == 3


def test_an_address_with_many_makes_room_for_another() -> None:
    table = ConnectionTable(TABLE)
    one, *many = [Line() for _ in range(4)]
    entered(table, "10.0.0.1", one)
    for line in many:
        entered(table, "10.0.0.2", line)
    entered(table, "10.0.0.3", Line())
    assert one.is_open
    assert [line.is_open for line in many] == [False, True, True]


def test_authenticated_ones_stay_and_do_not_count_for_their_address() -> None:
    table = ConnectionTable(TABLE)
    known = [Line() for _ in range(5)]
    for line in known:
        entered(table, "10.0.0.1", line).authenticate()
    for _ in range(20):
        entered(table, "10.0.0.1", Line())
    assert all(line.is_open for line in known)
    assert len(table) == 8


def test_when_all_are_in_use_a_new_one_is_turned_away() -> None:
    table = ConnectionTable(TABLE)
    places = [entered(table, "10.0.0.1", Line(is_idle=False)) for _ in range(1)]
    for _ in range(7):
        places.append(entered(table, "10.0.0.1", Line(is_idle=False)))
        places[-1].authenticate()
    places[0].authenticate()
    assert table.enter("10.0.0.2", Line()) is None
    places[3].release()
    assert table.enter("10.0.0.2", Line()) is not None


def test_all_addresses_of_one_ipv6_network_count_as_one() -> None:
    table = ConnectionTable(TABLE)
    lines = [Line() for _ in range(4)]
    for number, line in enumerate(lines):
        entered(table, f"2001:db8::{number:x}", line)
    assert [line.is_open for line in lines] == [False, True, True, True]
    mapped = Line()
    entered(table, "::ffff:10.0.0.1", mapped)
    assert mapped.is_open


def test_released_places_are_free_again() -> None:
    table = ConnectionTable(TABLE)
    for _ in range(100):
        place = entered(table, "10.0.0.1", Line())
        place.authenticate()
        place.release()
        place.release()
    assert len(table) == 0
