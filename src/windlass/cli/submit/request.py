"""The submit request of a command line: which run, with which folder; and sending it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.parameters import key_values
from windlass.cli.submit import run_configuration
from windlass.cli.submit import script as scripts
from windlass.cli.submit import spec as specs
from windlass.cli.submit.environment import refuse_both
from windlass.client.submit import request
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from windlass.cli.context import CommandContext
    from windlass.client.submit.snapshot import Snapshot

# Options that choose parts of an environment, which --environment chooses as a whole.
PARTS_OF_ENVIRONMENT = ("--pip", "--env-file", "--image", "--python")


class Request:
    """A submit. The constructor checks the options, and everything else that can be checked before a request."""

    def __init__(self, context: CommandContext, values: dict[str, Any]) -> None:
        self._context = context
        self._named = values["target"], values["environment"]
        refuse_both(values, PARTS_OF_ENVIRONMENT)
        script, arguments = scripts.choose(values)
        refuse_undecodable([*arguments, *values["variables"], *values["tags"], values["name"]])
        named = values["target"], script, arguments, values.get("instead"), values["environment"]
        configured = run_configuration.find(context, *named)
        self._script = script = script if configured is None else configured.script
        self._file = None if configured is None else configured.file
        self._builds = configured is None or configured.builds
        if not script.path and not script.command and (configured is None or not configured.spec["command"]):
            raise scripts.missing_script()
        values = {**values, "arguments": arguments, "target": values["target"] or "local"}
        spec, self._files = (
            specs.from_options(script, values) if configured is None else specs.from_configuration(configured, values)
        )
        self._body = {
            "experiment": values["experiment"] or scripts.experiment_name(script.folder),
            "spec": spec,
            "name": values["name"],
            "tags": key_values.parse(values["tags"], "--tag"),
            "attended": not values["detach"],
        }

    def plan(self) -> dict[str, Any]:
        """What would be sent to the target. Nothing is stored."""
        body, taken = self._read_source()
        return request.plan(self._context.session, self._context.workspace_path, body, taken, self._explain)

    def send(self) -> dict[str, Any]:
        """Create the run; returns its view. If the folder changes meanwhile, the snapshot is taken again."""
        return request.retry_if_changed(self._send)

    def _send(self) -> dict[str, Any]:
        body, taken = self._read_source()
        session, root = self._context.session, self._context.workspace_path
        no_progress = (lambda done, total: None) if self._context.json else None
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the script's
            return request.send(session, root, body, taken, self._explain, no_progress)

    def _read_source(self) -> tuple[dict[str, Any], Snapshot]:
        check = None if self._builds else self._require_prepared
        taken, properties = request.read_source(self._script.folder, self._script.path, self._files, check)
        return {**self._body, "properties": properties}, taken

    def _require_prepared(self, taken: Snapshot) -> None:
        from windlass.client.environments.build import require_prepared

        spec = self._body["spec"]
        name, environment = self._named
        words = [name or spec["target"], *(["--environment", environment] if environment else [])]
        require_prepared(self._context.sdk_workspace(), spec, taken, " ".join(words))

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """Add to errors of the request: the line of a file, and what -c could name in place of an unknown target."""
        try:
            with request.locating_node_count(self._file, self._body["spec"]["resources"].get("nodes")):
                yield
        except NotFound as e:
            if "targets" in e.details:
                e.hint = self._possible_targets(e.details["targets"])
            raise

    def _possible_targets(self, targets: list[str]) -> str:
        from windlass.cli.parameters.suggestions import similar
        from windlass.cli.workbench.runconfiguration import configurations

        own = sorted({name for folder in (self._script.folder, os.curdir) for name in configurations(folder)})
        known = targets if self._file is not None else [*own, *targets]
        near = similar(str(self._body["spec"]["target"]), known)
        meant = [f"Did you mean {escape(near)}?"] if near else []
        lists = [f"Targets: {', '.join(map(escape, targets))}."]
        lists += [f"Run configurations of this project: {', '.join(map(escape, own))}."] if own else []
        return " ".join([*meant, *lists])


def refuse_undecodable(texts: Iterable[str]) -> None:
    """Bytes that are not UTF-8 cannot be sent as text."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"Not valid UTF-8: {ascii(text[:60])}", "Pass such values in a file.") from None
