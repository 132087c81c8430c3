"""The kinds of names that commands take, and how a shell completes each. Completion asks a server that is running, and
starts none; where anything goes wrong, nothing is completed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.context import Call

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # older versions of click have no brackets there

# A name, and a few words on it, which some shells show.
Known = Iterable[tuple[str, str]]
_MOST_RUNS = 30
_MOST_FOUND = 200


class Name(_ParamType):
    """A name of something that the server or the project knows."""

    def __init__(self, name: str, find: Callable[[Call, str], Known]) -> None:
        self.name = name
        self._find = find

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            known = list(self._find(ctx.ensure_object(Call), incomplete))
        except Exception:  # a message would stand in the middle of the line that somebody types
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


def ask_server(call: Call, path: str, query: dict[str, Any] | None = None) -> Any:
    """An answer of a server that is there, at once or not at all."""
    from windlass.client.http import embedded_server

    if not call.is_remote:
        said = embedded_server.read(embedded_server.home())
        if said is None or embedded_server.health(said) is None:
            raise LookupError("no server is running")
    call.session.patience_seconds = 0
    return call.get(path, query)


def _runs(call: Call, incomplete: str) -> Known:
    """The newest ones, as lists show them; by the whole id, where one is begun."""
    from windlass.cli.output.format import short_id

    query = {"search": incomplete, "limit": _MOST_FOUND} if incomplete else {"limit": _MOST_RUNS}
    if "@last".startswith(incomplete):
        yield "@last", "the newest run"
    for run in ask_server(call, "/runs", query)["runs"]:
        text = " ".join(filter(None, (run["status"], run["experiment"], run["name"])))
        short = short_id(run["id"])
        yield (short if short.startswith(incomplete) else run["id"]), text


def _experiments(call: Call, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(call, "/experiments")["experiments"]]


def _targets(call: Call, incomplete: str) -> Known:
    return [(each["name"], each["kind"]) for each in ask_server(call, "/targets")["targets"]]


def _credential_kinds(call: Call, incomplete: str) -> Known:
    kinds = ask_server(call, "/kinds")["kinds"]
    return [(each["kind"], "") for each in kinds if each["has_workspace_credential"]]


def _configurations(call: Call, incomplete: str) -> Known:
    """What -c takes: run configurations of the project, and targets."""
    from windlass.cli.workbench.runconfiguration import configurations

    own = configurations(os.curdir)
    yield from ((name, "run configuration") for name in own)
    try:
        yield from (item for item in _targets(call, incomplete) if item[0] not in own)
    except Exception:
        yield from ((name, "target") for name in ("local", "docker") if name not in own)


def _environments(call: Call, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(call, "/environments")["environments"]]


def _models(call: Call, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(call, "/models", {"latest": "true"})["models"]]


def _secrets(call: Call, incomplete: str) -> Known:
    return [(each["name"], "") for each in ask_server(call, "/secrets")["secrets"]]


RUN = Name("run", _runs)
EXPERIMENT = Name("experiment", _experiments)
TARGET = Name("target", _targets)
CREDENTIAL_KIND = Name("kind", _credential_kinds)
CONFIGURATION = Name("configuration", _configurations)
ENVIRONMENT = Name("environment", _environments)
MODEL = Name("model", _models)
SECRET = Name("secret", _secrets)
FILE = File("file")
FOLDER = File("dir")
