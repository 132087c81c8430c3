"""`windlass rerun`: submit a run again from its snapshot, with changes, and show its log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.command import Command, HintedUsageError
from windlass.cli.context import CommandContext
from windlass.cli.errors import OWN_FAILURE
from windlass.cli.parameters import key_values, run_reference
from windlass.cli.parameters.suggestions import did_you_mean, similar
from windlass.cli.parameters.types import RUN, TARGET
from windlass.cli.runs.show import command_of
from windlass.cli.submit import spec as specs
from windlass.cli.submit import watch
from windlass.cli.submit.active_python import active
from windlass.cli.submit.command import COMPLETED, OPTION_HINTS, click_option
from windlass.cli.submit.environment import named_environment, refuse_both
from windlass.cli.submit.options import rerun_options
from windlass.cli.submit.request import PARTS_OF_ENVIRONMENT, refuse_undecodable
from windlass.client.submit.rerun import Rerun
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.submit.snapshot import File

_OPTIONS = rerun_options()
_HOW = "`--set alpha=0.2` changes one argument of the script. All of them follow --: windlass rerun RUN -- --alpha 0.2"


class _Rerun(Command):
    failure_code = OWN_FAILURE  # as submit: other codes are the script's
    option_hints = {
        **OPTION_HINTS,
        **dict.fromkeys(("-m", "--module", "--source-directory"), "A rerun has the files and the script of the run: "
                        "`windlass submit` takes others."),
    }  # fmt: skip

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take everything after `--` as the arguments of the script; without `--` they stay."""
        at = args.index("--") if "--" in args else len(args)
        left = super().parse_args(ctx, args[:at])
        if ctx.params.get("arguments") and not ctx.resilient_parsing:
            extra = escape(str(ctx.params["arguments"][0]))
            raise HintedUsageError(f"{extra} follows RUN, which is one run.", _HOW, ctx)
        ctx.params["arguments"] = tuple(args[at + 1 :]) if at < len(args) else None
        return left

    def explain_option(self, name: str, args: list[str]) -> str:
        near = similar(name, [each for option in _OPTIONS for each in option.names if each.startswith("--")])
        return f"Did you mean {near}? {_HOW}" if near else _HOW


@click.pass_obj
def _rerun(context: CommandContext, /, run: str, arguments: tuple[str, ...] | None, **values: Any) -> int:
    """Submit RUN again: the same files, script, arguments, environment, target, resources, variables, secrets, tags and
    name, but for what the options change. The log is shown and the exit code is the script's, as `windlass submit` does
    it.

    ARGUMENTS behind -- replace all arguments of the script; --set changes single ones. The files are those of RUN, not
    those that are in the folder now. The new run has the property rerun_of, which `windlass show` shows.

    \b
    windlass rerun @last
    windlass rerun 3f9a1c2b --set alpha=0.2 -c gpu-box
    windlass rerun 3f9a1c2b --detach -- --alpha 0.2 --epochs 10
    """
    refuse_both(values, PARTS_OF_ENVIRONMENT)
    refuse_undecodable([*(arguments or ()), *values["set_arguments"], *values["variables"], *values["tags"],
                        values["name"] or ""])  # fmt: skip
    view = context.get(f"/runs/{run_reference.find(context, run)}")
    again = Rerun(context.session, context.workspace_path, view)
    if arguments is not None:
        again.replace_arguments(arguments)
    again.set_arguments(_pairs(values["set_arguments"]))
    files = _change(context, again, values)
    tags = key_values.parse(values["tags"], "--tag")
    body = again.body(values["experiment"], values["name"], tags, attended=not values["detach"])
    explain = _Explanation(again.spec["target"])
    if values["dry_run"]:
        return watch.print_plan(context, again.plan(body, explain))
    if not (values["quiet"] or values["detach"]):
        context.terminal.note(f"Again: {escape(command_of(body['spec']))}")
    no_progress = (lambda done, total: None) if context.json else None
    return watch.show_run(context, again.send(body, files, explain, no_progress), values)


def _pairs(texts: Sequence[str]) -> dict[str, str | None]:
    """{"alpha": "0.2"} of alpha=0.2; None for a key alone."""
    found: dict[str, str | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip("-"):
            raise InvalidRequest(f"--set takes KEY=VALUE, not {escape(text)!r}.", "--set alpha=0.2")
        found[key] = value if equals else None
    return found


def _change(context: CommandContext, again: Rerun, values: dict[str, Any]) -> Sequence[File]:
    """Make the changes of the options to the specification. Returns the files that a changed environment needs."""
    if values["target"] is not None:
        again.move(names.target_name(values["target"]), active())
    before: Sequence[File] = ()
    if values["environment"] is not None:
        from windlass.client.runs.rerun import change
        from windlass.client.submit.local_wheels import Wheels

        wheels = Wheels()
        change(again, {"environment": named_environment(context, values["environment"])}, wheels)
        before = wheels.files()
    if values["processes_per_node"] and not values["distribution"] and again.spec["distribution"]:
        values = {**values, "distribution": again.spec["distribution"]["framework"]}
    again.spec, files = specs.with_options(again.spec, values, before)
    return files


class _Explanation:
    """Adds to the error of an unknown target which ones there are."""

    def __init__(self, target: str) -> None:
        self._target = target

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except NotFound as e:
            if "targets" in e.details:
                e.hint = did_you_mean(self._target, e.details["targets"], "Type `windlass compute list`.")
            raise


rerun = _Rerun(
    "rerun",
    callback=_rerun,
    help=_rerun.__doc__,
    short_help="Run a run again, with changes.",
    params=[
        click.Argument(["run"], type=RUN),
        *(click_option(option, {**COMPLETED, "target": TARGET}) for option in _OPTIONS),
        click.Argument(["arguments"], nargs=-1, metavar="[-- ARGUMENTS...]"),
    ],
)
