"""Builds a conda environment with rattler: `python runner.pyz conda ORDER`, on a Python that has it.

ORDER is a file: {"prefix", "channels", "dependencies", "python": what is wanted of it, "strict": whether nothing may be
replaced, "answer": a path}. What happens is told on stdout. The file `answer` gets {"replaced": {name: text}}, or if it
cannot be done, {"error": why}.
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

# Where nothing is said. `defaults` is conda's name for several channels.
_CHANNEL = "conda-forge"
_DEFAULTS = ("main", "r")
_MOST_VERSIONS = 5
_ANY_PYTHON = "python>=%d.%d" % era.OLDEST
_TELL_SECONDS = 5.0


class CannotBuild(Exception):
    """The message says why."""


def main(path: str) -> NoReturn:
    """Ends the process, and without taking Python apart: the threads of rattler do not always survive that."""
    code = _main(path)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _main(path: str) -> int:
    order = read_json(path)
    if order is None:
        print(f"There is no order in {path}.", file=sys.stderr)
        return 2
    # Not part of Python: this module is only imported where it is there.
    rattler = importlib.import_module("rattler")
    solving = Solving(rattler, order)
    try:
        asyncio.run(solving.build())
        write_json(order["answer"], {"replaced": solving.replaced})
    except CannotBuild as e:
        _say(str(e))
        write_json(order["answer"], {"error": masked(str(e))})
        return 1
    return 0


class Solving:
    def __init__(self, rattler: Any, order: Dict[str, Any]) -> None:
        self._rattler = rattler
        self._errors = importlib.import_module("rattler.exceptions")
        self._order = order
        self._wishes: List[str] = list(order["dependencies"])
        self.replaced: Dict[str, str] = {}
        self._python = ""  # the one that was replaced with
        self._channels = [self._channel(name) for name in self._channel_names()]
        self._platforms = [rattler.Subdir.current(), rattler.Subdir("noarch")]
        self._gateway = rattler.Gateway()

    async def build(self) -> None:
        names = ", ".join(channel.base_url for channel in self._channels)
        _say(f"Solving for {', '.join(self._wishes)} with {names}")
        began = time.monotonic()
        records = [record for record in await self._solve() if not is_sdk(record.name.normalized)]
        size = sum(record.size or 0 for record in records)
        _say(f"{len(records)} packages, {size / 1e6:.1f} MB, found in {time.monotonic() - began:.1f} s")
        await self._install(records)

    async def _solve(self) -> List[Any]:
        is_strict = bool(self._order.get("strict"))
        if not is_strict:
            await self._replace_python()
        try:
            return await self._ask_of_the_time(self._wishes, [], self._python)
        except self._errors.SolverError as e:
            found = None if is_strict else await self._ask_nearest()
            if found is None:
                raise CannotBuild(await self._explain(e) + (f"\n{era.STRICT}" if is_strict else "")) from e
            return found

    async def _ask_of_the_time(self, wishes: List[str], pins: List[Any], used: str) -> List[Any]:
        """Where something was replaced: the packages of the time, as far as the channels have them."""
        wanted = self._order.get("python") if self._python else None
        dates = [era.Release(date=pin.timestamp.strftime("%Y-%m-%d")) for pin in pins if pin.timestamp]
        day = era.date_of(wanted, used, dates) if used else ""
        *dated, last = era.attempts(day, time.strftime("%Y-%m-%d"), has_replaced=False)
        for attempt in dated:
            try:
                records = await self._ask(wishes, used, attempt.until)
            except self._errors.SolverError:
                continue
            whose = f"Python {wanted}" if wanted else ", ".join(wish for wish in wishes if wish not in self._wishes)
            pinned = {"python", *(name_of(wish) for wish in wishes if era.conda_floor(wish))}
            if any(record.name.normalized not in pinned for record in records):
                self._tell(era.told_date(attempt.until, whose))
            return records
        return await self._ask(wishes, self._python, last.until)

    async def _ask_nearest(self) -> Optional[List[Any]]:
        """With the lowest releases from the pins on that go together on this Python; None if there are none."""
        floors = {wish: era.conda_floor(wish) for wish in self._wishes[1:]}
        pins = [wish for wish in floors if floors[wish]]
        python = self._wishes[0] if self._wishes[0] != "python" else _ANY_PYTHON
        try:
            relaxed = [f"{name_of(pin)}>={floors[pin]}" for pin in pins]
            records = await self._ask([python, *relaxed], self._python, strategy="lowest-direct")
            by_name = {record.name.normalized: record for record in records}
            instead = {pin: by_name[name_of(pin)] for pin in pins if not self._spec(pin).matches(by_name[name_of(pin)])}
            if not instead:
                return None
            used = str(by_name["python"].version)
            wishes = [f"{name_of(w)}=={instead[w].version}" if w in instead else w for w in self._wishes]
            found = await self._ask_of_the_time(wishes, [by_name[name_of(pin)] for pin in pins], used)
        except self._errors.SolverError:
            return None
        for pin, record in instead.items():
            self._tell(era.replaced_conda(pin, name_of(pin), str(record.version), used))
        return found

    async def _ask(self, wishes: List[str], used: str, until: str = "", strategy: str = "highest") -> List[Any]:
        """Solve for these. With `used`, the Python that something was replaced for, old code is thought of."""
        rattler = self._rattler
        # As conda does it: a channel that stands first is preferred, the others are there where it has no answer.
        priority = getattr(rattler.ChannelPriority, "Flexible", rattler.ChannelPriority.Strict)
        end = datetime.strptime(until, "%Y-%m-%d").replace(hour=23, minute=59, tzinfo=timezone.utc) if until else None
        named = [wish for wish in map(era.requirement_of, wishes) if wish is not None]
        try:
            found: List[Any] = await rattler.solve(
                self._channels,
                [self._spec(wish) for wish in wishes],
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
                records, target_prefix=self._order["prefix"], execute_link_scripts=True, reporter=progress
            )
        except self._errors.InstallerError as e:
            raise CannotBuild(f"The packages could not be installed: {e}") from e
        _say(f"Linked {len(records)} packages.")

    # ---- what is wished for ----

    def _channel_names(self) -> List[str]:
        named = list(self._order.get("channels") or ())
        if not named:
            _say(f"No channels are named; {_CHANNEL} is used.")
        beside = [wish.split("::")[0].strip() for wish in self._wishes if "::" in wish]
        names: List[str] = []
        for name in [*(named or [_CHANNEL]), *beside]:
            names += _DEFAULTS if name == "defaults" else () if name == "nodefaults" else (name,)
        return list(dict.fromkeys(names))

    def _channel(self, name: str) -> Any:
        try:
            return self._rattler.Channel(name)
        except self._errors.InvalidChannelError as e:
            raise CannotBuild(f"{name} is not a channel: {e}") from e

    def _spec(self, wish: str) -> Any:
        try:
            return self._rattler.MatchSpec(wish)
        except (self._errors.InvalidMatchSpecError, self._errors.InvalidPackageNameError) as e:
            raise CannotBuild(f"{wish!r} does not name a conda package: {e}") from e

    # ---- what is there ----

    async def _replace_python(self) -> None:
        """Where the channels lack a Python of past years, or the SDK does not run on it: the nearest newer one."""
        wanted = self._order.get("python")
        if not wanted or not era.gives_way(wanted):
            return
        if era.minor_of(wanted) >= era.OLDEST and await self._has(self._wishes[0]):
            return
        minors = {era.minor_of(version) for version in await self._versions("python")}
        newer = [minor for minor in minors if minor >= era.least_python(wanted)]
        if newer:
            nearest = "%d.%d" % min(newer)
            self._wishes[0], self._python = f"python={nearest}", nearest
            self._tell(era.replaced_python(wanted, nearest, "in the channels"))

    def _tell(self, replaced: Dict[str, str]) -> None:
        self.replaced.update(replaced)
        for text in replaced.values():
            _say(text)

    async def _explain(self, error: Exception) -> str:
        """The solver's own words, and all that it did not find: it names only the first."""
        lines = [f"The conda packages cannot be installed together: {str(error).strip()}"]
        for wish in self._wishes:
            if not await self._has(wish):
                versions = await self._versions(name_of(wish))
                there = f"; there are {', '.join(versions[:_MOST_VERSIONS])}" if versions else ""
                lines.append(f"Not in the channels: {wish}{there}")
        return "\n".join(lines)

    async def _has(self, wish: str) -> bool:
        return bool(await self._records(wish))

    async def _versions(self, name: str) -> List[str]:
        """The newest first."""
        found = {str(record.version): record.version for record in await self._records(name)}
        return sorted(found, key=lambda text: found[text], reverse=True)

    async def _records(self, wish: str) -> List[Any]:
        spec = self._spec(wish)
        try:
            pages = await self._gateway.query(self._channels, self._platforms, [spec], recursive=False)
        except self._errors.GatewayError as e:
            raise CannotBuild(f"A channel cannot be read: {e}") from e
        return [record for page in pages for record in page]


class Progress:
    """Told by rattler, from threads of its own. What it tells beside is left unheard."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._names: Dict[int, str] = {}
        self._done = 0
        self._tell_at = time.monotonic() + _TELL_SECONDS

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_download_completed(self, download_idx: int) -> None:
        _say(f"Downloaded {self._names.get(download_idx, 'a package')}")

    def on_link_complete(self, index: int) -> None:
        self._done += 1
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_SECONDS
            _say(f"Linked {self._done} of {self._total} packages")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *arguments: 0


def _say(text: str) -> None:
    print(masked(text), flush=True)
