"""Submit request: read the source folder, and send the run with its snapshot. Shared by the SDK and the command line.

Runs and specifications are dictionaries here, as the API takes them: the command line starts faster without the SDK's
classes.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, ContextManager

from windlass.client.exceptions import UserErrorException
from windlass.client.http import embedded_server
from windlass.client.submit import git_info, snapshot
from windlass.core.errors import SpecNotSupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from windlass.client.http.session import Session
    from windlass.client.submit.snapshot import File, Snapshot

    Body = dict[str, Any]
    Progress = Callable[[int, int], None]
    ErrorContext = Callable[[], ContextManager[Any]]

# The target that stands for a cluster of the run's own.
ONE_RUN_CLUSTER = "amlcompute"
_ATTEMPTS = 3
# The first request for a snapshot with more files has its digest only: the server may have its manifest.
_MANY_FILES = 200
# So few changed bytes are uploaded before the request: an upload in vain costs less than a request that is repeated.
_FEW_BYTES = 1 << 20


def read_source(
    folder: str, script: str | None, files: Sequence[File], check: Callable[[Snapshot], None] | None = None
) -> tuple[Snapshot, dict[str, str]]:
    """Take the snapshot of a source folder, which has to contain `script`, and add `files` to it. Returns it with what
    git knows about the folder, as properties of the run. `check` is called with the snapshot while git runs.
    """
    repository = git_info.find(folder)
    changes = git_info.DirtyCheck(repository) if repository is not None else None
    taken = snapshot.take(folder, embedded_server.home())
    if script and script not in taken:
        raise UserErrorException(
            f"The script {script} is not part of the snapshot of {taken.folder}.",
            "Its ignore file (.amlignore, else .gitignore) leaves it out, or it is a link out of the folder.",
        )
    taken.add(files)
    if check is not None:
        check(taken)
    if repository is None or changes is None:
        return taken, {}
    return taken, git_info.properties(repository, changes.result())


def plan(
    session: Session, root: str, body: Body, taken: Snapshot | None, explain: ErrorContext = contextlib.nullcontext
) -> dict[str, Any]:
    """What would be sent to the target: {"text", "target", "kind"}. Nothing is stored. `root` is the path of the
    workspace; errors of the request pass through the context of `explain`. Without `taken` the spec names a snapshot.
    """
    if body["spec"]["target"] == ONE_RUN_CLUSTER:
        from windlass.client.submit.run_cluster import RunCluster, new_run_id, no_plan

        RunCluster(body["spec"], new_run_id(body["experiment"]))  # an error in its description comes first
        raise no_plan()
    with explain():
        files = {} if taken is None else {"files": taken.manifest()}
        found: dict[str, Any] = session.call("POST", f"{root}/plan", {**body, **files})
    return found


def send(
    session: Session,
    root: str,
    body: Body,
    taken: Snapshot,
    explain: ErrorContext = contextlib.nullcontext,
    on_progress: Progress | None = None,
    saves_requests: bool = False,
) -> dict[str, Any]:
    """Create the run; returns its view. Files that the server misses are uploaded, and the request is repeated with the
    same idempotency key. A run on a cluster of its own creates that first.

    `saves_requests`: upload few changed bytes before the request, and send the digest of a large manifest in its place.
    """
    with _on_cluster(session, root, body) as described:
        first, changed = None, taken.changed
        if saves_requests and changed and sum(file.size for file in changed) <= _FEW_BYTES:
            snapshot.upload(session, root, taken, [file.digest for file in changed], on_progress)
        elif saves_requests and len(taken.files) > _MANY_FILES:
            first = {**described, "spec": {**described["spec"], "snapshot": taken.digest()}}
        whole, key = {**described, "files": taken.manifest()}, os.urandom(16).hex()
        with explain():
            view: dict[str, Any] = snapshot.post_with_files(
                session, root, "runs", whole, taken, key, on_progress, first
            )
    return view


def send_known(session: Session, root: str, body: Body) -> dict[str, Any]:
    """Create a run from a snapshot that the server keeps, which the spec names; returns its view."""
    with _on_cluster(session, root, body) as described:
        view: dict[str, Any] = session.call("POST", f"{root}/runs", described, key=os.urandom(16).hex())
    return view


@contextlib.contextmanager
def _on_cluster(session: Session, root: str, body: Body) -> Iterator[Body]:
    """The body, with the name of the new cluster if the run has one of its own; that is deleted if the block raises."""
    if body["spec"]["target"] != ONE_RUN_CLUSTER:
        yield body
        return
    from windlass.client.submit.run_cluster import RunCluster, new_run_id

    run_id = body.get("run_id") or new_run_id(body["experiment"])
    cluster = RunCluster(body["spec"], run_id)
    with cluster.created(lambda method, path, asked: session.call(method, root + path, asked)):
        yield {**body, "run_id": run_id, "spec": {**body["spec"], "target": cluster.name}}


def retry_if_changed(submit: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call `submit`, which reads the source folder and sends it; again if a file is changed between the two."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(snapshot.SourceChanged):
            return submit()
    return submit()


@contextlib.contextmanager
def locating_node_count(path: str | None, nodes: int | None, known: str = "") -> Iterator[None]:
    """If the target refuses the number of nodes that a file asks for, add file and line to the error: `known`, or that
    of the key in the run configuration at `path`.
    """
    try:
        yield
    except SpecNotSupported as e:
        if nodes and "node" in e.message and (path or known):
            from windlass.client.config import yaml

            place = known or yaml.place_of(path, "node_count", nodes)
            if place and not e.message.startswith(place):
                e.message = f"{place}: {e.message}"
        raise
