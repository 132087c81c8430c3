"""MachineDriver: base class of the kinds whose jobs are run by the runner's host on a machine (docs/dev/runner.md).

A kind only says how the host is reached. A target has one connection, to its machine; a kind whose jobs have a host
each (a pod) has one connection per job: `connection_key`.
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
from windlass.drivers.machine.host_client import HostClient, PendingAnswer
from windlass.drivers.machine.inventory import parse_inventory, problems
from windlass.drivers.machine.relay import Relay
from windlass.drivers.machine.subscriptions import Feed, Sink, Subscriptions
from windlass.failpoints import reach

log = logging.getLogger(__name__)

C = TypeVar("C", bound=ContainerConfig)
T = TypeVar("T")

_START_SECONDS = 60.0
_REPORT_SECONDS = 1.0
_CHUNK = 1 << 18
_LARGEST_READ = 4 << 20
_MAX_IN_FLIGHT = 16 << 20  # bytes
_MAX_REQUESTS = 64  # requests
_FEW_FILES = 16
_LEAST_DISK_MB = 100
_ALIVE = (Phase.QUEUED, Phase.RUNNING)


class MachineDriver(Driver[C], Watcher, EnvironmentCache):
    """Implements the driver contract by requests to the runner's host."""

    _start_request: ClassVar[str] = "start"

    @abstractmethod
    def _key(self) -> str:
        """Key of this target in the connection pool."""

    @abstractmethod
    def _root(self) -> PurePath:
        """The path of the runner's folder on the machine."""

    @abstractmethod
    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        """Send the runner to the machine if needed, start its host and connect. Events of the host go to the feed.

        `handle` is the job of the host, for kinds whose jobs have a connection each.
        """

    def connection_key(self, handle: Handle | None = None) -> str:
        """Pool key of the connection to the host of a job; without a handle, to the target itself."""
        return self._key()

    def _tools(self) -> Mapping[str, Any]:
        """`tools` of run.json: programs by name and network settings for the build of an environment."""
        return {}

    def _programs(self, environment: EnvironmentSpec) -> Mapping[str, Program]:
        """Programs of the server's computer that the machine may request for the build, by name."""
        return {}

    def has_hard_limits(self) -> bool:
        """Whether a run is limited to its share of CPU time even while the machine is idle."""
        return False

    def hides_gpus(self) -> bool:
        """Whether GPUs are hidden from runs that request none."""
        return not self.config.share_gpus

    def leave(self) -> None:
        keys = {self.connection_key(), *self._subscriptions().keys()}
        # Drop connections last: one that is being opened now would publish to a feed that no longer exists.
        self.connections.drop(self._subscriptions_key())
        for key in keys:
            self.connections.drop(key)

    def check(self) -> Health:
        self.connections.reset_backoff(self.connection_key())
        found = self._inventory()
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
        answer = self._deliver(job, is_prestaged=False)
        if answer.get("claimed") is not True:  # the host watches jobs that it has started itself
            self._subscribe(handle, {job.id: job.nonce})
        reach("F09")
        return replace(handle, data={"fence": job.fence, "boot_id": self._boot_id(handle)})

    def prepare(self, plan: Plan) -> None:
        self._deliver(plan.job, is_prestaged=True)

    def is_prepared(
        self, environment: EnvironmentSpec, container: Container | None, files: Sequence[SnapshotFile] = ()
    ) -> bool:
        made = config.document(environment, container, Resources(), self.config)
        body, _ = self._call("is_prepared", run=protocol.environment_fields(environment, made, files))
        return body.get("prepared") is True

    def environments(self) -> list[CachedEnvironment]:
        with self._client().list_lock:
            body, _ = self._call("list_environments")
            return protocol.cached_environments(body)

    def evict(self, digest: str, idle: timedelta) -> bool:
        body, _ = self._call("evict_environment", environment=digest, idle_seconds=idle.total_seconds())
        return body.get("gone") is True

    def find(self, job_id: str, nonce: str) -> Handle | None:
        handle = Handle(self.kind, job_id, nonce)
        [seen] = self.observe([handle])
        return None if seen.phase is Phase.LOST and not seen.is_startable else handle

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        return self._by_connection(handles, self._observe)

    def _by_connection(self, handles: Sequence[Handle], ask: Callable[[Sequence[Handle]], Sequence[T]]) -> list[T]:
        """Group handles by connection, with one request for each. Results are in the order of the handles."""
        groups: dict[str, list[int]] = {}
        for place, handle in enumerate(handles):
            groups.setdefault(self.connection_key(handle), []).append(place)
        found: dict[int, T] = {}
        for places in groups.values():
            found.update(zip(places, ask([handles[place] for place in places]), strict=True))
        return [found[place] for place in range(len(handles))]

    def _observe(self, handles: Sequence[Handle]) -> list[Observation]:
        """Observe jobs that share a connection, and subscribe to the events of those that run."""
        first = handles[0]
        with self._client(first).list_lock:
            answers = self._ask_host(handles, "observe")
            skew = self._feed(first).skew
            said = (protocol.observation(answer, skew) for answer in answers)
            seen = [self._check_boot_id(handle, each) for handle, each in zip(handles, said, strict=True)]
        self._update_subscriptions(handles, seen)
        return seen

    def _ask_host(self, handles: Sequence[Handle], do: str) -> list[Any]:
        """Send one request about several jobs of a host; the answer has an item for each."""
        body, _ = self._call(do, handles[0], jobs=[[handle.native_id, handle.nonce] for handle in handles])
        answers = body.get("jobs")
        if not isinstance(answers, list) or len(answers) != len(handles):
            raise TargetUnreachable(f"{self.name} was asked about {len(handles)} jobs and answered something else.")
        return answers

    def _check_boot_id(self, handle: Handle, seen: Observation) -> Observation:
        """A job that is unknown to a machine, and was sent to it before its last boot, has ended: NODE_LOST."""
        then = handle.data.get("boot_id")
        if seen.phase is not Phase.LOST or seen.is_startable or not then or self._boot_id(handle) in (None, then):
            return seen
        message = "it was restarted or replaced, and does not know the run any more"
        return Observation(Phase.ENDED, reason=Reason.NODE_LOST, message=message)

    def _boot_id(self, handle: Handle) -> str | None:
        return self._client(handle).hello.get("boot_id")

    def clock_skew(self) -> float:
        return self._feed().skew

    def stop(self, handle: Handle, grace: timedelta) -> None:
        fence = handle.data.get("fence")
        known = {} if fence is None else {"fence": fence}
        self._call("stop", handle, **job_fields(handle), grace=grace.total_seconds(), **known)

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        found = bytearray()
        while len(found) < limit:
            wanted = self._client(handle).send_window(min(limit - len(found), _LARGEST_READ))
            piece = self._read(handle, path, offset + len(found), wanted)
            found += piece[:wanted]
            if len(piece) < wanted:
                break
        return bytes(found)

    def files(self, handle: Handle) -> Iterable[RunFile]:
        with self._client(handle).list_lock:
            body, _ = self._call("files", handle, **job_fields(handle))
            return [RunFile(*file) for file in protocol.listed_files(body)]

    def clean(self, handle: Handle) -> None:
        self._feed(handle).remove([handle.native_id])
        self._call("clean", handle, **job_fields(handle))
        self._release(handle)

    def _release(self, handle: Handle) -> None:
        """Close the connection of a cleaned-up job, if it has one of its own."""
        key = self.connection_key(handle)
        if key != self.connection_key():
            self._subscriptions().drop(key)
            self.connections.drop(key)

    def watch(self, sink: Sink) -> None:
        self._subscriptions().sink = sink

    def _deliver(self, job: Job, is_prestaged: bool) -> Body:
        self._check_resources(job)
        container = self._container(job)
        relay = self._relay_id(is_contained=container is not None)
        programs = self._programs(job.environment)
        tools = {**self._tools(), **{name: program.describe() for name, program in programs.items()}}
        run = protocol.run_document(
            job,
            tools,
            is_prestaged,
            relay,
            container,
            isinstance(self, Claims),
            self.has_hard_limits(),
            self.hides_gpus(),
        )
        files = {file.digest: file.size for file in job.bundle.files()} if job.bundle else {}
        handle = Handle(self.kind, job.id, job.nonce)
        client = self._client(handle)
        if not is_prestaged:
            self._feed(handle).add({job.id: job.nonce})  # before it is sent: the job may end before the answer comes
        self._send_changed(client, job, files)
        answer, _ = self._call(self._start_request, handle, _START_SECONDS, run=run)
        if "missing" in answer:
            self._upload(client, job, answer, programs)
            answer, _ = self._call(self._start_request, handle, _START_SECONDS, run=run)
        if "missing" in answer:
            raise TargetUnreachable(f"{self.name} lacks files of job {job.id} although they were sent.")
        client.known_files = files.keys()
        return answer

    def _send_changed(self, client: HostClient, job: Job, files: Mapping[str, int]) -> None:
        """Send a few changed files before the start: that saves the round trip in which the host requests them."""
        changed = [digest for digest in files if digest not in client.known_files]
        if client.known_files and len(changed) <= _FEW_FILES and sum(files[digest] for digest in changed) <= _CHUNK:
            for digest, offset, is_last, data in _chunks(_file_openers(job.bundle, {}), changed):
                client.ask(
                    "put", data, digest=digest, offset=offset, last=is_last
                )  # the start's answer shows whether it arrived

    def _container(self, job: Job) -> Body | None:
        return config.document(job.environment, job.container, job.resources, self.config)

    def _read(self, handle: Handle, path: str, offset: int, limit: int) -> bytes:
        body, data = self._client(handle).call("read", **job_fields(handle), path=path, offset=offset, limit=limit)
        if not protocol.is_denied(body):  # a link, a device or an unreadable file reads as empty
            self._raise_error(body)
        return data

    def _inventory(self) -> dict[str, Any]:
        body, _ = self._call("check", engine=self.config.engine)
        return parse_inventory(body.get("inventory"))

    def _check_resources(self, job: Job) -> None:
        """Reject a job that needs more than the machine has: it could never start there."""
        requested = {"cores": job.resources.cpus, "memory_mb": job.resources.memory_mb, "gpus": job.resources.gpus}
        if not any(requested.values()):
            return
        found = self._inventory()
        for what, asked in requested.items():
            has = found.get(what, 0)
            if asked and asked > has:
                raise TargetRejected(
                    f"{self.name} has {has:g} {what}; {asked:g} are asked for.",
                    hint="Ask for less, or name another target.",
                )

    def _upload(self, client: HostClient, job: Job, answer: Body, programs: Mapping[str, Program]) -> None:
        """Send the files that the machine lacks, with many requests in flight. It gets only files of this job."""
        sizes = {program.digest: program.size for program in programs.values()}
        sizes.update((file.digest, file.size) for file in (job.bundle.files() if job.bundle else ()))
        supply = _Upload(self, client, sum(sizes.get(digest, 0) for digest in protocol.missing_files(answer)))
        if answer.get("sdk"):
            sdk = runner_package.sdk()
            supply.total += len(sdk.data)
            supply.send("sdk", sdk.data, digest=sdk.digest)
        for digest, offset, is_last, data in _chunks(
            _file_openers(job.bundle, programs), protocol.missing_files(answer)
        ):
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
        """Open the relay for requests of scripts to the server. A failure is only logged: not all scripts need it."""
        server = self.connections.server
        if server is None:
            return
        client.relay = Relay(client, server, key)
        error = protocol.error(client.call("listen", relay=server.id, url=server.url)[0], self.name)
        if error is not None:
            log.warning("target=%s relay failed, scripts there cannot reach the server: %s", self.name, error.message)

    def _relay_id(self, is_contained: bool) -> str | None:
        """Id of the relay for a job's script. None if the script can connect to the server, which no container can."""
        is_needed = is_contained or not self.features.calls_home
        return self.connections.server.id if self.connections.server is not None and is_needed else None

    def _update_subscriptions(self, handles: Sequence[Handle], seen: Sequence[Observation]) -> None:
        """Watch the jobs that are alive, and no others. Also picks up jobs that an earlier server started."""
        first = handles[0]
        alive = {h.native_id: h.nonce for h, s in zip(handles, seen, strict=True) if s.phase in _ALIVE}
        self._feed(first).remove(handle.native_id for handle in handles if handle.native_id not in alive)
        self._subscribe(first, self._feed(first).add(alive))

    def _subscribe(self, handle: Handle, jobs: Mapping[str, str]) -> None:
        """Ask the host to push events of these jobs (id -> nonce), without waiting for the answer."""
        if jobs:
            self._client(handle).ask("watch", jobs=list(jobs.items()))


