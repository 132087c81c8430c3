"""`windlass tag`: the tags of a run."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.output import format
from windlass.cli.parameters import key_values, run_reference
from windlass.cli.parameters.types import RUN


@click.command("tag", cls=Command, short_help="Add tags to a run, or remove them.")
@click.argument("run", type=RUN)
@click.argument("given", nargs=-1, metavar="KEY=VALUE...")
@click.option("-r", "--remove", multiple=True, metavar="KEY", help="Remove this tag. Repeatable.")
@click.pass_obj
def tag(context: CommandContext, run: str, given: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add the tags KEY=VALUE (or only KEY) to RUN; without any, list them."""
    from windlass.cli.runs.show import pairs_of

    run_id = run_reference.find(context, run)
    if given or remove:
        found = context.patch(
            f"/runs/{run_id}", {"tags": key_values.parse(given, "A tag"), "remove_tags": list(remove)}
        )
    else:
        found = context.get(f"/runs/{run_id}")
    if context.json:
        context.terminal.json({"run": run_id, "tags": found["tags"]})
    else:
        tags = pairs_of(found["tags"]) or f"No tags. Add one: windlass tag {format.short_id(run_id)} KEY=VALUE"
        context.terminal.line(tags)
