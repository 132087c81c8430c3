"""Commands of `az` outside of `az ml`: each prints a line that nothing is needed here, or which command does it.

The line goes to stderr. A document on stdout is printed where scripts read one. The exit code is 0 if the rest of a
script can work without the command, else 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from windlass.cli.az.declaration import AzCommand, Values, option
from windlass.cli.context import CommandContext
from windlass.core.errors import SpecNotSupported

_NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
_NOTHING = "Nothing is needed here:"
_KUBERNETES = "`windlass connection add aks NAME ...` names a cluster that is there."


class _Row(NamedTuple):
    """A command: `answer` makes the document that scripts read; with `fails` a script cannot go on without it."""

    sentence: str
    fails: bool = False
    answer: Callable[[Values], Any] | None = None


def _account(values: Values) -> Any:
    return {
        "id": values.get("subscription") or _NO_SUBSCRIPTION,
        "isDefault": True,
        "name": "windlass",
        "state": "Enabled",
        "tenantId": _NO_SUBSCRIPTION,
        "user": {"name": os.environ.get("USER") or "owner", "type": "user"},
    }


def _group(values: Values) -> Any:
    return {
        "id": f"/subscriptions/{_NO_SUBSCRIPTION}/resourceGroups/{values['name']}",
        "location": values["location"],
        "name": values["name"],
        "properties": {"provisioningState": "Succeeded"},
    }


def _version(values: Values) -> Any:
    from windlass._version import __version__

    return {"windlass": __version__, "extensions": {}}


def print_version() -> None:
    from windlass._version import __version__

    click.echo(f"windlass {__version__}, which takes the command lines of az ml")


# By the first two words of a command, else by its first word.
_ROWS = {
    "login": _Row(f"{_NOTHING} a private server is yours; WINDLASS_URL and WINDLASS_TOKEN name a shared one."),
    "logout": _Row(f"{_NOTHING} no login is kept; unset WINDLASS_TOKEN to leave a shared server."),
    "account": _Row(f"{_NOTHING} there are no subscriptions."),
    "account show": _Row(f"{_NOTHING} there are no subscriptions.", answer=_account),
    "account list": _Row(f"{_NOTHING} there are no subscriptions.", answer=lambda values: [_account(values)]),
    "ad": _Row(f"{_NOTHING} `windlass token create` gives others access to a server."),
    "role": _Row(f"{_NOTHING} `windlass token create` gives others access to a server."),
    "group": _Row(f"{_NOTHING} a resource group is only a name."),
    "group create": _Row(f"{_NOTHING} a resource group is only a name.", answer=_group),
    "group show": _Row(f"{_NOTHING} a resource group is only a name.", answer=_group),
    "group exists": _Row(f"{_NOTHING} a resource group is only a name.", answer=lambda values: True),
    "provider": _Row(f"{_NOTHING} there are no resource providers."),
    "feature": _Row(f"{_NOTHING} there are no features to register."),
    "extension": _Row(f"{_NOTHING} the commands of `az ml` are part of windlass."),
    "k8s-extension": _Row(f"{_NOTHING} no extension is installed in a Kubernetes cluster. {_KUBERNETES}"),
    "aks": _Row(f"Kubernetes clusters are not managed here. {_KUBERNETES}", fails=True),
    "aks create": _Row(f"Kubernetes clusters are not created here. {_KUBERNETES}", fails=True),
    "vm": _Row(
        "Virtual machines are not created here. `windlass compute attach ssh NAME ...` attaches one that is there.",
        fails=True,
    ),
    "storage": _Row("There is no storage account here; what a script writes to ./outputs is kept.", fails=True),
    "keyvault": _Row("`windlass secret set NAME` keeps a secret for runs.", fails=True),
    "acr": _Row("There is no registry of images here; images stay on the machine where they are built.", fails=True),
    "configure": _Row(f"{_NOTHING} `az ml folder attach -w NAME` says which workspace a folder belongs to."),
    "config": _Row(f"{_NOTHING} `az ml folder attach -w NAME` says which workspace a folder belongs to."),
    "cloud": _Row(f"{_NOTHING} everything runs on your own machines."),
    "version": _Row("", answer=_version),
    "upgrade": _Row(f"{_NOTHING} install the new version of windlass as you installed this one."),
}


def _get_kubernetes_credentials() -> _Row:
    """The kubeconfig of this machine is used by the commands that follow; without one this command fails."""
    files = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    if any(os.path.isfile(path) for path in files.split(os.pathsep)):
        return _Row(f"{_NOTHING} the kubeconfig of this machine is used. {_KUBERNETES}")
    return _Row(f"There is no kubeconfig on this machine, and Azure is not asked for one. {_KUBERNETES}", fails=True)


def _row(words: tuple[str, ...]) -> _Row:
    if words[:2] == ("aks", "get-credentials"):
        return _get_kubernetes_credentials()
    return _ROWS.get(" ".join(words[:2])) or _ROWS[words[0]]


def find(name: str) -> click.Command | None:
    """The command for the first word after `az`; None if nothing is known of it."""
    if name not in _ROWS:
        return None

    def run(context: CommandContext, values: Values) -> Any:
        row = _row((name, *values["words"]))
        if row.fails:
            raise SpecNotSupported(row.sentence)
        if row.sentence and not values["only_show_errors"]:
            context.terminal.note(row.sentence)
        return row.answer(values) if row.answer is not None else None

    made = AzCommand(
        name,
        run,
        _ROWS[name].sentence,
        (option("-n --name --resource-group -g", ""), option("-l --location", "")),
        context_settings={"ignore_unknown_options": True},
    )
    made.params.append(click.Argument(["words"], nargs=-1, type=click.UNPROCESSED))
    return made
