"""One cell, from arming the point to checking what came of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.faults.cells import CANCEL, EVICT, Cell
from tests.faults.docker_world import DockerWorld
from tests.faults.invariants import (
    check_nothing_left,
    check_record,
    check_same_answer,
    check_starts,
    check_story,
    check_truth,
)
from tests.faults.ssh_world import SshWorld
from tests.faults.world import LEASE_SECONDS, World, is_alive, wait_for

LINES = 40
PROCESSES = ("K3", "K4", "K11")
Json = dict[str, Any]


class Database(Protocol):
    """What K7 strikes."""

    def kill(self) -> None: ...
    def restore(self) -> None: ...


class Client(threading.Thread):
    """Does what the SDK does, in the background, and keeps the answer."""

    def __init__(self, act: Callable[[], Json]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self._answer: Json | None = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._act()
        except BaseException as e:  # told to the test by answer()
            self._error = e

    def answer(self) -> Json:
        self.join(90)
        assert not self.is_alive(), "the client hangs"
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer


def strike(world: World, cell: Cell, database: Database | None, with_rival: bool = False) -> None:
    mode = mode_of(cell)
    code = 0 if hash_of(cell) % 2 else 7
    world.start_server()
    run_id = known = None
    if cell.point in (*CANCEL, *EVICT):
        run_id = world.submit("key-1", LINES, code, mode)["id"]
        word = "start " if cell.point in CANCEL else "waits "
        wait_for("the script", lambda: any(line.startswith(word) for line in world.told()))
        known = victim_pid(world, cell, run_id) if cell.victim in PROCESSES else None
    world.arm(cell.point)
    if cell.victim == "K2":
        client = abandon(world, cell, run_id, code, mode)
    else:
        client = Client(lambda: make_call(world, cell, run_id, code, mode))
        world.reached(cell.point)
        hit(world, cell, client, run_id, known, database, with_rival)
    run_id = client.answer()["id"]
    run = world.wait_final(run_id)
    check(world, cell, run, code, mode)


def mode_of(cell: Cell) -> str:
    if cell.point in EVICT:
        return "again"
    return "run" if cell.point not in CANCEL else "stubborn" if cell.point == "F23" else "sleep"


def make_call(world: World, cell: Cell, run_id: str | None, code: int, mode: str) -> Json:
    """The call that leads to the point."""
    if run_id is None:
        return world.submit("key-1", LINES, code, mode)
    return world.evict(run_id) if cell.point in EVICT else world.cancel(run_id)


def abandon(world: World, cell: Cell, run_id: str | None, code: int, mode: str) -> Client:
    """K2: somebody hangs up in the middle of a call; then, as the SDK would, calls again."""
    if cell.point in ("F12", "F18"):
        client = Client(lambda: world.submit("key-1", LINES, code, mode))
        world.reached(cell.point) if cell.point == "F12" else None
        submitted = client.answer()
        follower = world.connect()
        token = (world.home / "token").read_text().strip()
        path = f"/api/v1/workspaces/default/runs/{submitted['id']}/stream?log=auto"
        follower.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        world.reached(cell.point)
        follower.close()
        world.go(cell.point)
        return client
    first = Client(lambda: hang_up(world, cell, run_id, code, mode))
    world.reached(cell.point)
    first.answer()
    world.go(cell.point)
    if run_id and cell.point in EVICT:
        return Client(lambda: {"id": run_id})
    return Client(lambda: make_call(world, cell, run_id, code, mode))


def hang_up(world: World, cell: Cell, run_id: str | None, code: int, mode: str) -> Json:
    """Make the call, and cut the connection as soon as the point is reached."""
    caller = Client(lambda: make_call(world, cell, run_id, code, mode))
    world.reached(cell.point)
    world.cut_connections()
    caller.join(0.2)
    return {}


def hit(
    world: World,
    cell: Cell,
    client: Client,
    run_id: str | None,
    known: int | None,
    database: Database | None,
    with_rival: bool,
) -> None:
    if cell.victim == "K1":
        world.kill_server()
        world.go(cell.point)
        world.start_server()
    elif cell.victim == "K7":
        assert database is not None
        database.kill()
        world.go(cell.point)
        time.sleep(0.3)
        database.restore()
    elif cell.victim == "K9":
        stopped = world.server
        stopped.send_signal(signal.SIGSTOP)
        if with_rival:
            # It takes over once the lease has run out, while the other believes to hold it still.
            world.start_server(world.home.with_name("rival"))
            world.servers.reverse()
        time.sleep(2 * LEASE_SECONDS)
        world.go(cell.point)
        stopped.send_signal(signal.SIGCONT)
    elif cell.victim in ON_ENGINE:
        assert isinstance(world, DockerWorld)
        ON_ENGINE[cell.victim](world, cell, run_id or client.answer()["id"])
    elif cell.victim in ON_MACHINE:
        assert isinstance(world, SshWorld)
        ON_MACHINE[cell.victim](world, cell)
    else:
        kill(cell, known or victim_pid(world, cell, client))
        world.go(cell.point)


def kill(cell: Cell, pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        if cell.point not in ("F21", "F29"):  # where the request is known, and may be fulfilled before we come
            raise
    # Until it is dead: what a container holds outlives the killing of its first process by a moment.
    wait_for("the victim's death", lambda: not is_alive(pid))


def break_connection(world: SshWorld, cell: Cell) -> None:
    world.kill_ssh() if hash_of(cell) % 2 else world.host.kill_connections()
    world.go(cell.point)


def reboot(world: SshWorld, cell: Cell) -> None:
    world.host.reboot()
    world.go(cell.point)


def fill_disk(world: SshWorld, cell: Cell) -> None:
    world.fill_disk()
    world.go(cell.point)
    time.sleep(1)
    world.make_room()


def turn_clock(world: SshWorld, cell: Cell) -> None:
    world.host.set_clock("+1h" if hash_of(cell) % 2 else "-1h")
    world.go(cell.point)


def kill_engine(world: DockerWorld, cell: Cell, run_id: str) -> None:
    world.engine.kill()
    world.go(cell.point)
    time.sleep(0.5)
    world.engine.start("--live-restore")


def restart_engine(world: DockerWorld, cell: Cell, run_id: str) -> None:
    world.engine.stop()
    world.go(cell.point)
    world.engine.start()


def remove_container(world: DockerWorld, cell: Cell, run_id: str) -> None:
    world.remove_container(run_id)
    world.go(cell.point)


ON_ENGINE = {"K12": kill_engine, "K13": restart_engine, "K14": remove_container}
ON_MACHINE = {"K5": break_connection, "K6": reboot, "K8": fill_disk, "K10": turn_clock}
# What a host needs for that.
TRAITS: Mapping[str, Json] = {"K8": {"disk_kb": 120_000}, "K10": {"clock": "+0"}}


def victim_pid(world: World, cell: Cell, who: Client | str) -> int:
    """Of the run with that id, or of the one that the client is told of."""
    if cell.victim == "K11":
        return world.host_pid()
    run_id = who if isinstance(who, str) else who.answer()["id"]
    return world.pid_of(run_id, "supervisor" if cell.victim == "K3" else "process")


def check(world: World, cell: Cell, run: Json, code: int, mode: str) -> None:
    check_starts(world)
    check_truth(world, run)
    check_story(world, run)
    check_nothing_left(world)
    check_outcome(world, cell, run, code, mode)
    again = world.submit("key-1", LINES, code, mode)
    check_same_answer(world, "key-1", run, again)
    world.kill_server()
    world.start_server()
    check_same_answer(world, "key-1", run, world.run(run["id"]))
    folders = world.folder(run["id"]).parent
    wait_for("the machine to be cleaned up", lambda: not list(folders.glob(f"{run['id']}.*")), 90)
    if isinstance(world, DockerWorld):
        wait_for("the container to be removed", lambda: not world.containers(), 30)


def check_outcome(world: World, cell: Cell, run: Json, code: int, mode: str) -> None:
    assert (run["state"], run["reason"]) in outcomes(cell, code), run
    if run["reason"] == "signaled":
        assert cell.victim in ("K4", "K13") and run["signal"] == signal.SIGKILL
    if run["reason"] == "exited" and run["exit_code"] == code:
        assert run["attempt"] == (2 if cell.point in EVICT else 1), run
        check_record(world, run["id"], LINES, run["attempt"])
    elif run["reason"] == "exited" and world.container:
        assert cell.victim in ("K4", "K13", "K14") and run["exit_code"] in (137, 143), run
    elif run["reason"] == "exited":
        assert cell.victim == "K8" and run["exit_code"] == 1, run  # the script met the full disk itself


def outcomes(cell: Cell, code: int) -> set[tuple[str, str]]:
    """State and reason as they may be."""
    own_end = ("Canceled", "stopped") if cell.point in CANCEL else ("Completed" if code == 0 else "Failed", "exited")
    match cell.victim:
        case "K3":  # the supervisor's own death may cost the exit code, never the truth
            return {own_end, ("Failed", "exit_unknown"), ("Failed", "supervisor_lost")}
        case "K4":
            may_end = cell.point in CANCEL or cell.point in EVICT  # if the request was fulfilled before
            return {("Failed", "signaled"), ("Failed", "exited"), *([own_end] if may_end else [])}
        case "K13":
            return {own_end, ("Failed", "exited"), ("Failed", "signaled")}
        case "K14":
            return {own_end, ("Failed", "exit_unknown"), ("Failed", "exited")}
        case "K6":  # what is written down survives; what had begun and left no word does not
            return {own_end} if "F17" <= cell.point <= "F20" else {own_end, ("Failed", "node_lost")}
        case "K8" if cell.point <= "F11":
            return {own_end, ("Failed", "start_failed")}
        case "K8":
            return {own_end, ("Failed", "exited")}
    return {own_end}


def hash_of(cell: Cell) -> int:
    return sum(map(ord, str(cell)))
