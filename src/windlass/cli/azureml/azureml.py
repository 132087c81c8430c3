"""`windlass azureml`: make `import azureml` work in an environment."""

from __future__ import annotations

import click

from windlass.cli.command import Command, Group
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import File

_python = click.option(
    "--python", metavar="PATH", type=File("file"), help="The Python of the environment. [default: the active one's]"
)


@click.group("azureml", cls=Group, short_help="Make `import azureml` work in an environment.")
def azureml() -> None:
    """Make `import azureml` work in the active environment, for every Python and notebook that starts there.

    The package `azureml` is Windlass's, over its own SDK. `pip install azureml-sdk` (azureml-core, -defaults ...) finds
    it installed and downloads nothing. Azure's own SDK, if it is installed too, stays and is not used.
    """


@azureml.command("enable", cls=Command, short_help="Make it work.")
@_python
@click.pass_obj
def enable(context: CommandContext, python: str | None) -> None:
    """Make `import azureml` work in the environment. Repeat it after windlass was installed elsewhere.

    \b
    source my-environment/bin/activate
    windlass azureml enable
    python train.py
    """
    from windlass.cli.azureml import enabling

    environment = enabling.inspect_environment(python)
    is_new = enabling.enable(environment)
    if context.json:
        context.terminal.json({"python": environment.python, "is_enabled": True, "has_changed": is_new})
        return
    context.terminal.line(f"`import azureml` {'now uses' if is_new else 'uses'} Windlass in {environment.prefix}.")
    azures = environment.azures_own
    if azures is not None:
        context.terminal.note(f"azureml-core {azures.version} stays installed there, and is not used.")


@azureml.command("disable", cls=Command, short_help="Undo `enable`.")
@_python
@click.pass_obj
def disable(context: CommandContext, python: str | None) -> None:
    """Remove what `enable` wrote, and nothing else."""
    from windlass.cli.azureml import enabling

    environment = enabling.inspect_environment(python)
    was_enabled = enabling.disable(environment)
    if context.json:
        context.terminal.json({"python": environment.python, "is_enabled": False, "has_changed": was_enabled})
    elif was_enabled:
        context.terminal.line(f"`import azureml` no longer uses Windlass in {environment.prefix}.")
    else:
        context.terminal.line(f"It was not enabled in {environment.prefix}.")


@azureml.command("status", cls=Command, short_help="Show which azureml an import gets, and why.")
@_python
@click.pass_obj
def status(context: CommandContext, python: str | None) -> None:
    """Show which `azureml` an import gets in the environment, and why."""
    from windlass.cli.azureml import enabling

    environment = enabling.inspect_environment(python)
    is_enabled = enabling.is_enabled(environment)
    azures = environment.azures_own
    reason = enabling.reason(environment)
    if context.json:
        context.terminal.json(
            {
                "python": environment.python,
                "version": environment.version,
                "site_packages": environment.site,
                "is_enabled": is_enabled,
                "azureml": environment.azureml or None,
                "is_windlass": enabling.is_windlass(environment),
                "reason": reason,
                "azureml_core": [each._asdict() for each in environment.azureml_core],
            }
        )
        return
    context.print_facts(
        [
            ("python", f"{environment.python} ({environment.version})"),
            ("packages", environment.site),
            ("enabled", "yes" if is_enabled else "no"),
            ("import azureml", reason),
            ("found at", environment.azureml),
            ("Azure's own", f"azureml-core {azures.version} in {azures.folder}" if azures else "not installed"),
        ]
    )
