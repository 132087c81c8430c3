"""Deletion of runs that have ended, with all their rows. What registered models have of them stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, bindparam, delete, select

from windlass.core.entities import Run
from windlass.core.errors import Conflict
from windlass.store.access.audit import AuditEntry, append
from windlass.store.db.schema import runs
from windlass.store.runs import attempt_cleanup
from windlass.store.runs.rows import RUN, find_run, run_of

_MOST_NAMED = 100  # ids of children in the audit entry

_DELETE = delete(runs).where(runs.c.pk == bindparam("of"), runs.c.queue_state.is_(None))


def delete_tree(
    connection: Connection, workspace: str, id: str, with_children: bool, by: str, check: Callable[[Run], None]
) -> list[str]:
    """Delete a run and its descendants; returns their ids, the run's own first. Conflict while one of them is active,
    or if there are children and they are not to be deleted. `check` raises an error to refuse one of them.
    """
    pk, run = find_run(connection, id, workspace, lock=True)
    below = _below(connection, id)
    if below and not with_children:
        raise Conflict(
            f"Run {id} has {len(below)} child {'run' if len(below) == 1 else 'runs'}.",
            "Delete it with its children, or delete these first.",
            {"children": len(below)},
        )
    for _, each in [(pk, run), *below]:
        check(each)
        if not each.is_final:
            raise Conflict(
                f"Run {each.id} is {each.status}: only runs that have ended can be deleted.", "Cancel it first."
            )
    for key in [key for key, _ in reversed(below)] + [pk]:
        remove(connection, key)
    children = [each.id for _, each in below]
    details = {"name": run.name, "experiment": run.experiment, "children": children[:_MOST_NAMED]}
    append(connection, AuditEntry(workspace, by, "run.delete", id, {**details, "count": 1 + len(below)}))
    return [id, *children]


def remove(connection: Connection, pk: int) -> bool:
    """Delete a run that has ended, with all rows that belong to it. What it left on machines is remembered, to be
    removed there.
    """
    attempt_cleanup.keep_of_deleted(connection, pk)
    return connection.execute(_DELETE, {"of": pk}).rowcount == 1


def _below(connection: Connection, id: str) -> Sequence[tuple[int, Run]]:
    """The descendants of a run, parents before their children."""
    tree = select(runs.c.id).where(runs.c.parent == id).cte("tree", recursive=True)
    tree = tree.union_all(select(runs.c.id).join(tree, runs.c.parent == tree.c.id))
    asked = select(runs.c.pk, *RUN).where(runs.c.id.in_(select(tree.c.id))).order_by(runs.c.pk)
    return [(row.pk, run_of(row)) for row in connection.execute(asked.with_for_update(of=runs))]
