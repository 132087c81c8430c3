"""What a submit asks of the server: the run, and the folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.parameters import key_values
from windlass.cli.submit import run_configuration
from windlass.cli.submit import script as scripts
from windlass.cli.submit.environment import environment, refuse_both
from windlass.cli.submit.resources import definition_of, distribution, resources
from windlass.client.http import embedded_server
from windlass.client.submit import git_info, snapshot
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound, SnapshotIncomplete
from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from windlass.cli.context import Call
    from windlass.cli.submit.run_configuration import Configured
    from windlass.cli.submit.script import Script

_TRIES = 3
_FOR_ONE_RUN = "amlcompute"  # the target that stands for a cluster of the run's own
# What says the same as --environment in another way.
_INSTEAD = ("--pip", "--env-file", "--image", "--python")


class Request:
    """Checks everything that can be checked here before anything is sent.

    It says the same as the SDK's Submission, in JSON from the start: importing the classes in between would cost more
    than the rest of a submit.
    """

    def __init__(self, call: Call, values: dict[str, Any]) -> None:
        self._call = call
        self._named = values["target"], values["environment"]
        refuse_both(values, _INSTEAD)
        self._builds = True
        self._file: str | None = None
        self._script, arguments = scripts.choose(values)
        values = {**values, "arguments": arguments}
        _refuse_undecodable([*values["arguments"], *values["variables"], *values["tags"], values["name"]])
        self._body = self._describe(values)

    def _describe(self, values: dict[str, Any]) -> dict[str, Any]:
        named = values["target"], self._script, values["arguments"]
        configured = run_configuration.find(self._call, *named, values.get("instead"), values["environment"])
        self._script = self._script if configured is None else configured.script
        if (
            not self._script.path
            and not self._script.command
            and (configured is None or not configured.spec["command"])
        ):
            raise scripts.missing()
        values = {**values, "target": values["target"] or "local"}
        spec = self._plain(values) if configured is None else self._overlaid(configured, values)
        if values["strict_environment"]:
            spec = _held_to(spec)
        return {
            "experiment": values["experiment"] or scripts.experiment_name(self._script.folder),
            "spec": spec,
            "name": values["name"],
            "tags": key_values.parse(values["tags"], "--tag"),
            "attended": not values["detach"],
        }

    def _plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """What the command line alone says."""
        # In a container, the interpreter of this machine is not there.
        told = environment({**values, "target": values["target"] if not values["image"] else ""})
        self._files = told.files
        spec = {
            **_work(self._script, values["arguments"]),
            "target": values["target"],
            "environment": told.spec,
            "environment_variables": key_values.variables(values["variables"]),
            "secrets": list(dict.fromkeys(values["secrets"])),
            "max_run_duration_seconds": values["timeout"],
            "priority": values["priority"] or 0,
            **_retries(values, {}),
            "resources": resources(values),
            "distribution": distribution(values, values["nodes"]),
        }
        spec["definition"] = _definition(spec, told.definition)
        return _contained(spec, values["image"])

    def _overlaid(self, configured: Configured, values: dict[str, Any]) -> dict[str, Any]:
        """What a run configuration says, as far as the command line does not say otherwise."""
        spec = {**configured.spec}
        self._files, self._builds, self._file = configured.files, configured.builds, configured.file
        spec["secrets"] = list(dict.fromkeys([*spec["secrets"], *values["secrets"]]))
        for option, key in (("timeout", "max_run_duration_seconds"), ("priority", "priority")):
            if values[option] is not None:
                spec[key] = values[option]
        spec |= _retries(values, spec.get("retries") or {})
        spec["resources"] = {**spec["resources"], **resources(values)}
        spec["distribution"] = distribution(values, spec["resources"].get("nodes")) or spec.get("distribution")
        variables = key_values.variables(values["variables"])
        spec["environment_variables"] = {**spec["environment_variables"], **variables}
        is_ours = spec["target"] == "local" and spec["environment"].get("interpreter") == sys.executable
        is_contained = values["image"] or spec["container"] is not None
        values = {**values, "target": spec["target"] if not is_contained else ""}
        if values["python"] or values["pip"] or values["env_file"]:
            told = environment(values)
            spec["environment"], self._files = _repacked(spec["environment"], told.spec), told.files
            spec["definition"] = {**spec["definition"]}
            spec["definition"]["environment"] = _redefined(spec["definition"]["environment"], told.definition)
        elif is_ours:  # the Python of this command is not the one that the script would get here
            spec["environment"] = {**spec["environment"], **environment(values).spec}
        return _contained(spec, values["image"])

    def plan(self) -> dict[str, Any]:
        """What would be sent to the target. Nothing is stored."""
        body, taken = self._look()
        if body["spec"]["target"] == _FOR_ONE_RUN:
            from windlass.client.submit.run_cluster import no_plan

            raise no_plan()
        return self._post("/plan", {**body, "files": taken.manifest()})

    def send(self) -> dict[str, Any]:
        """Make the run. A folder that changes on the way is looked at again."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(snapshot.SourceChanged):
                return self._send()
        return self._send()

    def _send(self) -> dict[str, Any]:
        body, taken = self._look()
        if body["spec"]["target"] != _FOR_ONE_RUN:
            return self._send_body(body, taken)
        from windlass.client.submit.run_cluster import RunCluster, new_run_id

        run_id = new_run_id(body["experiment"])
        cluster = RunCluster(body["spec"], run_id)
        spec = {**body["spec"], "target": cluster.name}
        with cluster.created(lambda method, path, asked: self._call.ask(method, self._call.root + path, asked)):
            return self._send_body({**body, "run_id": run_id, "spec": spec}, taken)

    def _send_body(self, body: dict[str, Any], taken: snapshot.Snapshot) -> dict[str, Any]:
        whole = {**body, "files": taken.manifest()}
        key = os.urandom(16).hex()
        while True:
            try:
                return self._post("/runs", whole, key)
            except SnapshotIncomplete as e:
                missing = e.details.get("missing")
                if not missing:
                    raise
                self._upload(taken, missing)

    def _post(self, path: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
        """Ask the server. Of a target that it does not know, say what else -c could name."""
        try:
            return self._named_post(path, body, key)
        except NotFound as e:
            if "targets" in e.details:
                e.hint = self._could_be(e.details["targets"])
            raise

    def _named_post(self, path: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        if self._file is None:
            answer: dict[str, Any] = self._call.post(path, body, key)
            return answer
        from windlass.client.submit.run_spec import naming_file

        with naming_file(self._file, (body["spec"].get("resources") or {}).get("nodes")):
            answer = self._call.post(path, body, key)
        return answer

    def _could_be(self, targets: list[str]) -> str:
        from windlass.cli.parameters.suggestions import similar
        from windlass.cli.workbench.runconfiguration import configurations

        own = sorted({name for folder in (self._script.folder, os.curdir) for name in configurations(folder)})
        known = targets if self._file is not None else [*own, *targets]
        near = similar(str(self._body["spec"]["target"]), known)
        meant = [f"Did you mean {shown(near)}?"] if near else []
        lists = [f"Targets: {', '.join(map(shown, targets))}."]
        lists += [f"Run configurations of this project: {', '.join(map(shown, own))}."] if own else []
        return " ".join([*meant, *lists])

    def _look(self) -> tuple[dict[str, Any], snapshot.Snapshot]:
        """The request and its source folder, with what git knows about that."""
        folder = self._script.folder
        repository = git_info.find(folder)
        changes = git_info.Question(repository) if repository is not None else None
        taken = snapshot.take(folder, embedded_server.home())
        if self._script.path and self._script.path not in taken:
            raise InvalidRequest(
                f"The script {shown(self._script.path)} is not part of the snapshot of {shown(folder)}.",
                "Its ignore file (.amlignore, else .gitignore) leaves it out, or it is a link out of the folder.",
            )
        taken.add(self._files)
        if not self._builds:
            self._require_prepared(taken)
        properties = {}
        if repository is not None and changes is not None:
            properties = git_info.properties(repository, changes.answer())
        return {**self._body, "properties": properties}, taken

    def _require_prepared(self, taken: snapshot.Snapshot) -> None:
        from windlass.client.environments.build import require_prepared

        spec = self._body["spec"]
        name, environment = self._named
        words = [name or spec["target"], *(["--environment", environment] if environment else [])]
        require_prepared(self._call.sdk_workspace(), spec, taken, " ".join(words))

    def _upload(self, taken: snapshot.Snapshot, missing: list[str]) -> None:
        silent = (lambda done, total: None) if self._call.json else None
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the script's
            snapshot.upload(self._call.session, self._call.root, taken, missing, silent)


def _work(script: Script, arguments: Sequence[str]) -> dict[str, Any]:
    """What is executed, in the words of a RunSpec."""
    if script.command:
        return {"script": None, "arguments": [], "command": [*script.command, *arguments]}
    return {"script": script.path, "arguments": list(arguments), "command": []}


def _repacked(configured: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Another interpreter or other packages, with all else that a run configuration says of the environment."""
    variables = {**configured["variables"], **told.get("variables", {})}
    return {**told, "variables": variables, **{key: configured[key] for key in ("strict", "image", "dockerfile")}}


def _redefined(configured: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    return {**told, **{key: configured[key] for key in ("docker", "environmentVariables") if key in configured}}


def _held_to(spec: dict[str, Any]) -> dict[str, Any]:
    """The same run, in whose environment nothing may be replaced."""
    if spec["environment"].get("interpreter") is not None:
        return spec  # it is there
    told = spec["definition"]["environment"]
    told = {**told, "python": {**told.get("python", {}), "strict": True}}
    definition = {**spec["definition"], "environment": told}
    return {**spec, "environment": {**spec["environment"], "strict": True}, "definition": definition}


def _retries(values: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The policy of retries, as far as the command line names one. To name ends without a number asks for one retry."""
    count, conditions = values["retries"], values["retry_on"]
    if count is None and conditions is None:
        return {}
    known = {"count": before.get("count") or 1} if count is None else {"count": count}
    return {"retries": {**before, **known, **({} if conditions is None else {"on": list(conditions)})}}


def _contained(spec: dict[str, Any], image: str | None) -> dict[str, Any]:
    """With an image, the run lives in a container of it."""
    if image is None:
        return spec
    environment = {**spec["environment"], "image": names.image_reference(image), "dockerfile": None}
    told = {**spec["definition"]["environment"], "docker": {"baseImage": image}}
    definition = {**spec["definition"], "environment": told, "docker": {"useDocker": True}}
    return {**spec, "container": spec.get("container") or {}, "environment": environment, "definition": definition}


def _definition(spec: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """The run definition in Azure's words, as the SDK's get_details() and get_environment() show it."""
    return {
        "script": spec["script"],
        "arguments": spec["arguments"],
        "command": " ".join(spec["command"]),
        "target": spec["target"],
        **definition_of(spec["distribution"]),
        "maxRunDurationSeconds": spec["max_run_duration_seconds"],
        "nodeCount": spec["resources"].get("nodes") or 1,
        "priority": spec["priority"],
        "environment": environment,
        "environmentVariables": spec["environment_variables"],
    }


def _refuse_undecodable(texts: Iterable[str]) -> None:
    """Bytes that are not UTF-8 cannot be sent as text."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"Not valid UTF-8: {ascii(text[:60])}", "Pass such values in a file.") from None
