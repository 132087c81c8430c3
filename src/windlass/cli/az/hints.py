"""Translation of the SDK's hints, which are Python code, into command lines."""

from __future__ import annotations

from windlass.core.errors import WindlassError

_ATTACH = "`windlass compute attach ssh`"
# A hint of the SDK, and its replacement.
_COMMANDS = (
    ("Pass exist_ok=True to replace it.", "--overwrite replaces it."),
    ("Pass exist_ok=True to use it.", "--exist-ok uses it."),
    ("What there is: Model.list(workspace).", "`az ml model list` lists what there is."),
    ("windlass environment list, or Environment.list(workspace).", "az ml environment list"),
    (", such as environment.clone('my-name')", ""),
    ("attached with RemoteCompute.attach_configuration(address=...)", f"attached with {_ATTACH}"),
    ("RemoteCompute.attach_configuration(address=...)", _ATTACH),
    (
        "ComputeTarget.list(workspace) lists the targets, and get_status() their nodes.",
        "`az ml compute list` lists the targets, and `az ml compute list-nodes` the nodes of a cluster.",
    ),
)


def translate(error: WindlassError) -> None:
    """Replace hints that name Python code in an error, by hints that name commands."""
    for said, command in _COMMANDS:
        error.message = error.message.replace(said, command)
        error.hint = error.hint.replace(said, command)
