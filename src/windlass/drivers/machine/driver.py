"""Jobs on a machine where the runner's host does the work (docs/dev/runner.md).

Shared by the kinds that differ only in how the host is reached. Where one machine is behind a target, so is one
connection; a kind whose jobs have a host each (a pod) has one connection per handle: `connection_key`.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import PurePath
from typing import Any, BinaryIO, ClassVar, TypeVar

from windlass.core.entities import Container, EnvironmentSpec, Resources, SnapshotFile
from windlass.core.errors import TargetRejected, TargetUnreachable
from windlass.core.states import Observation, Phase, Reason
from windlass.drivers import plan as drivers_plan
from windlass.drivers.base import (
    Bundle,
    CachedEnvironment,
    Claims,
    Driver,
    EnvironmentCache,
    Handle,
    Health,
    Job,
    Plan,
    RunFile,
    Sending,
    Watcher,
)
from windlass.drivers.containers import config
from windlass.drivers.containers.config import ContainerConfig
from windlass.drivers.machine import protocol, runner_package
from windlass.drivers.machine.build_tools import Program
from windlass.drivers.machine.framing import Body
from windlass.drivers.machine.host_client import Answer, HostClient
from windlass.drivers.machine.inventory import offers, problems
from windlass.drivers.machine.relay import Relay
from windlass.drivers.machine.subscriptions import Feed, Sink, Subscriptions
from windlass.failpoints import reach

log = logging.getLogger(__name__)

C = TypeVar("C", bound=ContainerConfig)
T = TypeVar("T")

_START_SECONDS = 60.0
_REPORT_SECONDS = 1.0
_PIECE = 1 << 18
_LARGEST_READ = 4 << 20
_UNDER_WAY = 16 << 20  # bytes
_MOST_UNDER_WAY = 64  # requests
_FEW_FILES = 16
_LEAST_DISK_MB = 100
_ALIVE = (Phase.QUEUED, Phase.RUNNING)


class MachineDriver(Driver[C], Watcher, EnvironmentCache):
    _start_request: ClassVar[str] = "start"

    @abstractmethod
    def _key(self) -> str:
        """What tells this target from others in the connection pool."""

    @abstractmethod
    def _root(self) -> PurePath:
        """The machine's folder, there."""

    @abstractmethod
    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        """Bring the runner there and start its host. Its events go to the feed.

        `handle`: the job whose host it is, where `connection_key` gives jobs connections of their own.
        """

    def connection_key(self, handle: Handle | None = None) -> str:
        """Which connection reaches the host of a job, or, without one, the target itself."""
        return self._key()

    def _tools(self) -> Mapping[str, Any]:
        """What building an environment needs, where we know better than the machine: programs by name, its network."""
        return {}

    def _programs(self, environment: EnvironmentSpec) -> Mapping[str, Program]:
        """Those of ours that the machine may ask for to build it, if it lacks them."""
        return {}

    def limits_hard(self) -> bool:
        """Whether a run may never use more processor time than its share, even if nothing else wants it."""
        return False

    def hides_gpus(self) -> bool:
        """Whether a run that asks for no GPUs sees none of those that are there."""
        return not self.config.share_gpus

    def leave(self) -> None:
        keys = {self.connection_key(), *self._subscriptions().keys()}
        # The connections last: one that is made in this moment must not publish to a feed that is dropped.
        self.connections.drop(self._subscriptions_key())
        for key in keys:
            self.connections.drop(key)

    def check(self) -> Health:
        self.connections.reset_backoff(self.connection_key())
        found = self._offers()
        found["problems"] = problems(found, str(self._root()))
        free = found.get("disk_free_mb")
        if free is not None and free < _LEAST_DISK_MB:
            return Health(False, f"The disk of {self._root()} is full: {free:g} MB are free.", found)
        return Health(True, f"{found.get('cores', '?')} cores, Python {found.get('python', '?')}", found)

    def plan(self, job: Job) -> Plan:
        drivers_plan.refuse_undeclared(self.kind, self.features, job)
        place = self._root() / "runs" / job.id
        container = self._container(job)
        described = config.describe(container, job.container) if container else None
        return Plan(job, partial(drivers_plan.render, self.name, self.kind, place, job, described))

    def start(self, plan: Plan) -> Handle:
        job = plan.job
        handle = Handle(self.kind, job.id, job.nonce)
        answer = self._hand_over(job, is_held=False)
        if answer.get("claimed") is not True:  # the host watches what it has started itself
            self._subscribe(handle, {job.id: job.nonce})
        reach("F09")
        return replace(handle, data={"fence": job.fence, "boot_id": self._boot_id(handle)})

    def prepare(self, plan: Plan) -> None:
        self._hand_over(plan.job, is_held=True)

    def is_prepared(
        self, environment: EnvironmentSpec, container: Container | None, files: Sequence[SnapshotFile] = ()
    ) -> bool:
        made = config.document(environment, container, Resources(), self.config)
        body, _ = self._call("prepared", run=protocol.surroundings(environment, made, files))
        return body.get("prepared") is True

    def environments(self) -> list[CachedEnvironment]:
        with self._client().listing:
            body, _ = self._call("kept")
            return protocol.kept(body)

    def evict(self, digest: str, idle: timedelta) -> bool:
        body, _ = self._call("forget", environment=digest, seconds=idle.total_seconds())
        return body.get("gone") is True

    def find(self, job_id: str, nonce: str) -> Handle | None:
        handle = Handle(self.kind, job_id, nonce)
        [seen] = self.observe([handle])
        return None if seen.phase is Phase.LOST and not seen.is_startable else handle

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        return self._by_connection(handles, self._observe)

    def _by_connection(self, handles: Sequence[Handle], ask: Callable[[Sequence[Handle]], Sequence[T]]) -> list[T]:
        """Ask once for all jobs that one connection reaches; the answers are in the order of the handles."""
        groups: dict[str, list[int]] = {}
        for place, handle in enumerate(handles):
            groups.setdefault(self.connection_key(handle), []).append(place)
        found: dict[int, T] = {}
        for places in groups.values():
            found.update(zip(places, ask([handles[place] for place in places]), strict=True))
        return [found[place] for place in range(len(handles))]

    def _observe(self, handles: Sequence[Handle]) -> list[Observation]:
        """What the host of these jobs says of them, all by one connection."""
        first = handles[0]
        with self._client(first).listing:
            answers = self._ask_about(handles, "observe")
            skew = self._feed(first).skew
            said = (protocol.observation(answer, skew) for answer in answers)
            seen = [self._judge(handle, each) for handle, each in zip(handles, said, strict=True)]
        self._follow(handles, seen)
        return seen

    def _ask_about(self, handles: Sequence[Handle], do: str) -> list[Any]:
        """A request about several jobs of one host, with an answer for each."""
        body, _ = self._call(do, handles[0], jobs=[[handle.native_id, handle.nonce] for handle in handles])
        answers = body.get("jobs")
        if not isinstance(answers, list) or len(answers) != len(handles):
            raise TargetUnreachable(f"{self.name} was asked about {len(handles)} jobs and answered something else.")
        return answers

    def _judge(self, handle: Handle, seen: Observation) -> Observation:
        """A job that a machine does not know, and that was given to it before it was started last, is no more."""
        then = handle.data.get("boot_id")
        if seen.phase is not Phase.LOST or seen.is_startable or not then or self._boot_id(handle) in (None, then):
            return seen
        word = "it was restarted or replaced, and does not know the run any more"
        return Observation(Phase.ENDED, reason=Reason.NODE_LOST, message=word)

    def _boot_id(self, handle: Handle) -> str | None:
        return self._client(handle).hello.get("boot_id")

    def clock_skew(self) -> float:
        return self._feed().skew

    def stop(self, handle: Handle, grace: timedelta) -> None:
        fence = handle.data.get("fence")
        known = {} if fence is None else {"fence": fence}
        self._call("stop", handle, **named(handle), grace=grace.total_seconds(), **known)

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        found = bytearray()
        while len(found) < limit:
            wanted = self._client(handle).at_once(min(limit - len(found), _LARGEST_READ))
            piece = self._read(handle, path, offset + len(found), wanted)
            found += piece[:wanted]
            if len(piece) < wanted:
                break
        return bytes(found)

    def files(self, handle: Handle) -> Iterable[RunFile]:
        with self._client(handle).listing:
            body, _ = self._call("files", handle, **named(handle))
            return [RunFile(*file) for file in protocol.files_seen(body)]

    def clean(self, handle: Handle) -> None:
        self._feed(handle).remove([handle.native_id])
        self._call("clean", handle, **named(handle))
        self._release(handle)

    def _release(self, handle: Handle) -> None:
        """Close the connection of a job that has one of its own: the job is gone."""
        key = self.connection_key(handle)
        if key != self.connection_key():
            self._subscriptions().drop(key)
            self.connections.drop(key)

    def watch(self, sink: Sink) -> None:
        self._subscriptions().sink = sink

    def _hand_over(self, job: Job, is_held: bool) -> Body:
        self._refuse_beyond(job)
        container = self._container(job)
        relay = self._relay_of(is_contained=container is not None)
        programs = self._programs(job.environment)
        tools = {**self._tools(), **{name: program.told() for name, program in programs.items()}}
        run = protocol.run_document(
            job, tools, is_held, relay, container, isinstance(self, Claims), self.limits_hard(), self.hides_gpus()
        )
        files = {file.digest: file.size for file in job.bundle.files()} if job.bundle else {}
        handle = Handle(self.kind, job.id, job.nonce)
        client = self._client(handle)
        if not is_held:
            self._feed(handle).add({job.id: job.nonce})  # before it is sent: it may end before that is answered
        self._send_ahead(client, job, files)
        answer, _ = self._call(self._start_request, handle, _START_SECONDS, run=run)
        if "missing" in answer:
            self._supply(client, job, answer, programs)
            answer, _ = self._call(self._start_request, handle, _START_SECONDS, run=run)
        if "missing" in answer:
            raise TargetUnreachable(f"{self.name} lacks files of job {job.id} although they were sent.")
        client.has = files.keys()
        return answer

    def _send_ahead(self, client: HostClient, job: Job, files: Mapping[str, int]) -> None:
        """The few files that changed go ahead of the start, which would only be answered by asking for them."""
        changed = [digest for digest in files if digest not in client.has]
        if client.has and len(changed) <= _FEW_FILES and sum(files[digest] for digest in changed) <= _PIECE:
            for digest, offset, is_last, data in _pieces(_openers(job.bundle, {}), changed):
                client.ask("put", data, digest=digest, offset=offset, last=is_last)  # the start tells what came of it

    def _container(self, job: Job) -> Body | None:
        return config.document(job.environment, job.container, job.resources, self.config)

    def _read(self, handle: Handle, path: str, offset: int, limit: int) -> bytes:
        body, data = self._client(handle).call("read", **named(handle), path=path, offset=offset, limit=limit)
        if not protocol.is_denied(body):  # a link, a device, a file without rights: there is nothing for us
            self._raise_error(body)
        return data

    def _offers(self) -> dict[str, Any]:
        body, _ = self._call("check", engine=self.config.engine)
        return offers(body.get("inventory"))

    def _refuse_beyond(self, job: Job) -> None:
        """A machine has what it has: what is more than that can never start there."""
        requested = {"cores": job.resources.cpus, "memory_mb": job.resources.memory_mb, "gpus": job.resources.gpus}
        if not any(requested.values()):
            return
        found = self._offers()
        for what, asked in requested.items():
            has = found.get(what, 0)
            if asked and asked > has:
                raise TargetRejected(
                    f"{self.name} has {has:g} {what}; {asked:g} are asked for.",
                    hint="Ask for less, or name another target.",
                )

    def _supply(self, client: HostClient, job: Job, answer: Body, programs: Mapping[str, Program]) -> None:
        """Send what the machine lacks, many requests under way at once. It gets nothing but this job's files."""
        sizes = {program.digest: program.size for program in programs.values()}
        sizes.update((file.digest, file.size) for file in (job.bundle.files() if job.bundle else ()))
        supply = _Supply(self, client, sum(sizes.get(digest, 0) for digest in protocol.missing(answer)))
        if answer.get("sdk"):
            sdk = runner_package.sdk()
            supply.total += len(sdk.data)
            supply.send("sdk", sdk.data, digest=sdk.digest)
        for digest, offset, is_last, data in _pieces(_openers(job.bundle, programs), protocol.missing(answer)):
            supply.send("put", data, digest=digest, offset=offset, last=is_last)
        supply.finish()

    def _call(self, do: str, handle: Handle | None = None, seconds: float = 30.0, **fields: Any) -> tuple[Body, bytes]:
        body, data = self._client(handle).call(do, seconds=seconds, **fields)
        self._raise_error(body, is_start=do == self._start_request)
        return body, data

    def _raise_error(self, body: Body, is_start: bool = False) -> None:
        error = protocol.error(body, self.name, is_start)
        if error is not None:
            raise error

    def _client(self, handle: Handle | None = None) -> HostClient:
        """The connection to the host of a job, or to the target."""
        key = self.connection_key(handle)
        client: HostClient = self.connections.get(key, partial(self._connect, key, handle))
        return client

    def _subscriptions_key(self) -> str:
        return f"{self._key()} subscriptions"

    def _subscriptions(self) -> Subscriptions:
        found: Subscriptions = self.connections.get(self._subscriptions_key(), Subscriptions)
        return found

    def _feed(self, handle: Handle | None = None) -> Feed:
        return self._subscriptions().feed(self.connection_key(handle))

    def _connect(self, key: str, handle: Handle | None) -> HostClient:
        self.report(Sending())
        feed = self._subscriptions().feed(key)
        client = self._open(feed, handle)
        feed.skew = client.skew
        try:
            reach("F07")
            self._open_relay(client, key)
            jobs = feed.jobs()
            if jobs:
                client.ask("watch", jobs=list(jobs.items()))
                feed.publish_all()
        except BaseException:
            client.close()
            raise
        return client

    def _open_relay(self, client: HostClient, key: str) -> None:
        """Let scripts there reach the server. A target without a relay is good for scripts that do not need one."""
        server = self.connections.server
        if server is None:
            return
        client.relay = Relay(client, server, key)
        error = protocol.error(client.call("listen", relay=server.id, url=server.url)[0], self.name)
        if error is not None:
            log.warning("target=%s scripts there cannot call the server: %s", self.name, error.message)

    def _relay_of(self, is_contained: bool) -> str | None:
        """By which relay a job's script calls the server, unless it can reach it by itself: no container can."""
        is_needed = is_contained or not self.features.calls_home
        return self.connections.server.id if self.connections.server is not None and is_needed else None

    def _follow(self, handles: Sequence[Handle], seen: Sequence[Observation]) -> None:
        """Watch the jobs that live, and no others. For jobs that an earlier server started, this is where it begins."""
        first = handles[0]
        alive = {h.native_id: h.nonce for h, s in zip(handles, seen, strict=True) if s.phase in _ALIVE}
        self._feed(first).remove(handle.native_id for handle in handles if handle.native_id not in alive)
        self._subscribe(first, self._feed(first).add(alive))

    def _subscribe(self, handle: Handle, jobs: Mapping[str, str]) -> None:
        """Have the host of that job push events of these, given with their nonces, without waiting for the answer."""
        if jobs:
            self._client(handle).ask("watch", jobs=list(jobs.items()))


