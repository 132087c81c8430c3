"""Ingest of what a run writes: logs as they grow, metrics and calls exactly once, outputs at the end.

The run folder on the target is the source of truth; everything here resumes from what the store already has.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from windlass.core import names
from windlass.core.codec import is_crowded
from windlass.core.entities import Artifact, Run
from windlass.core.errors import Conflict, InvalidRequest, StorageFull, WindlassError
from windlass.drivers.base import Driver, Handle
from windlass.failpoints import reach
from windlass.server.execution.ingest_limits import IngestLimits, RunBudget, on_disk
from windlass.server.security.log_redaction import RedactionProgress, Redactor
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Store
from windlass.store.files.artifacts import PathSet
from windlass.store.files.disk_reserve import DiskReserve

log = logging.getLogger(__name__)

CHUNK = 1 << 20
LINES = 1 << 18  # bytes of metrics or calls that are parsed at once: a byte of JSON may become fifty in memory
LONGEST_LINE = {"metrics/": 16 << 20, "calls/": 4 << 20}
TAIL = 64 << 20
AT_ONCE = 16 << 20  # bytes of a fast-growing log that are read before the run's other events are processed
LINES_AT_ONCE = 4 << 20  # the same for metrics and calls, which take longer
FETCHED_AT_ONCE = 2000
MOST_NAMED = 5
LARGEST_UPLOAD = 1 << 60
SOURCE = "source/"
OUTPUTS = "source/outputs/"
USAGE = "usage.jsonl"
RunFile = tuple[str, int, str | None]
Lines = list[dict[str, Any]]
_LITTLE = 1 << 14  # bytes of a log that are stored at a time where there is little room
_FULL = "the server's disk is nearly full"
# Why a file is not kept.
_UNREADABLE = "because of the name or for want of the right to read"
_FILE_AND_FOLDER = "because a name cannot be a file and a folder"
_NOT_AS_LISTED = "because the machine delivered other bytes than it had listed"
_NO_ROOM = "because of the limits on a run's logs or for want of space on the server's disk"
_UNLISTED = "because the run has more files than a record may list"


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The files of one attempt, on its target."""

    driver: Driver[Any]
    handle: Handle
    run: str
    attempt: int
    watch: tuple[str, ...]
    redactor: Redactor | None = None  # for its logs
    keeps_outputs: bool = True  # False: files in the source tree are not collected
    budget: RunBudget = field(default_factory=RunBudget)
    workspace: str = "default"  # of the run

    def writer(self, path: str) -> str:
        """The name of a file of metrics or calls among all that the run has written: attempts repeat the names."""
        return path if self.attempt == 1 else f"{self.attempt}/{path}"

    def keeps(self, path: str) -> bool:
        return self.keeps_outputs or not path.startswith(SOURCE)

    def redactor_of(self, path: str) -> Redactor | None:
        return None if path == USAGE else self.redactor  # usage.jsonl has only numbers

    def read(self, path: str, offset: int, limit: int = CHUNK) -> bytes:
        return self.driver.read(self.handle, path, offset, limit)

    def chunks(self, path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        offset = start
        while end is None or offset < end:
            data = self.read(path, offset, CHUNK if end is None else min(CHUNK, end - offset))
            if not data:
                return
            yield data
            offset += len(data)


class NotAsListed(InvalidRequest):
    """A machine delivered other bytes of a file than it had listed."""


Cursor = Callable[[str, str], int]
Take = Callable[[AttemptFiles, str, int, int, Lines], bool]


class RunIngest:
    def __init__(
        self, store: Store, event_bus: EventBus, log_cap: int, reserve: int = 0, run_cap: int = 1 << 60
    ) -> None:
        """`log_cap` bounds one log, `run_cap` all logs of a run, `reserve` is what runs leave free on the disk."""
        self._store = store
        self._event_bus = event_bus
        self._cap = log_cap
        self._limits = IngestLimits(log_cap, run_cap, DiskReserve(store.blobs.folder, reserve))
        self._tail = min(TAIL, log_cap // 4)
        self._long_lines: WeakKeyDictionary[Driver[Any], threading.Lock] = WeakKeyDictionary()

    @classmethod
    def for_settings(cls, store: Store, event_bus: EventBus, settings: Settings) -> RunIngest:
        return cls(store, event_bus, settings.log_cap_bytes, settings.disk_reserve_bytes, settings.run_log_cap_bytes)

    def pull_some(self, source: AttemptFiles, path: str) -> bool:
        """Store the new bytes of one growing file, up to a limit. Returns whether there may be more."""
        with _skip_unreadable(source, path):
            if is_log(path, source.watch):
                return self._pull_log(source, path, None, AT_ONCE)
            return self._pull_record(source, path, None, LINES_AT_ONCE)
        return False

    def pull(self, source: AttemptFiles, path: str, size: int | None = None) -> None:
        """Store the new bytes of one file. `size` is its final size, if it is known."""
        if is_log(path, source.watch):
            self._pull_log(source, path, size)
        else:
            self._pull_record(source, path, size)

    def pull_metrics_and_calls(self, source: AttemptFiles) -> None:
        """Store the new lines of all metrics and calls. Not of the logs, which may be long."""
        for file in source.driver.files(source.handle):
            if not is_log(file.path, source.watch):
                self.pull(source, file.path)

    def collect(
        self, source: AttemptFiles, files: Sequence[RunFile], skipped_files: Sequence[str] = (), unlisted: int = 0
    ) -> list[Artifact]:
        """Store the rest of all files after the end; the artifacts become visible with the final state.

        What is not kept (`skipped_files`, `unlisted`, and what cannot be read) is written to the run's events and
        message: the folder that has it will be removed.
        """
        source.budget.notes.clear()
        files = [file for file in files if source.keeps(file[0])]
        self._check_room(files)
        small = self._choose_small(source, files)
        for path, size, _ in files:
            if path not in small:
                with _skip_unreadable(source, path):
                    self.pull(source, path, size)
        reach("F18")
        paths = PathSet(artifact.path for artifact in self._store.artifacts.list_current(source.run))
        self._fetch_small(source, [file for path, file in small.items() if (record_name(path) or path) not in paths])
        found: list[Artifact] = []
        lost: dict[str, list[str]] = {_UNREADABLE: list(filter(source.keeps, skipped_files))}
        for path, size, digest in files:
            name = record_name(path)
            if name is None or name in paths:
                continue
            if paths.clashes(name):
                lost.setdefault(_FILE_AND_FOLDER, []).append(path)
                continue
            kept = self._keep(source, path, name, size, digest, lost)
            if kept is not None:
                found.append(kept)
                paths.add(name)
        for why, these in lost.items():
            self._report_skipped(source, why, these, len(these))
        self._report_skipped(source, _UNLISTED, [], unlisted)
        self._report_redacted(source)
        return found

    def _keep(
        self, source: AttemptFiles, path: str, name: str, size: int, digest: str | None, lost: dict[str, list[str]]
    ) -> Artifact | None:
        if is_log(path, source.watch):
            kept = self._seal(source, path, name, size, digest)
            if kept is None:
                lost.setdefault(_NO_ROOM, []).append(path)
            return kept
        if not path.startswith(OUTPUTS):
            return None
        try:
            kept = self._store_output(source, path, name, digest, size)
        except NotAsListed:
            lost.setdefault(_NOT_AS_LISTED, []).append(path)
            return None
        if digest is None and kept.size != size:  # it cannot be read, there or from here
            lost[_UNREADABLE].append(path)
            return None
        return kept

    def _check_room(self, files: Sequence[RunFile]) -> None:
        outputs = [(size, digest) for path, size, digest in files if path.startswith(OUTPUTS)]
        if self._limits.has_room(sum(on_disk(size) for size, _ in outputs)):
            return
        by_digest = {digest: size for size, digest in outputs if digest}  # the same bytes are stored once
        needed = sum(on_disk(by_digest[digest]) for digest in self._store.blobs.missing(by_digest))
        needed += sum(on_disk(size) for size, digest in outputs if digest is None)
        if not self._limits.has_room(needed):
            raise StorageFull(
                f"The server's disk has no room for its outputs: they have {needed // 1_000_000} MB, and "
                f"{max(0, self._limits.room()) // 1_000_000} MB are left for them.",
                hint="Free some space: windlass gc shows what may go.",
            )

    def _report_skipped(self, source: AttemptFiles, why: str, paths: Sequence[str], count: int) -> None:
        if not count:
            return
        what = "1 file is" if count == 1 else f"{count} files are"
        shown = ", ".join(ascii(record_name(path) or path)[:100] for path in paths[:MOST_NAMED])
        text = f"{what} not kept, {why}" + (f": {shown}" if shown else "")
        self._store.runs.append_event(source.run, "left_out", text, {"count": count})
        source.budget.note(f"{what} not kept, {why}")

    def seal_partial_logs(self, run: str, attempt: int) -> list[Artifact]:
        """Seal the logs as far as they were stored, for a run whose target will not answer any more."""
        logs = self._store.logs
        names_here = logs.list(run, attempt)
        return [Artifact(name, *logs.seal(run, attempt, name), datetime.now(UTC)) for name in names_here]

    def seal_logs_of_detached(self, run: Run) -> None:
        """The same for a run that ended because its target was detached. What cannot be stored is skipped."""
        try:
            for artifact in self.seal_partial_logs(run.id, run.attempt):
                with suppress(Conflict):  # the script stored a file of that name
                    self._store.artifacts.add(run.id, artifact)
        except (WindlassError, OSError) as e:
            log.warning("run=%s its logs were not kept when its target was detached: %s", run.id, e)

    # logs

    def _pull_log(self, source: AttemptFiles, path: str, size: int | None, most: int | None = None) -> bool:
        name = record_name(path) or path
        logs = self._store.logs
        if not source.budget.may_follow(path):
            self._report_limit(source, "followed", "it has more log files than are followed: the others are not kept")
            return False
        stored = start = logs.size(source.run, source.attempt, name)
        ceiling = self._cap - self._tail if size is None or size > self._cap else size
        while stored < ceiling:
            if most is not None and stored - start >= most:
                return True
            room = self._log_room(source, name)
            data = self._read_log(source, path, stored, min(room, ceiling - stored), size) if room else b""
            if not data:
                return False
            before, stored = stored, logs.append(source.run, source.attempt, name, stored, data)
            source.budget.log_bytes = self._log_bytes(source) + stored - before
            self._event_bus.publish(source.run)
            if before < self._cap - self._tail <= stored:
                self._report_cap(source, name)
        return False

    def _log_bytes(self, source: AttemptFiles) -> int:
        """Stored bytes of all logs of the attempt."""
        if source.budget.log_bytes is None:
            source.budget.log_bytes = sum(self._store.logs.list(source.run, source.attempt).values())
        return source.budget.log_bytes

    def _log_room(self, source: AttemptFiles, name: str) -> int:
        """Bytes of a log that may be stored now, at most a chunk. If none, the run's events say why."""
        stored = self._log_bytes(source)
        left = self._limits.run_bytes - stored
        if left <= 0:
            text = f"its logs have more than {_size(self._limits.run_bytes)} together: the rest is not kept"
            self._report_limit(source, "run logs", text)
            return 0
        if not self._limits.has_room(CHUNK, stored) and not self._limits.has_room(_LITTLE, stored):
            self._report_limit(source, "disk", f"{_FULL}: {ascii(name)[1:-1][:100]} is not stored further")
            return 0
        return min(left, CHUNK if self._limits.has_room(CHUNK, stored) else _LITTLE)

    def _report_limit(self, source: AttemptFiles, limit: str, text: str) -> None:
        """Write once into the run's events, and into its message, that a limit is reached; the script goes on."""
        source.budget.note(text if limit != "disk" else f"{_FULL}: its logs are not stored further")
        if limit not in source.budget.reported:
            source.budget.reported.add(limit)
            self._store.runs.append_event(source.run, "log_capped", f"{text}; the run goes on", {"limit": limit})

    def _read_log(self, source: AttemptFiles, path: str, offset: int, limit: int, size: int | None) -> bytes:
        redactor = source.redactor_of(path)
        if redactor is None:
            return source.read(path, offset, limit)
        read, progress = partial(source.read, path), redactor.progress_of(record_name(path) or path)
        cut = self._cap - self._tail if size is None or size > self._cap else None
        return redactor.redact_piece(read, offset, limit, size, progress, cut)

    def _report_cap(self, source: AttemptFiles, name: str) -> None:
        kept = (self._cap - self._tail) >> 20
        text = f"{name} is larger than {kept} MiB: from here on only its end is kept; the run goes on"
        self._store.runs.append_event(source.run, "log_capped", text, {"path": name})

    def _seal(self, source: AttemptFiles, path: str, name: str, size: int, digest: str | None) -> Artifact | None:
        """A log as it is kept; None if a limit leaves nothing of it."""
        logs, now = self._store.logs, datetime.now(UTC)
        stored = logs.size(source.run, source.attempt, name)
        if size > self._cap and stored >= self._cap - self._tail and self._log_room(source, name) == CHUNK:
            head, end = self._cap - self._tail, size - self._tail
            for data in self._tail_of(source, path, end + stored - head, size):
                if not self._log_room(source, name):
                    break
                stored = logs.append(source.run, source.attempt, name, stored, data)
                source.budget.log_bytes = self._log_bytes(source) + len(data)
            sealed, kept = logs.seal(source.run, source.attempt, name)
            return Artifact(name, sealed, kept, now, gap_offset=head, gap_length=size - kept)
        if size > stored and not self._can_copy(source, name, size, digest):
            if not stored:
                return None
            sealed, kept = logs.seal(source.run, source.attempt, name)
            return Artifact(name, sealed, kept, now, gap_offset=kept, gap_length=size - kept)
        redactor = source.redactor_of(path)
        if redactor is not None and not (stored == size and redactor.has_redacted(name, size, digest)):
            return self._store_redacted(source, redactor, path, name, digest, size)
        if stored != size or size == 0:
            return self._store_whole(source, path, name, digest, size)
        sealed, kept = logs.seal(source.run, source.attempt, name)
        if redactor is None and digest is not None and sealed != digest:
            # The script rewrote a file that was stored while it grew: its final content counts.
            return self._store_whole(source, path, name, digest, size)
        return Artifact(name, sealed, kept, now)

    def _can_copy(self, source: AttemptFiles, name: str, size: int, digest: str | None) -> bool:
        """Whether a log may be read again as a whole: within the limits of its run, if it is not here already."""
        if digest is not None and not self._store.blobs.missing([digest]):
            return True
        others = self._log_bytes(source) - self._store.logs.size(source.run, source.attempt, name)
        fits = others + size <= self._limits.run_bytes and self._limits.has_room(on_disk(size), others)
        if fits:
            source.budget.log_bytes = others + size
        return fits and size <= self._cap

    def _tail_of(self, source: AttemptFiles, path: str, offset: int, size: int) -> Iterator[bytes]:
        """The end of a log that is too large to be kept whole, as far as it is not here yet."""
        redactor = source.redactor_of(path)
        if redactor is None:
            yield from source.chunks(path, offset, size)
            return
        first, read = size - self._tail, partial(source.read, path)
        while offset < size and (
            data := redactor.redact_piece(read, offset, min(CHUNK, size - offset), size, floor=first)
        ):
            yield data
            offset += len(data)

    def _store_redacted(
        self, source: AttemptFiles, redactor: Redactor, path: str, name: str, digest: str | None, size: int
    ) -> Artifact:
        """A log that this server has not read from its beginning, or that was rewritten since."""
        progress = redactor.progress[name] = RedactionProgress()
        stored, kept = self._store.blobs.put(redactor.redact_stream(source.chunks(path, 0, size), progress), None)
        if digest is not None and progress.digest != digest:
            log.warning("run=%s %s was changed after its end", source.run, ascii(name))
        return Artifact(name, stored, kept, datetime.now(UTC))

    def _report_redacted(self, source: AttemptFiles) -> None:
        counts = {name: f.count for name, f in source.redactor.progress.items() if f.count} if source.redactor else {}
        if counts:
            shown = ", ".join(
                f"{count} times in {ascii(name)[1:-1]}" for name, count in list(counts.items())[:MOST_NAMED]
            )
            text = f"values of its secrets were masked: {shown}"
            self._store.runs.append_event(source.run, "masked", text, {"files": counts})

    # metrics and calls

    def _pull_record(self, source: AttemptFiles, path: str, size: int | None, most: int | None = None) -> bool:
        """Store what is new of a file of metrics or calls; other files are collected after the end."""
        if path.startswith("metrics/"):
            return self._pull_lines(source, path, self._store.metrics.writer_offset, self._take_metrics, size, most)
        if path.startswith("calls/"):
            return self._pull_lines(source, path, self._store.runs.calls_offset, self._take_calls, size, most)
        return False

    def _pull_lines(
        self, source: AttemptFiles, path: str, cursor: Cursor, take: Take, size: int | None, most: int | None
    ) -> bool:
        """While the disk is full, lines wait on the target as long as the run goes on; after its end the run waits.

        Nothing is read past the final `size`, whatever the target delivers there. True if `most` bytes were stored and
        there may be more.
        """
        start = offset = cursor(source.run, source.writer(path))
        try:
            while (size is None or offset < size) and self._may_take_lines(source, path, offset):
                if most is not None and offset - start >= most:
                    return True
                end = self._take_some_lines(source, path, offset, size, take)
                if end <= offset:
                    return False
                self._event_bus.publish_change(source.workspace, source.run)
                source.budget.line_bytes += end - offset
                offset = end
        except StorageFull:
            if size is not None:
                raise
            self._report_limit(source, "disk", f"{_FULL}: {ascii(path)[1:-1][:100]} waits")
        return False

    def _may_take_lines(self, source: AttemptFiles, path: str, offset: int) -> bool:
        budget = source.budget
        is_new = hash(path) not in budget.followed
        if not budget.may_follow(path):
            self._report_limit(source, "followed", "it has more files of metrics and calls than are read")
            return False
        budget.line_bytes += offset if is_new else 0
        if budget.line_bytes >= self._limits.run_bytes:
            text = f"its metrics and calls have more than {_size(self._limits.run_bytes)}: the rest is not kept"
            self._report_limit(source, "lines", text)
            return False
        if not self._limits.has_room(2 * LINES, budget.line_bytes):
            raise StorageFull(f"{_FULL}: metrics and calls of the run wait.", "windlass gc shows what may go.")
        return True

    def _take_some_lines(self, source: AttemptFiles, path: str, offset: int, size: int | None, take: Take) -> int:
        """The offset after the lines that were stored. A long line is in memory several times, so only one per target
        is parsed at a time.
        """
        found = self._take_whole_lines(source, path, offset, size, LINES, take)
        if found is None:
            longest = next(most for folder, most in LONGEST_LINE.items() if path.startswith(folder))
            with self._long_lines.setdefault(source.driver, threading.Lock()):
                found = self._take_whole_lines(source, path, offset, size, longest, take)
            if found is None:
                name = ascii(path)[1:-1][:100]
                self._report_limit(
                    source, "line", f"{name} has a line of more than {_size(longest)}: the rest is not read"
                )
                return offset
        return found

    def _take_whole_lines(
        self, source: AttemptFiles, path: str, offset: int, size: int | None, limit: int, take: Take
    ) -> int | None:
        """None if the first line is longer than the limit."""
        data = source.read(path, offset, limit if size is None else min(limit, size - offset))
        end = data.rfind(b"\n") + 1
        if end == 0:
            return None if len(data) >= limit else offset
        return offset + end if take(source, path, offset, offset + end, parse_lines(data[:end])) else offset

    def _take_metrics(self, source: AttemptFiles, path: str, offset: int, end: int, lines: Lines) -> bool:
        skew = source.driver.clock_skew()  # all times are by the server's clock
        return self._store.metrics.append(
            source.run, source.writer(path), offset, end, lines, skew, attempt=source.attempt
        )

    def _take_calls(self, source: AttemptFiles, path: str, offset: int, end: int, lines: Lines) -> bool:
        uploads, refused = [], []
        for call in lines:
            if call.get("do") == "upload":
                try:
                    uploads.append(self._take_upload(source, call))
                except InvalidRequest as e:
                    refused.append(e.message)
        return self._store.runs.apply_calls(source.run, source.writer(path), offset, end, lines, uploads, refused)

    def _take_upload(self, source: AttemptFiles, call: dict[str, Any]) -> Artifact:
        """Store a file that a call announces: exactly as many bytes as it says, and no more are read."""
        name = names.relative_path(str(call.get("path")))
        file = names.relative_path(str(call.get("file")))
        size = call.get("size")
        if not file.startswith("uploads/"):
            raise InvalidRequest(f"An upload comes from uploads/, not from {ascii(file)[:100]}.")
        if type(size) is not int or not 0 <= size <= LARGEST_UPLOAD:
            raise InvalidRequest(f"The upload of {ascii(name)[:100]} does not say how many bytes it has.")
        if not self._limits.has_room(on_disk(size)):
            raise StorageFull(f"{_FULL}: the upload of {ascii(name)[:100]} waits.", "windlass gc shows what may go.")
        if len(source.read(file, size, 1)) > 0:
            raise InvalidRequest(f"The upload of {ascii(name)[:100]} is not kept: it has more than {size} bytes.")
        digest, kept = self._store.blobs.put(self._guarded(source.chunks(file, 0, size)), None)
        if kept != size:
            raise InvalidRequest(f"The upload of {ascii(name)[:100]} is not kept: it has {kept} of {size} bytes.")
        return Artifact(name, digest, kept, datetime.now(UTC))

    def _guarded(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks; StorageFull before they would use the disk reserve, since other threads write too."""
        written = 0
        for chunk in chunks:
            if not self._limits.has_room(len(chunk), written):
                raise StorageFull(f"{_FULL}: a file of the run waits.", "windlass gc shows what may go.")
            written += len(chunk)
            yield chunk

    # files

    def _choose_small(self, source: AttemptFiles, files: Sequence[RunFile]) -> dict[str, RunFile]:
        """The files that are read many at a time. Logs are among them only if all of them are within the limits."""
        small = {file[0]: file for file in files if self._is_small(source, *file)}
        logs = {path: file for path, file in small.items() if is_log(path, source.watch)}
        total = sum(on_disk(size) for _, size, _ in logs.values())
        stored = self._log_bytes(source)
        if stored + total <= self._limits.run_bytes and self._limits.has_room(total, stored):
            source.budget.log_bytes = stored + total
            return small
        return {path: file for path, file in small.items() if path not in logs}

    def _is_small(self, source: AttemptFiles, path: str, size: int, digest: str | None) -> bool:
        """A small output, or a short log of which nothing is stored yet."""
        if digest is None or size > CHUNK:
            return False
        if is_log(path, source.watch):
            is_new = self._store.logs.size(source.run, source.attempt, record_name(path) or path) == 0
            return is_new and source.redactor_of(path) is None
        return path.startswith(OUTPUTS)

    def _fetch_small(self, source: AttemptFiles, files: Sequence[RunFile]) -> None:
        """Store small files many at a time: an fsync for each would take longer than to read them."""
        small = {digest: (path, 0, size) for path, size, digest in files if digest}
        missing = self._store.blobs.missing(small)
        for start in range(0, len(missing), FETCHED_AT_ONCE):
            pieces = [(digest, source.chunks(*small[digest])) for digest in missing[start : start + FETCHED_AT_ONCE]]
            with _skip_unreadable(source, "some outputs"):  # one was changed: they are stored one by one
                self._store.blobs.put_many(pieces)

    def _store_whole(
        self, source: AttemptFiles, path: str, name: str, digest: str | None, size: int | None = None
    ) -> Artifact:
        """Store a file, no further than its listed size."""
        blobs = self._store.blobs
        if digest is not None and not blobs.missing([digest]):
            return Artifact(name, digest, blobs.size(digest), datetime.now(UTC))
        stored, kept = blobs.put(self._guarded(source.chunks(path, 0, size)), None)
        return Artifact(name, stored, kept, datetime.now(UTC))

    def _store_output(self, source: AttemptFiles, path: str, name: str, digest: str | None, size: int) -> Artifact:
        """Store an output, if it has the digest and the size that its machine listed at the end of the run."""
        kept = self._store_whole(source, path, name, digest, size)
        if digest is not None and (kept.digest, kept.size) != (digest, size):
            raise NotAsListed(f"{ascii(name)[:100]} has other bytes than were listed.")
        return kept


@contextmanager
def _skip_unreadable(source: AttemptFiles, path: str) -> Iterator[None]:
    """Go on with the other files: a script may replace a log by a folder."""
    try:
        yield
    except InvalidRequest as e:
        log.warning("run=%s skipped %s, which cannot be read: %s", source.run, ascii(path)[:200], e.message)


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes} bytes"


def is_log(path: str, watch: Iterable[str]) -> bool:
    """Whether a file is read while it grows."""
    return (
        path.startswith(("user_logs/", "azureml-logs/"))
        or path == USAGE
        or any(path.startswith(f"source/{folder.strip('/')}/") for folder in watch)
    )


def record_name(path: str) -> str | None:
    """The name in the run's record of a file of the run folder; None if it is not part of the record."""
    if path.startswith("source/"):
        return path[len("source/") :]
    if path == USAGE:
        return "system_logs/usage.jsonl"
    return path if path.startswith(("user_logs/", "azureml-logs/")) else None


def parse_lines(data: bytes) -> Lines:
    """The JSON objects of whole lines. Other lines were not written by us, and are skipped."""
    lines = data.splitlines()
    values = _parse(b"[" + b",".join(lines) + b"]")  # three times as fast as line by line
    if not isinstance(values, list) or len(values) != len(lines):
        values = [_parse(line) for line in lines]
    return [value for value in values if isinstance(value, dict)]


def _parse(data: bytes) -> Any:
    try:
        return None if is_crowded(data) else json.loads(data)
    except (ValueError, RecursionError):
        return None
