"""Rerun: submit a run again from the snapshot and the specification that the server keeps, with changes. Shared by the
SDK and the command line.

Specifications are dictionaries here, as in request.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from windlass.client.exceptions import ResourceNotFound, UserErrorException
from windlass.client.runs.labels import RERUN_OF
from windlass.client.submit import request
from windlass.client.submit.snapshot import File, Snapshot
from windlass.core.codec import to_wire
from windlass.core.entities import RunSpec
from windlass.core.errors import SnapshotIncomplete

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.client.http.session import Session
    from windlass.client.submit.request import Body, ErrorContext, Progress

Spec = Dict[str, Any]

_OF_SOURCE = ("azureml.git.", "mlflow.source.git.")  # properties that describe the source folder
_ARCHIVED = "archived"  # tag of runs that earlier versions archived
_LOCAL = "local"
_PYTHON = "{python}"
_NUMBER = re.compile(r"-(\d|\.\d)")  # a word that begins like this is a value, not an option


class Rerun:
    """A run that is to be submitted again. Callers change `spec`, its specification, before plan() or send()."""

    def __init__(self, session: Session, root: str, view: Mapping[str, Any]) -> None:
        """`root` is the path of the workspace; `view` are the details of the run."""
        if not view.get("spec"):
            raise UserErrorException(
                f"Run {view['id']} was not submitted, so that it cannot be run again.",
                "It is an interactive run: its script ran where it was started. Start that again.",
            )
        self._session, self._root, self._view = session, root, view
        self._before: Spec = {**to_wire(RunSpec()), **view["spec"]}
        self.spec: Spec = {**self._before, "snapshot": view["snapshot"]}
        if (self.spec["definition"] or {}).get("target") == request.ONE_RUN_CLUSTER:
            self.spec["target"] = request.ONE_RUN_CLUSTER  # its cluster is gone; the new run gets one of its own

    # Changes.

    def replace_arguments(self, words: Sequence[str]) -> None:
        """Give the script these arguments, in place of all that it had."""
        own, _ = self._words()
        self._set_words(own, list(words))

    def set_arguments(self, values: Mapping[str, Optional[str]]) -> None:
        """Replace or add the value of single arguments: {"alpha": "0.2"} for --alpha. None adds an option alone."""
        if values:
            own, arguments = self._words()
            for name, value in values.items():
                arguments = with_argument(arguments, name, value)
            self._set_words(own, arguments)

    def move(self, target: str, python: Optional[str] = None) -> None:
        """Run on another target. An interpreter of this computer exists nowhere else: `python` is that of `local`."""
        environment, is_local = self.spec["environment"], target == _LOCAL
        has_moved = is_local != (self._before["target"] == _LOCAL)
        if has_moved and environment.get("interpreter") is not None and self.spec["container"] is None:
            path = (python or sys.executable) if is_local else "python3"
            self.spec["environment"] = {**environment, "interpreter": path}
        self.spec["target"] = target

    def _words(self) -> tuple[List[str], List[str]]:
        """The command of the run in two parts: what is executed, and its arguments."""
        if self.spec["script"] is not None:
            return [], list(self.spec["arguments"])
        words = list(self.spec["command"])
        if words[:2] == ["sh", "-c"]:
            raise UserErrorException(
                f"Run {self._view['id']} is a line for a shell, which has no arguments to replace.",
                "Submit the changed line: windlass submit -- sh -c '...'",
            )
        count = 3 if words[:2] == [_PYTHON, "-m"] else self._count_until_script(words)
        return words[:count], words[count:]

    def _count_until_script(self, words: Sequence[str]) -> int:
        """How many words of a command come before the arguments: those up to the first file of the source folder, or
        only the program.
        """
        paths = {file["path"] for file in self._manifest()} if self._view["snapshot"] else set()
        return 1 + next((i for i, word in enumerate(words) if os.path.normpath(word) in paths), 0)

    def _set_words(self, own: Sequence[str], arguments: List[str]) -> None:
        self.spec["command" if own else "arguments"] = [*own, *arguments]

    # Requests.

    def plan(self, body: Body, explain: ErrorContext = contextlib.nullcontext) -> dict[str, Any]:
        """What would be sent to the target: {"text", "target", "kind"}. Nothing is stored."""
        with self._explained(explain):
            return request.plan(self._session, self._root, body, None)

    def send(
        self,
        body: Body,
        files: Sequence[File] = (),
        explain: ErrorContext = contextlib.nullcontext,
        on_progress: Optional[Progress] = None,
    ) -> dict[str, Any]:
        """Create the run; returns its view. `files` are those that a changed environment needs."""
        with self._explained(explain):
            if not files:
                return request.send_known(self._session, self._root, body)
            taken = self._snapshot(files)
            body = {**body, "spec": {**body["spec"], "snapshot": None}}
            return request.send(self._session, self._root, body, taken, on_progress=on_progress)

    def body(
        self,
        experiment: Optional[str] = None,
        name: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        attended: bool = False,
    ) -> Body:
        """The request. The run keeps experiment, name and tags of the earlier one, but for those that are given."""
        view = self._view
        kept = {key: value for key, value in view["tags"].items() if key != _ARCHIVED}
        source = {key: value for key, value in view["properties"].items() if key.startswith(_OF_SOURCE)}
        return {
            "experiment": experiment or view["experiment"],
            "type": view["type"],
            "spec": described(spread(self.spec, self._before), self._before),
            "name": view["name"] if name is None else name,
            "tags": {**kept, **(tags or {})},
            "properties": {**source, RERUN_OF: view["id"]},
            "attended": attended,
        }

    def _snapshot(self, files: Sequence[File]) -> Snapshot:
        new = {file.path for file in files}
        kept = [
            File(each["path"], each["digest"], each["size"], each["executable"], "")
            for each in self._manifest()
            if each["path"] not in new
        ]
        return Snapshot("", [*kept, *files])

    def _manifest(self) -> List[dict[str, Any]]:
        found: List[dict[str, Any]] = self._session.call("GET", f"{self._root}/runs/{self._view['id']}/snapshot")[
            "files"
        ]
        return found

    @contextlib.contextmanager
    def _explained(self, explain: ErrorContext) -> Iterator[None]:
        try:
            with explain():
                yield
        except SnapshotIncomplete as e:
            raise ResourceNotFound(
                f"The source folder of run {self._view['id']} is not kept any more.",
                "Go to the folder, and submit it again: windlass submit. `windlass show` has the run's command.",
            ) from e


def with_argument(words: Sequence[str], name: str, value: Optional[str]) -> List[str]:
    """Arguments in which `--name` has this value: `--name VALUE`, `--name=VALUE` or `name=VALUE`, as it is there; else
    it is added at the end. A name that begins with a dash is taken as it is; - and _ in names are the same.
    """
    found = list(words)
    bare = name.lstrip("-")
    option = name if name != bare else f"-{name}" if len(name) == 1 else f"--{name}"
    if not bare or "=" in bare:
        raise UserErrorException(f"{name!r:.60} is not the name of an argument.", "alpha=0.2 sets --alpha to 0.2.")
    for i in reversed(range(len(found))):
        head, equals, _ = found[i].partition("=")
        if equals and _same(head, name, option, bare):
            found[i] = head if value is None else f"{head}={value}"
            return found
        if not equals and head.startswith("-") and _same(head, name, option):
            return _with_value_at(found, i, value)
    return [*found, option] if value is None else [*found, option, value]


def _same(head: str, *names: str) -> bool:
    return head.replace("_", "-") in [name.replace("_", "-") for name in names]


def _with_value_at(words: List[str], i: int, value: Optional[str]) -> List[str]:
    """Replace the value that follows the option at an index, if one does."""
    count = 0
    while i + 1 + count < len(words) and _is_value(words[i + 1 + count]):
        count += 1
    if value is None:
        return words
    if count > 1:
        several = " ".join(words[i : i + 1 + count])
        raise UserErrorException(
            f"{several[:100]}: it is not clear which of these is the value of {words[i]}.",
            "Give all arguments instead: windlass rerun RUN -- ARGUMENTS (in Python: run.rerun(arguments=[...])).",
        )
    return [*words[: i + 1], value, *words[i + 1 + count :]]


def _is_value(word: str) -> bool:
    return not word.startswith("-") or word == "-" or bool(_NUMBER.match(word))


def spread(spec: Spec, before: Spec) -> Spec:
    """The same run, with the processes of its distribution for its number of nodes, if that was changed."""
    found, nodes = spec["distribution"], spec["resources"].get("nodes") or 1
    earlier = before["resources"].get("nodes") or 1
    if found is None or found != before["distribution"] or nodes == earlier:
        return spec
    each = found.get("processes_per_node") or 1
    changed = dict(found)
    if found.get("process_count") is not None:
        changed["process_count"] = each * nodes
    if found["framework"] == "tensorflow" and found.get("workers") == each * earlier:
        changed["workers"] = each * nodes
    return {**spec, "distribution": changed}


def described(spec: Spec, before: Spec) -> Spec:
    """The same specification, whose `definition` (Azure's, for get_details()) follows the changes since `before`."""
    definition, facts, earlier = dict(spec["definition"] or {}), _facts(spec), _facts(before)
    if not definition:
        return spec
    definition.update({key: value for key, value in facts.items() if value != earlier[key]})
    if any(facts[key] != earlier[key] for key in ("script", "arguments", "command")):
        definition.pop("job", None)  # the job file has another command
    environment = definition.get("environment") or {}
    path = spec["environment"].get("interpreter")
    is_changed = path not in (None, before["environment"].get("interpreter"))
    if is_changed and "interpreterPath" in (environment.get("python") or {}):
        definition["environment"] = {**environment, "python": {**environment["python"], "interpreterPath": path}}
    if spec["distribution"] and (definition.get("pytorch") or {}).get("processCount") is not None:
        definition["pytorch"] = {**definition["pytorch"], "processCount": spec["distribution"]["process_count"]}
    return {**spec, "definition": definition}


def _facts(spec: Spec) -> Dict[str, Any]:
    """Fields of the definition that say the same as the specification."""
    return {
        "script": spec["script"],
        "arguments": list(spec["arguments"]),
        "command": " ".join(spec["command"]),
        "target": spec["target"],
        "maxRunDurationSeconds": spec["max_run_duration_seconds"],
        "nodeCount": spec["resources"].get("nodes") or 1,
        "priority": spec["priority"],
        "environmentVariables": spec["environment_variables"],
    }
