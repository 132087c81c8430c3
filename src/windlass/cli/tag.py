"""`windlass tag`: words that find a run again."""

from __future__ import annotations

import click

from windlass.cli import pairs, runref, words
from windlass.cli.call import Call
from windlass.cli.command import Command
from windlass.cli.param_types import RUN


@click.command("tag", cls=Command, short_help="Add tags to a run, or remove them.")
@click.argument("run", type=RUN)
@click.argument("given", nargs=-1, metavar="KEY=VALUE...")
@click.option("-r", "--remove", multiple=True, metavar="KEY", help="Remove this tag. Repeatable.")
@click.pass_obj
def tag(call: Call, run: str, given: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add the tags KEY=VALUE (or only KEY) to RUN; without any, list them."""
    from windlass.cli.show import pairs_of

    run_id = runref.find(call, run)
    if given or remove:
        found = call.patch(f"/runs/{run_id}", {"tags": pairs.parse(given, "A tag"), "remove_tags": list(remove)})
    else:
        found = call.get(f"/runs/{run_id}")
    if call.json:
        call.terminal.json({"run": run_id, "tags": found["tags"]})
    else:
        tags = pairs_of(found["tags"]) or f"No tags. Add one: windlass tag {words.short_id(run_id)} KEY=VALUE"
        call.terminal.line(tags)
