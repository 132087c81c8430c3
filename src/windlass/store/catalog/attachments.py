"""Targets that people attach, create, detach and delete: the target, its credentials and the audit change together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Run, Target
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.core.states import Reason, RunState, Step
from windlass.store.access import quotas, secrets
from windlass.store.access.audit import Act, append
from windlass.store.access.secrets import SealedCredential
from windlass.store.catalog.targets import ALL, DELETING, SUCCEEDED, find
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import Place, attempts, former_targets, runs, targets, workspaces
from windlass.store.runs import events, transitions
from windlass.store.runs.rows import RUN, run_of

_OF_PRICE = ("vm_size", "vm_priority")
# Refuses a change by an error, from the targets of the workspace before it and the quotas by family. Pure.
Check = Callable[[Sequence[Target], Mapping[str, int]], None]

_LIVE = (Place.WAITING, Place.DISPATCHED)
_IDENTITY = ("kind", "config", "pin", "provisioning_state")  # a change that was decided upon one of these is void


class Attachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, workspace: str, new: Target, credentials: Sequence[SealedCredential], check: Check | None = None
    ) -> Target:
        """AlreadyExists if there is one of that name: of several requests at once, one succeeds."""

        def act(connection: Connection) -> Target:
            _apply(connection, workspace, check)
            _hold_needed(connection, workspace, new)
            connection.execute(insert(targets).values(workspace=workspace, **vars(new)))
            acts = _keep(connection, workspace, new, credentials)
            append(connection, *acts, _act(workspace, new, "target.attach" if new.is_attached else "target.create"))
            return find(connection, workspace, new.name)

        try:
            return self._database.write(act)
        except IntegrityError:
            self._database.read(lambda c: _explain_clash(c, workspace, new.name))
            raise Conflict(f"The credentials of {new.name} were changed in this moment.", "Try again.") from None

    def replace(
        self,
        workspace: str,
        known: Target,
        new: Target,
        credentials: Sequence[SealedCredential],
        moves: bool,
        check: Check | None = None,
    ) -> Target:
        """Put another in the place of a target. One that `moves` elsewhere must not leave runs behind."""

        def act(connection: Connection) -> Target:
            _apply(connection, workspace, check)
            _lock_unchanged(connection, workspace, known)
            if moves:
                _refuse_live(connection, workspace, new.name, "attached anew elsewhere")
            _hold_needed(connection, workspace, new)
            _write(connection, workspace, new.name, vars(new))
            acts = _keep(connection, workspace, new, credentials)
            append(connection, *acts, _act(workspace, new, "target.replace"))
            return find(connection, workspace, new.name)

        return self._database.write(act)

    def change(
        self,
        workspace: str,
        known: Target,
        values: Mapping[str, Any],
        by: str,
        act: str,
        check: Check | None = None,
    ) -> Target:
        """Change columns of a target that is still as it is known."""

        def write(connection: Connection) -> Target:
            _apply(connection, workspace, check)
            _lock_unchanged(connection, workspace, known)
            _write(connection, workspace, known.name, values)
            append(connection, Act(workspace, by, act, known.name, _shown(values)))
            return find(connection, workspace, known.name)

        return self._database.write(write)

    def remove(self, workspace: str, name: str, by: str, force: bool, where: str) -> list[Run]:
        """Forget a target and its credentials. Refused while runs go on there or other targets depend on it; with
        `force` the runs end here, and an event of each says what was left `where`. Returns those runs.
        """

        def act(connection: Connection) -> list[Run]:
            there = _lock(connection, workspace, name)
            if not force:
                _refuse_live(connection, workspace, name, "detached")
                _refuse_needed(connection, workspace, name, "detached")
            left = [_leave(connection, run, place, where) for run, place in _live(connection, workspace, name)]
            acts = _drop(connection, workspace, name, by)
            details = {"kind": there.kind, "left": [run.id for run in left]}
            append(connection, *acts, Act(workspace, by, "target.detach", name, details))
            return left

        return self._database.write(act)

    # Targets that are created and deleted

    def begin_deletion(self, workspace: str, name: str, by: str, force: bool, cancels: bool = False) -> list[Run]:
        """From now on the target is being deleted, and takes no runs. Those that it has are in the way; with `force`
        they fail, or are canceled: then it is deleted when they have ended. Returns those. The row and the credentials
        stay until finish_deletion().
        """

        def act(connection: Connection) -> list[Run]:
            there = _lock(connection, workspace, name)
            if not force:
                _refuse_live(connection, workspace, name, "deleted")
                _refuse_needed(connection, workspace, name, "deleted")
            live = _live(connection, workspace, name)
            if cancels:
                ended = [transitions.request_cancel(connection, workspace, run.id) for run, _ in live]
            else:
                ended = [_fail(connection, run, place, "deleted") for run, place in live]
            _write(connection, workspace, name, {"provisioning_state": DELETING, "provisioning_message": ""})
            details = {"kind": there.kind, "runs": [run.id for run in ended]}
            append(connection, Act(workspace, by, "target.delete", name, details))
            return ended

        return self._database.write(act)

    def finish_deletion(self, workspace: str, name: str, by: str) -> bool:
        """Forget a target that is deleted, and its credentials. False while it still has runs."""

        def act(connection: Connection) -> bool:
            if _lock(connection, workspace, name).provisioning_state != DELETING:
                return True
            if _live(connection, workspace, name):
                return False
            acts = _drop(connection, workspace, name, by)
            append(connection, *acts, Act(workspace, by, "target.deleted", name))
            return True

        return self._database.write(act)

    def provision(self, workspace: str, known: Target, state: str, message: str, by: str) -> bool:
        """Note how far a target is. False if it is in another state than it is known to be: nothing is changed then.

        The audit has the changes of the state.
        """

        def act(connection: Connection) -> bool:
            there = _lock(connection, workspace, known.name)
            if (there.provisioning_state, there.config) != (known.provisioning_state, known.config):
                return False
            values: dict[str, Any] = {"provisioning_state": state, "provisioning_message": message}
            if state == SUCCEEDED:
                values["config_before"] = None
            _write(connection, workspace, known.name, values)
            if state != known.provisioning_state:
                details = {"state": state, "message": message}
                append(connection, Act(workspace, by, "target.provision", known.name, details))
            return True

        return self._database.write(act)


def _apply(connection: Connection, workspace: str, check: Check | None) -> None:
    """Other changes that are checked wait until the transaction ends, so that two do not pass a quota together."""
    if check is None:
        return
    lock = select(workspaces.c.name).where(workspaces.c.name == workspace).with_for_update(key_share=True)
    connection.execute(lock)
    there = [Target(*row) for row in connection.execute(ALL.where(targets.c.workspace == workspace))]
    check(there, quotas.limits(connection, workspace))


def _act(workspace: str, target: Target, act: str) -> Act:
    details: dict[str, Any] = {"kind": target.kind, "config": target.config}
    if target.pin is not None:
        details |= {"pin": target.pin, "pin_confirmed": target.pin_confirmed}
    return Act(workspace, target.attached_by, act, target.name, details)


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "inventory"}


def _keep(connection: Connection, workspace: str, target: Target, credentials: Sequence[SealedCredential]) -> list[Act]:
    """Keep the new credentials, and none of those before."""
    return secrets.replace_below(connection, workspace, f"target/{target.name}", credentials, target.attached_by)


def _drop(connection: Connection, workspace: str, name: str, by: str) -> list[Act]:
    """Remove the row and the credentials; returns the acts for the audit. What tells the price of its runs is kept."""
    config = find(connection, workspace, name).config
    price = {key: config[key] for key in _OF_PRICE if key in config}
    if price:
        former = {"workspace": workspace, "name": name, "config": price, "removed_at": now()}
        connection.execute(insert(former_targets).values(former))
    connection.execute(delete(targets).where(targets.c.workspace == workspace, targets.c.name == name))
    _forget_folders(connection, workspace, name)
    return secrets.drop_below(connection, workspace, f"target/{name}", by)


def _lock_unchanged(connection: Connection, workspace: str, known: Target) -> None:
    there = _lock(connection, workspace, known.name)
    if any(getattr(there, name) != getattr(known, name) for name in _IDENTITY):
        raise Conflict(f"The target {known.name} was changed in this moment.", "Look at it, then try again.")


def _lock(connection: Connection, workspace: str, name: str) -> Target:
    """The target, whose row is locked until the transaction ends."""
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


def _hold_needed(connection: Connection, workspace: str, target: Target) -> None:
    """The targets that this one depends on must be there, and stay until the transaction ends."""
    for name in sorted(target.depends_on):
        _lock(connection, workspace, name)


def _refuse_needed(connection: Connection, workspace: str, name: str, what: str) -> None:
    others = select(targets.c.name, targets.c.depends_on).where(
        targets.c.workspace == workspace, targets.c.name != name
    )
    needing = sorted(row.name for row in connection.execute(others) if name in row.depends_on)
    if needing:
        depend = "depends" if len(needing) == 1 else "depend"
        raise Conflict(
            f"{', '.join(needing)} {depend} on {name}: it cannot be {what}.",
            "Detach them before it, or attach them anew without it: windlass compute attach … --update",
            {"targets": needing},
        )


def _leave(connection: Connection, run: Run, place: int, where: str) -> Run:
    if place == Place.DISPATCHED:
        message = f"left at {where}, with its folder: {run.target} was detached"
        events.append(connection, run.id, "left", message, {"where": where, "job": f"{run.id}.{run.attempt}"})
    return _fail(connection, run, place, "detached")


def _fail(connection: Connection, run: Run, place: int, what: str) -> Run:
    is_there = place == Place.DISPATCHED
    when = "while it was going on" if is_there else "before it was started"
    reason = Reason.GAVE_UP if is_there else Reason.REJECTED
    step = Step(RunState.FAILED, reason, f"its target {run.target} was {what} {when}")
    return transitions.advance(connection, run.id, run.state, step, None, None, {})


def _forget_folders(connection: Connection, workspace: str, name: str) -> None:
    """No server can clean up there any more."""
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
