"""Targets that people attach and detach: the target, what opens it and who did it change together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Run, Target
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.core.states import Reason, RunState, Step
from windlass.store import secrets, stories, transitions
from windlass.store.audit import Act, append
from windlass.store.columns import now
from windlass.store.database import Database
from windlass.store.rows import RUN, run_of
from windlass.store.schema import Place, attempts, runs, targets
from windlass.store.secrets import SealedCredential
from windlass.store.targets import find

_LIVE = (Place.WAITING, Place.DISPATCHED)


class Attachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, workspace: str, new: Target, credentials: Sequence[SealedCredential]) -> Target:
        """AlreadyExists if there is one of that name: of several who attach at once, one does."""

        def act(connection: Connection) -> Target:
            _hold_jump(connection, workspace, new)
            connection.execute(insert(targets).values(workspace=workspace, **vars(new)))
            told = _keep(connection, workspace, new, credentials)
            append(connection, *told, _told(workspace, new, "target.attach"))
            return find(connection, workspace, new.name)

        try:
            return self._database.write(act)
        except IntegrityError:
            self._database.read(lambda c: _explain_clash(c, workspace, new.name))
            raise Conflict(f"The credentials of {new.name} were changed in this moment.", "Try again.") from None

    def replace(
        self, workspace: str, known: Target, new: Target, credentials: Sequence[SealedCredential], moves: bool
    ) -> Target:
        """Put another in the place of a target. One that `moves` elsewhere must not leave runs behind."""

        def act(connection: Connection) -> Target:
            there = _lock(connection, workspace, new.name)
            if there.config != known.config or there.kind != known.kind:
                raise Conflict(f"The target {new.name} was changed in this moment.", "Look at it, then try again.")
            if moves:
                _refuse_live(connection, workspace, new.name, "attached anew elsewhere")
            _hold_jump(connection, workspace, new)
            _write(connection, workspace, new.name, vars(new))
            told = _keep(connection, workspace, new, credentials)
            append(connection, *told, _told(workspace, new, "target.replace"))
            return find(connection, workspace, new.name)

        return self._database.write(act)

    def change(self, workspace: str, known: Target, values: Mapping[str, Any], by: str, act: str) -> Target:
        """Change columns of a target that is still as it is known."""

        def write(connection: Connection) -> Target:
            there = _lock(connection, workspace, known.name)
            if (there.config, there.pin) != (known.config, known.pin):
                raise Conflict(f"The target {known.name} was changed in this moment.", "Look at it, then try again.")
            _write(connection, workspace, known.name, values)
            append(connection, Act(workspace, by, act, known.name, _shown(values)))
            return find(connection, workspace, known.name)

        return self._database.write(write)

    def remove(self, workspace: str, name: str, by: str, force: bool, where: str) -> list[Run]:
        """Forget a target and what opens it. Runs that go on there are in the way, and targets that are reached through
        it; with `force` the runs end here, and each one's story tells what was left `where`. Returns those.
        """

        def act(connection: Connection) -> list[Run]:
            there = _lock(connection, workspace, name)
            if not force:
                _refuse_live(connection, workspace, name, "detached")
                _refuse_behind(connection, workspace, name)
            left = [_leave(connection, run, place, where) for run, place in _live(connection, workspace, name)]
            connection.execute(delete(targets).where(targets.c.workspace == workspace, targets.c.name == name))
            _forget_folders(connection, workspace, name)
            told = secrets.drop_below(connection, workspace, f"target/{name}", by)
            details = {"kind": there.kind, "left": [run.id for run in left]}
            append(connection, *told, Act(workspace, by, "target.detach", name, details))
            return left

        return self._database.write(act)


def _told(workspace: str, target: Target, act: str) -> Act:
    return Act(workspace, target.attached_by, act, target.name, {"kind": target.kind, "config": target.config})


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "inventory"}


def _keep(connection: Connection, workspace: str, target: Target, credentials: Sequence[SealedCredential]) -> list[Act]:
    """What opens it now, and nothing that did before."""
    return secrets.replace_below(connection, workspace, f"target/{target.name}", credentials, target.attached_by)


def _lock(connection: Connection, workspace: str, name: str) -> Target:
    """The target, which nobody else changes until this is done."""
    asked = select(targets.c.name).where(targets.c.workspace == workspace, targets.c.name == name).with_for_update()
    connection.execute(asked)
    return find(connection, workspace, name)


def _write(connection: Connection, workspace: str, name: str, values: Mapping[str, Any]) -> None:
    change = update(targets).where(targets.c.workspace == workspace, targets.c.name == name)
    connection.execute(change.values(dict(values)))


def _live(connection: Connection, workspace: str, name: str) -> list[tuple[Run, int]]:
    asked = (
        select(runs.c.place, *RUN)
        .where(runs.c.place.in_(_LIVE), runs.c.workspace == workspace, runs.c.target == name)
        .order_by(runs.c.pk)
        .with_for_update()
    )
    return [(run_of(row), row.place) for row in connection.execute(asked)]


def _refuse_live(connection: Connection, workspace: str, name: str, what: str) -> None:
    here = (runs.c.place.in_(_LIVE), runs.c.workspace == workspace, runs.c.target == name)
    count = connection.execute(select(func.count()).select_from(runs).where(*here)).scalar_one()
    if count:
        runs_go = "1 run goes on there or waits" if count == 1 else f"{count} runs go on there or wait"
        it = "it" if count == 1 else "them"
        raise Conflict(
            f"{runs_go} for it: {name} cannot be {what}.",
            f"windlass runs --target {name} --state active lists {it}; cancel {it}, or wait.",
            {"runs": count},
        )


def _hold_jump(connection: Connection, workspace: str, target: Target) -> None:
    """The machine through which a target is reached must be there, and stay until this is done."""
    jump = target.config.get("jump")
    if jump is not None:
        _lock(connection, workspace, jump)


def _refuse_behind(connection: Connection, workspace: str, name: str) -> None:
    others = select(targets.c.name, targets.c.config).where(targets.c.workspace == workspace, targets.c.name != name)
    behind = sorted(row.name for row in connection.execute(others) if row.config.get("jump") == name)
    if behind:
        are = "is" if len(behind) == 1 else "are"
        raise Conflict(
            f"{', '.join(behind)} {are} reached through {name}: it cannot be detached.",
            "Detach them before it, or attach them anew without it: windlass compute attach … --update",
            {"targets": behind},
        )


def _leave(connection: Connection, run: Run, place: int, where: str) -> Run:
    if place == Place.DISPATCHED:
        message = f"left at {where}, with its folder: {run.target} was detached"
        stories.append(connection, run.id, "left", message, {"where": where, "job": f"{run.id}.{run.attempt}"})
        step = Step(RunState.FAILED, Reason.GAVE_UP, f"its target {run.target} was detached while it was going on")
    else:
        step = Step(RunState.FAILED, Reason.REJECTED, f"its target {run.target} was detached before it was started")
    return transitions.advance(connection, run.id, run.state, step, None, None, {})


def _forget_folders(connection: Connection, workspace: str, name: str) -> None:
    """Nobody can clean up there any more."""
    here = select(runs.c.pk).where(runs.c.workspace == workspace, runs.c.target == name)
    change = update(attempts).where(attempts.c.run.in_(here), attempts.c.cleaned_at.is_(None))
    connection.execute(change.values(cleaned_at=now()))


def _explain_clash(connection: Connection, workspace: str, name: str) -> None:
    try:
        find(connection, workspace, name)
    except NotFound:
        return
    raise AlreadyExists(
        f"There is a target {name} already.",
        "Choose another name, or attach it anew: windlass compute attach … --update",
    )