def job_fields(handle: Handle) -> Body:
    """The fields of a request that identify a job."""
    return {"job": handle.native_id, "nonce": handle.nonce}


class _Upload:
    """Upload of files to a machine, with many requests in flight. Reports its progress once a second."""

    def __init__(self, driver: MachineDriver[Any], client: HostClient, total: int) -> None:
        self.total = total  # bytes
        self._driver = driver
        self._client = client
        self._in_flight: deque[PendingAnswer] = deque()
        self._bytes_in_flight = 0  # bytes under way
        self._done = 0
        self._report_at = time.monotonic() + _REPORT_SECONDS

    def send(self, do: str, data: bytes, **fields: Any) -> None:
        self._in_flight.append(self._client.ask(do, data, seconds=_START_SECONDS, **fields))
        self._bytes_in_flight += len(data)
        while len(self._in_flight) > _MAX_REQUESTS or self._bytes_in_flight > self._client.send_window(_MAX_IN_FLIGHT):
            self._wait()

    def finish(self) -> None:
        while self._in_flight:
            self._wait()

    def _wait(self) -> None:
        oldest = self._in_flight.popleft()
        self._bytes_in_flight -= oldest.sent
        self._driver._raise_error(self._client.wait(oldest)[0])
        self._done += oldest.sent
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + _REPORT_SECONDS
            self._driver.report(Sending(self._done, max(self._done, self.total)))


def _file_openers(bundle: Bundle | None, programs: Mapping[str, Program]) -> dict[str, Callable[[], BinaryIO]]:
    """Functions that open the files which a machine may request for a job, by digest."""
    found: dict[str, Callable[[], BinaryIO]] = {one.digest: one.open for one in programs.values()}
    if bundle is not None:
        found.update((file.digest, partial(bundle.open, file.digest)) for file in bundle.files())
    return found


def _chunks(
    openers: Mapping[str, Callable[[], BinaryIO]], digests: Iterable[str]
) -> Iterator[tuple[str, int, bool, bytes]]:
    """Split the requested files into chunks: digest, offset, whether it is the last chunk, bytes."""
    for digest in digests:
        if digest not in openers:
            raise TargetRejected(f"The machine asks for a file that is not of this job: {ascii(digest)[:80]}")
        with openers[digest]() as file:
            offset, piece = 0, file.read(_CHUNK)
            while True:
                following = file.read(_CHUNK)
                yield digest, offset, not following, piece
                if not following:
                    break
                offset, piece = offset + len(piece), following