def named(handle: Handle) -> Body:
    """How a request names a job."""
    return {"job": handle.native_id, "nonce": handle.nonce}


class _Supply:
    """The requests that bring files to a machine. What it has taken is reported once a second."""

    def __init__(self, driver: MachineDriver[Any], client: HostClient, total: int) -> None:
        self.total = total  # bytes
        self._driver = driver
        self._client = client
        self._under_way: deque[Answer] = deque()
        self._weight = 0  # bytes under way
        self._done = 0
        self._report_at = time.monotonic() + _REPORT_SECONDS

    def send(self, do: str, data: bytes, **fields: Any) -> None:
        self._under_way.append(self._client.ask(do, data, seconds=_START_SECONDS, **fields))
        self._weight += len(data)
        while len(self._under_way) > _MOST_UNDER_WAY or self._weight > self._client.at_once(_UNDER_WAY):
            self._wait()

    def finish(self) -> None:
        while self._under_way:
            self._wait()

    def _wait(self) -> None:
        oldest = self._under_way.popleft()
        self._weight -= oldest.sent
        self._driver._raise_error(self._client.wait(oldest)[0])
        self._done += oldest.sent
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + _REPORT_SECONDS
            self._driver.report(Sending(self._done, max(self._done, self.total)))


def _openers(bundle: Bundle | None, programs: Mapping[str, Program]) -> dict[str, Callable[[], BinaryIO]]:
    """What a machine may get for a job, by digest."""
    found: dict[str, Callable[[], BinaryIO]] = {one.digest: one.open for one in programs.values()}
    if bundle is not None:
        found.update((file.digest, partial(bundle.open, file.digest)) for file in bundle.files())
    return found


def _pieces(
    openers: Mapping[str, Callable[[], BinaryIO]], digests: Iterable[str]
) -> Iterator[tuple[str, int, bool, bytes]]:
    """The files that are lacking, cut for frames: digest, offset, whether it is the last piece, bytes."""
    for digest in digests:
        if digest not in openers:
            raise TargetRejected(f"The machine asks for a file that is not of this job: {ascii(digest)[:80]}")
        with openers[digest]() as file:
            offset, piece = 0, file.read(_PIECE)
            while True:
                following = file.read(_PIECE)
                yield digest, offset, not following, piece
                if not following:
                    break
                offset, piece = offset + len(piece), following
