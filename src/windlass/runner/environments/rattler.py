"""Builds a conda environment with rattler: `python runner.pyz conda REQUEST`, on a Python that has py-rattler.

REQUEST is a file: {"prefix", "channels", "dependencies", "python": the requested version, "strict": whether nothing may
be replaced, "answer": a path}. Progress goes to stdout. The file `answer` gets {"replaced": {name: text}}, or
{"error": message} if the build fails.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from datetime import datetime, timezone
from typing import Any, Dict, List, NoReturn, Optional

from ..workdir.run_folder import read_json, write_json
from . import era
from .build_context import masked
from .requirements import is_sdk, name_of

# The channel if none is named. `defaults` is conda's name for several channels.
_CHANNEL = "conda-forge"
_DEFAULTS = ("main", "r")
_MAX_VERSIONS = 5
_ANY_PYTHON = "python>=%d.%d" % era.OLDEST
_REPORT_SECONDS = 5.0


class CannotBuild(Exception):
    """The build failed; the message is for the user."""


def main(path: str) -> NoReturn:
    """Build, and end the process with os._exit: rattler's threads may crash in the interpreter's shutdown."""
    code = _main(path)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _main(path: str) -> int:
    request = read_json(path)
    if request is None:
        print(f"There is no request in {path}.", file=sys.stderr)
        return 2
    # A third-party package; this program is only started on a Python that has it.
    rattler = importlib.import_module("rattler")
    solver = Solver(rattler, request)
    try:
        asyncio.run(solver.build())
        write_json(request["answer"], {"replaced": solver.replaced})
    except CannotBuild as e:
        _log(str(e))
        write_json(request["answer"], {"error": masked(str(e))})
        return 1
    return 0


class Solver:
    """Solves one request with rattler, and installs the result."""

    def __init__(self, rattler: Any, request: Dict[str, Any]) -> None:
        self._rattler = rattler
        self._errors = importlib.import_module("rattler.exceptions")
        self._request = request
        self._specs: List[str] = list(request["dependencies"])
        self.replaced: Dict[str, str] = {}
        self._python = ""  # the replacement, if Python was replaced
        self._channels = [self._channel(name) for name in self._channel_names()]
        self._platforms = [rattler.Subdir.current(), rattler.Subdir("noarch")]
        self._gateway = rattler.Gateway()

    async def build(self) -> None:
        names = ", ".join(channel.base_url for channel in self._channels)
        _log(f"Solving for {', '.join(self._specs)} with {names}")
        began = time.monotonic()
        records = [record for record in await self._solve() if not is_sdk(record.name.normalized)]
        size = sum(record.size or 0 for record in records)
        _log(f"{len(records)} packages, {size / 1e6:.1f} MB, found in {time.monotonic() - began:.1f} s")
        await self._install(records)

    async def _solve(self) -> List[Any]:
        is_strict = bool(self._request.get("strict"))
        if not is_strict:
            await self._replace_python()
        try:
            return await self._solve_by_date(self._specs, [], self._python)
        except self._errors.SolverError as e:
            found = None if is_strict else await self._solve_nearest()
            if found is None:
                raise CannotBuild(await self._explain(e) + (f"\n{era.STRICT}" if is_strict else "")) from e
            return found

    async def _solve_by_date(self, specs: List[str], pins: List[Any], used: str) -> List[Any]:
        """Solve; if something was replaced, with packages of that time as far as the channels have them."""
        wanted = self._request.get("python") if self._python else None
        dates = [era.Release(date=pin.timestamp.strftime("%Y-%m-%d")) for pin in pins if pin.timestamp]
        day = era.date_of(wanted, used, dates) if used else ""
        *dated, last = era.attempts(day, time.strftime("%Y-%m-%d"), has_replaced=False)
        for attempt in dated:
            try:
                records = await self._solve_specs(specs, used, attempt.until)
            except self._errors.SolverError:
                continue
            time_of = f"Python {wanted}" if wanted else ", ".join(spec for spec in specs if spec not in self._specs)
            pinned = {"python", *(name_of(spec) for spec in specs if era.conda_floor(spec))}
            if any(record.name.normalized not in pinned for record in records):
                self._report_replaced(era.date_limit(attempt.until, time_of))
            return records
        return await self._solve_specs(specs, self._python, last.until)

    async def _solve_nearest(self) -> Optional[List[Any]]:
        """Solve with the lowest releases above the pins that fit together on this Python; None if there are none."""
        floors = {spec: era.conda_floor(spec) for spec in self._specs[1:]}
        pins = [spec for spec in floors if floors[spec]]
        python = self._specs[0] if self._specs[0] != "python" else _ANY_PYTHON
        try:
            relaxed = [f"{name_of(pin)}>={floors[pin]}" for pin in pins]
            records = await self._solve_specs([python, *relaxed], self._python, strategy="lowest-direct")
            by_name = {record.name.normalized: record for record in records}
            instead = {
                pin: by_name[name_of(pin)] for pin in pins if not self._match_spec(pin).matches(by_name[name_of(pin)])
            }
            if not instead:
                return None
            used = str(by_name["python"].version)
            specs = [f"{name_of(w)}=={instead[w].version}" if w in instead else w for w in self._specs]
            found = await self._solve_by_date(specs, [by_name[name_of(pin)] for pin in pins], used)
        except self._errors.SolverError:
            return None
        for pin, record in instead.items():
            self._report_replaced(era.replaced_conda(pin, name_of(pin), str(record.version), used))
        return found

    async def _solve_specs(self, specs: List[str], used: str, until: str = "", strategy: str = "highest") -> List[Any]:
        """Call the solver. With `used`, the Python that the replacement is for, constraints for old code are added."""
        rattler = self._rattler
        # As conda does: the first channel is preferred, the others are used if it has no solution.
        priority = getattr(rattler.ChannelPriority, "Flexible", rattler.ChannelPriority.Strict)
        end = datetime.strptime(until, "%Y-%m-%d").replace(hour=23, minute=59, tzinfo=timezone.utc) if until else None
        named = [spec for spec in map(era.requirement_of, specs) if spec is not None]
        try:
            found: List[Any] = await rattler.solve(
                self._channels,
                [self._match_spec(spec) for spec in specs],
                gateway=self._gateway,
                platforms=self._platforms,
                virtual_packages=rattler.VirtualPackage.detect(),
                channel_priority=priority,
                exclude_newer=end,
                strategy=strategy,
                constraints=era.constraints(named, used) if used else None,
            )
        except self._errors.GatewayError as e:
            raise CannotBuild(f"A channel cannot be read: {e}") from e
        return found

    async def _install(self, records: List[Any]) -> None:
        progress = Progress(len(records))
        try:
            await self._rattler.install(
                records, target_prefix=self._request["prefix"], execute_link_scripts=True, reporter=progress
            )
        except self._errors.InstallerError as e:
            raise CannotBuild(f"The packages could not be installed: {e}") from e
        _log(f"Linked {len(records)} packages.")

    # ---- the request ----

    def _channel_names(self) -> List[str]:
        named = list(self._request.get("channels") or ())
        if not named:
            _log(f"No channels are named; {_CHANNEL} is used.")
        in_specs = [spec.split("::")[0].strip() for spec in self._specs if "::" in spec]
        names: List[str] = []
        for name in [*(named or [_CHANNEL]), *in_specs]:
            names += _DEFAULTS if name == "defaults" else () if name == "nodefaults" else (name,)
        return list(dict.fromkeys(names))

    def _channel(self, name: str) -> Any:
        try:
            return self._rattler.Channel(name)
        except self._errors.InvalidChannelError as e:
            raise CannotBuild(f"{name} is not a channel: {e}") from e

    def _match_spec(self, spec: str) -> Any:
        try:
            return self._rattler.MatchSpec(spec)
        except (self._errors.InvalidMatchSpecError, self._errors.InvalidPackageNameError) as e:
            raise CannotBuild(f"{spec!r} does not name a conda package: {e}") from e

    # ---- the channels ----

    async def _replace_python(self) -> None:
        """Replace a Python of past years by the nearest newer one if the channels or the SDK lack it."""
        wanted = self._request.get("python")
        if not wanted or not era.may_be_replaced(wanted):
            return
        if era.minor_of(wanted) >= era.OLDEST and await self._has(self._specs[0]):
            return
        minors = {era.minor_of(version) for version in await self._versions("python")}
        newer = [minor for minor in minors if minor >= era.minimum_python(wanted)]
        if newer:
            nearest = "%d.%d" % min(newer)
            self._specs[0], self._python = f"python={nearest}", nearest
            self._report_replaced(era.replaced_python(wanted, nearest, "in the channels"))

    def _report_replaced(self, replaced: Dict[str, str]) -> None:
        self.replaced.update(replaced)
        for text in replaced.values():
            _log(text)

    async def _explain(self, error: Exception) -> str:
        """The solver's message, and every spec that it did not find: its message has only the first."""
        lines = [f"The conda packages cannot be installed together: {str(error).strip()}"]
        for spec in self._specs:
            if not await self._has(spec):
                versions = await self._versions(name_of(spec))
                there = f"; there are {', '.join(versions[:_MAX_VERSIONS])}" if versions else ""
                lines.append(f"Not in the channels: {spec}{there}")
        return "\n".join(lines)

    async def _has(self, spec: str) -> bool:
        return bool(await self._records(spec))

    async def _versions(self, name: str) -> List[str]:
        """The versions in the channels, newest first."""
        found = {str(record.version): record.version for record in await self._records(name)}
        return sorted(found, key=lambda text: found[text], reverse=True)

    async def _records(self, spec: str) -> List[Any]:
        match_spec = self._match_spec(spec)
        try:
            pages = await self._gateway.query(self._channels, self._platforms, [match_spec], recursive=False)
        except self._errors.GatewayError as e:
            raise CannotBuild(f"A channel cannot be read: {e}") from e
        return [record for page in pages for record in page]


class Progress:
    """Progress callbacks, called by rattler from its own threads. Unknown callbacks are ignored."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._names: Dict[int, str] = {}
        self._done = 0
        self._report_at = time.monotonic() + _REPORT_SECONDS

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_download_completed(self, download_idx: int) -> None:
        _log(f"Downloaded {self._names.get(download_idx, 'a package')}")

    def on_link_complete(self, index: int) -> None:
        self._done += 1
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + _REPORT_SECONDS
            _log(f"Linked {self._done} of {self._total} packages")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *arguments: 0


def _log(text: str) -> None:
    print(masked(text), flush=True)
