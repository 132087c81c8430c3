"""Click parameter types of names and files, with their shell completion. Completion asks a running server and starts
none; on any error nothing is completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.context import CommandContext

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic in older versions of click

# A name and a short description, which some shells show.
Known = Iterable[tuple[str, str]]
_MOST_RUNS = 30
_MOST_FOUND = 200


class Name(_ParamType):
    """The name of a run, target, model, ...; `find` lists the names that exist, for completion."""

    def __init__(self, name: str, find: Callable[[CommandContext, str], Known]) -> None:
        self.name = name
        self._find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            known = list(self._find(ctx.ensure_object(CommandContext), incomplete))
        except Exception:  # a message would be printed into the line that is being typed
            return []
        return [CompletionItem(name, help=text or None) for name, text in known if name.startswith(incomplete)]


class File(_ParamType):
    """A path, completed by the shell itself."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=self.name)]


def ask_server(context: CommandContext, path: str, query: dict[str, Any] | None = None) -> Any:
    """GET from a server that is running, without a retry. Raises if there is none."""
    from windlass.client.http import embedded_server

    if not context.is_remote:
        said = embedded_server.read(embedded_server.home())
        if said is None or embedded_server.health(said) is None:
            raise LookupError("no server is running")
    context.session.retry_seconds = 0
    return context.get(path, query)


def _runs(context: CommandContext, incomplete: str) -> Known:
    """The newest runs by short id; by the whole id, if the typed text begins one."""
    from windlass.cli.output.format import short_id

    query = {"search": incomplete, "limit": _MOST_FOUND} if incomplete else {"limit": _MOST_RUNS}
    if "@last".startswith(incomplete):
        yield "@last", "the newest run"
    for run in ask_server(context, "/runs", query)["runs"]:
        text = " ".join(filter(None, (run["status"], run["experiment"], run["name"])))
        short = short_id(run["id"])
        yield (short if short.startswith(incomplete) else run["id"]), text


def _experiments(context: CommandContext, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(context, "/experiments")["experiments"]]


def _targets(context: CommandContext, incomplete: str) -> Known:
    return [(each["name"], each["kind"]) for each in ask_server(context, "/targets")["targets"]]


def _credential_kinds(context: CommandContext, incomplete: str) -> Known:
    kinds = ask_server(context, "/kinds")["kinds"]
    return [(each["kind"], "") for each in kinds if each["has_workspace_credential"]]


def _configurations(context: CommandContext, incomplete: str) -> Known:
    """Values of -c: run configurations of the project, and targets."""
    from windlass.cli.workbench.runconfiguration import configurations

    own = configurations(os.curdir)
    yield from ((name, "run configuration") for name in own)
    try:
        yield from (item for item in _targets(context, incomplete) if item[0] not in own)
    except Exception:
        yield from ((name, "target") for name in ("local", "docker") if name not in own)


def _environments(context: CommandContext, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(context, "/environments")["environments"]]


def _members(context: CommandContext, incomplete: str) -> Known:
    """The members who submitted the newest runs: a list of all of them is for owners."""
    return [(name, "") for name in ask_server(context, "/run-columns")["members"]]


def _models(context: CommandContext, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(context, "/models", {"latest": "true"})["models"]]


def _secrets(context: CommandContext, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(context, "/secrets")["secrets"]]


RUN = Name("run", _runs)
EXPERIMENT = Name("experiment", _experiments)
TARGET = Name("target", _targets)
CREDENTIAL_KIND = Name("kind", _credential_kinds)
CONFIGURATION = Name("configuration", _configurations)
ENVIRONMENT = Name("environment", _environments)
MEMBER = Name("member", _members)
MODEL = Name("model", _models)
SECRET = Name("secret", _secrets)
FILE = File("file")
FOLDER = File("dir")
