"""Attach, create, detach and delete targets. Target, credentials and audit log change in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Run, Target
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.core.states import Reason, RunState, Step
from windlass.store.access import quotas, secrets
from windlass.store.access.audit import AuditEntry, append
from windlass.store.access.secrets import SealedCredential
from windlass.store.catalog import target_events
from windlass.store.catalog.targets import ALL, DELETING, SUCCEEDED, find
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import QueueState, attempts, deleted_attempts, former_targets, runs, targets, workspaces
from windlass.store.runs import events, transitions
from windlass.store.runs.rows import RUN, run_of

_PRICE_SETTINGS = ("vm_size", "vm_priority")
# Raises an error to refuse a change, given the workspace's targets before it and the quotas by family. Pure.
Check = Callable[[Sequence[Target], Mapping[str, int]], None]

_ACTIVE = (QueueState.WAITING, QueueState.DISPATCHED)
# A change is refused if one of these differs from what the caller has read.
_IDENTITY = ("kind", "config", "pin", "provisioning_state")


class Attachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, workspace: str, new: Target, credentials: Sequence[SealedCredential], check: Check | None = None
    ) -> Target:
        """Add a target; AlreadyExists if the name is taken. Of several concurrent requests one succeeds."""

        def transaction(connection: Connection) -> Target:
            _run_check(connection, workspace, check)
            _lock_dependencies(connection, workspace, new)
            connection.execute(insert(targets).values(workspace=workspace, **vars(new)))
            entries = _replace_credentials(connection, workspace, new, credentials)
            act = "target.attach" if new.is_attached else "target.create"
            append(connection, *entries, _audit_entry(workspace, new, act))
            kind, done = ("attached", "attached") if new.is_attached else ("created", "its creation was requested")
            target_events.append(connection, workspace, new.name, kind, f"{done} by {new.attached_by}")
            return find(connection, workspace, new.name)

        try:
            return self._database.write(transaction)
        except IntegrityError:
            self._database.read(lambda c: _raise_clash(c, workspace, new.name))
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
        """Replace a target. If it `moves` to another machine, it must have no active runs."""

        def transaction(connection: Connection) -> Target:
            _run_check(connection, workspace, check)
            _lock_unchanged(connection, workspace, known)
            if moves:
                _refuse_active_runs(connection, workspace, new.name, "attached anew elsewhere")
            _lock_dependencies(connection, workspace, new)
            _update(connection, workspace, new.name, vars(new))
            entries = _replace_credentials(connection, workspace, new, credentials)
            append(connection, *entries, _audit_entry(workspace, new, "target.replace"))
            text = f"attached anew by {new.attached_by}" if new.is_attached else f"requested anew by {new.attached_by}"
            target_events.append(connection, workspace, new.name, "replaced", text)
            return find(connection, workspace, new.name)

        return self._database.write(transaction)

    def change(
        self,
        workspace: str,
        known: Target,
        values: Mapping[str, Any],
        by: str,
        act: str,
        check: Check | None = None,
    ) -> Target:
        """Change columns of a target, unless it differs from `known`."""

        def transaction(connection: Connection) -> Target:
            _run_check(connection, workspace, check)
            _lock_unchanged(connection, workspace, known)
            _update(connection, workspace, known.name, values)
            append(connection, AuditEntry(workspace, by, act, known.name, _without_inventory(values)))
            kind, text = _change_event(known, values, by)
            target_events.append(connection, workspace, known.name, kind, text)
            return find(connection, workspace, known.name)

        return self._database.write(transaction)

    def remove(self, workspace: str, name: str, by: str, force: bool, where: str) -> list[Run]:
        """Delete a target and its credentials. Refused while it has active runs or other targets depend on it; with
        `force` the runs fail, and an event of each says what was left `where`. Returns these runs.
        """

        def transaction(connection: Connection) -> list[Run]:
            there = _lock(connection, workspace, name)
            if not force:
                _refuse_active_runs(connection, workspace, name, "detached")
                _refuse_depended_on(connection, workspace, name, "detached")
            left = [
                _abandon_run(connection, run, queue_state, where)
                for run, queue_state in _active_runs(connection, workspace, name)
            ]
            entries = _delete_target(connection, workspace, name, by)
            details = {"kind": there.kind, "left": [run.id for run in left]}
            append(connection, *entries, AuditEntry(workspace, by, "target.detach", name, details))
            lost = f"; runs that failed: {len(left)}" if left else ""
            target_events.append(connection, workspace, name, "detached", f"detached by {by}{lost}")
            return left

        return self._database.write(transaction)

    # Targets that are created and deleted

    def begin_deletion(self, workspace: str, name: str, by: str, force: bool, cancels: bool = False) -> list[Run]:
        """Mark a target as being deleted: it takes no more runs. Refused while it has active runs; with `force` they
        fail, or are canceled with `cancels`: then it is deleted when they have ended. Returns these runs. The row and
        the credentials stay until finish_deletion().
        """

        def transaction(connection: Connection) -> list[Run]:
            there = _lock(connection, workspace, name)
            if not force:
                _refuse_active_runs(connection, workspace, name, "deleted")
                _refuse_depended_on(connection, workspace, name, "deleted")
            live = _active_runs(connection, workspace, name)
            if cancels:
                ended = [transitions.request_cancel(connection, workspace, run.id) for run, _ in live]
            else:
                ended = [_fail_run(connection, run, queue_state, "deleted") for run, queue_state in live]
            _update(connection, workspace, name, {"provisioning_state": DELETING, "provisioning_message": ""})
            details = {"kind": there.kind, "runs": [run.id for run in ended]}
            append(connection, AuditEntry(workspace, by, "target.delete", name, details))
            lost = f"; runs that end: {len(ended)}" if ended else ""
            target_events.append(connection, workspace, name, "deleting", f"its deletion was requested by {by}{lost}")
            return ended

        return self._database.write(transaction)

    def finish_deletion(self, workspace: str, name: str, by: str) -> bool:
        """Delete the row and the credentials of a target that is being deleted. False while it still has runs."""

        def transaction(connection: Connection) -> bool:
            if _lock(connection, workspace, name).provisioning_state != DELETING:
                return True
            if _active_runs(connection, workspace, name):
                return False
            entries = _delete_target(connection, workspace, name, by)
            append(connection, *entries, AuditEntry(workspace, by, "target.deleted", name))
            target_events.append(connection, workspace, name, "deleted", "deleted, with all its nodes")
            return True

        return self._database.write(transaction)

    def provision(self, workspace: str, known: Target, state: str, message: str, by: str) -> bool:
        """Store the provisioning state of a target. False, without effect, if it differs from `known`.

        Changes of the state are in the audit log.
        """

        def transaction(connection: Connection) -> bool:
            there = _lock(connection, workspace, known.name)
            if (there.provisioning_state, there.config) != (known.provisioning_state, known.config):
                return False
            values: dict[str, Any] = {"provisioning_state": state, "provisioning_message": message}
            if state == SUCCEEDED:
                values["config_before"] = None
            _update(connection, workspace, known.name, values)
            text = f"{state}: {message}" if message else state
            target_events.append(connection, workspace, known.name, "provisioning", text)
            if state != known.provisioning_state:
                details = {"state": state, "message": message}
                append(connection, AuditEntry(workspace, by, "target.provision", known.name, details))
            return True

        return self._database.write(transaction)


def _run_check(connection: Connection, workspace: str, check: Check | None) -> None:
    """Run the check. Locks the workspace until the transaction ends, so that two changes do not exceed a quota
    together.
    """
    if check is None:
        return
    lock = select(workspaces.c.name).where(workspaces.c.name == workspace).with_for_update(key_share=True)
    connection.execute(lock)
    there = [Target(*row) for row in connection.execute(ALL.where(targets.c.workspace == workspace))]
    check(there, quotas.limits(connection, workspace))


def _audit_entry(workspace: str, target: Target, act: str) -> AuditEntry:
    details: dict[str, Any] = {"kind": target.kind, "config": target.config}
    if target.pin is not None:
        details |= {"pin": target.pin, "pin_confirmed": target.pin_confirmed}
    return AuditEntry(workspace, target.attached_by, act, target.name, details)


def _change_event(known: Target, values: Mapping[str, Any], by: str) -> tuple[str, str]:
    """Kind and message of the event for changed columns of a target."""
    if values.get("quarantine"):
        return "quarantined", str(values["quarantine"])
    if "pin" in values:
        compared = "compared by a person" if values.get("pin_confirmed") else "not compared"
        return "trusted", f"trusted by {by}: what it shows now is pinned, {compared}"
    before = {**known.config, "slots": known.slots}
    after = {**values.get("config", {}), **({"slots": values["slots"]} if "slots" in values else {})}
    changes = [
        f"{key}: {_short(before.get(key))} → {_short(value)}"
        for key, value in after.items()
        if before.get(key) != value
    ]
    return "changed", f"changed by {by}: {', '.join(changes) or 'nothing'}"


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _without_inventory(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "inventory"}


def _replace_credentials(
    connection: Connection, workspace: str, target: Target, credentials: Sequence[SealedCredential]
) -> list[AuditEntry]:
    """Replace the credentials of a target."""
    return secrets.replace_below(connection, workspace, f"target/{target.name}", credentials, target.attached_by)


def _delete_target(connection: Connection, workspace: str, name: str, by: str) -> list[AuditEntry]:
    """Delete the row and the credentials; returns the entries for the audit log. The price of its runs stays known."""
    config = find(connection, workspace, name).config
    price = {key: config[key] for key in _PRICE_SETTINGS if key in config}
    if price:
        former = {"workspace": workspace, "name": name, "config": price, "removed_at": now()}
        connection.execute(insert(former_targets).values(former))
    connection.execute(delete(targets).where(targets.c.workspace == workspace, targets.c.name == name))
    target_events.forget_removed(connection, workspace)
    _mark_attempts_cleaned(connection, workspace, name)
    return secrets.drop_below(connection, workspace, f"target/{name}", by)


def _lock_unchanged(connection: Connection, workspace: str, known: Target) -> None:
    there = _lock(connection, workspace, known.name)
    if any(getattr(there, name) != getattr(known, name) for name in _IDENTITY):
        raise Conflict(f"The target {known.name} was changed in this moment.", "Look at it, then try again.")


def _lock(connection: Connection, workspace: str, name: str) -> Target:
    """Lock the row of a target until the transaction ends; returns the target."""
    asked = select(targets.c.name).where(targets.c.workspace == workspace, targets.c.name == name).with_for_update()
    connection.execute(asked)
    return find(connection, workspace, name)


def _update(connection: Connection, workspace: str, name: str, values: Mapping[str, Any]) -> None:
    change = update(targets).where(targets.c.workspace == workspace, targets.c.name == name)
    connection.execute(change.values(dict(values)))


def _active_runs(connection: Connection, workspace: str, name: str) -> list[tuple[Run, int]]:
    asked = (
        select(runs.c.queue_state.label("queue_state"), *RUN)
        .where(runs.c.queue_state.in_(_ACTIVE), runs.c.workspace == workspace, runs.c.target == name)
        .order_by(runs.c.pk)
        .with_for_update()
    )
    return [(run_of(row), row.queue_state) for row in connection.execute(asked)]


def _refuse_active_runs(connection: Connection, workspace: str, name: str, what: str) -> None:
    here = (runs.c.queue_state.in_(_ACTIVE), runs.c.workspace == workspace, runs.c.target == name)
    count = connection.execute(select(func.count()).select_from(runs).where(*here)).scalar_one()
    if count:
        runs_go = "1 run goes on there or waits" if count == 1 else f"{count} runs go on there or wait"
        it = "it" if count == 1 else "them"
        raise Conflict(
            f"{runs_go} for it: {name} cannot be {what}.",
            f"windlass runs --target {name} --state active lists {it}; cancel {it}, or wait.",
            {"runs": count},
        )


def _lock_dependencies(connection: Connection, workspace: str, target: Target) -> None:
    """Lock the targets that this one depends on; NotFound if one does not exist."""
    for name in sorted(target.depends_on):
        _lock(connection, workspace, name)


def _refuse_depended_on(connection: Connection, workspace: str, name: str, what: str) -> None:
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


def _abandon_run(connection: Connection, run: Run, queue_state: int, where: str) -> Run:
    if queue_state == QueueState.DISPATCHED:
        message = f"left at {where}, with its folder: {run.target} was detached"
        events.append(connection, run.id, "left", message, {"where": where, "job": f"{run.id}.{run.attempt}"})
    return _fail_run(connection, run, queue_state, "detached")


def _fail_run(connection: Connection, run: Run, queue_state: int, what: str) -> Run:
    is_dispatched = queue_state == QueueState.DISPATCHED
    when = "while it was going on" if is_dispatched else "before it was started"
    reason = Reason.GAVE_UP if is_dispatched else Reason.REJECTED
    step = Step(RunState.FAILED, reason, f"its target {run.target} was {what} {when}")
    return transitions.advance(connection, run.id, run.state, step, None, None, {})


def _mark_attempts_cleaned(connection: Connection, workspace: str, name: str) -> None:
    """Mark all attempts as cleaned: no server can clean up on a removed target."""
    here = select(runs.c.pk).where(runs.c.workspace == workspace, runs.c.target == name)
    of_deleted = (deleted_attempts.c.workspace == workspace) & (deleted_attempts.c.target == name)
    connection.execute(delete(deleted_attempts).where(of_deleted))
    change = update(attempts).where(attempts.c.run.in_(here), attempts.c.cleaned_at.is_(None))
    connection.execute(change.values(cleaned_at=now()))


def _raise_clash(connection: Connection, workspace: str, name: str) -> None:
    try:
        find(connection, workspace, name)
    except NotFound:
        return
    raise AlreadyExists(
        f"There is a target {name} already.",
        "Choose another name, or attach it anew: windlass compute attach … --update",
    )
