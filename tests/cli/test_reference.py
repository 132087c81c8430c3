"""Every command is documented, and says of itself what the list says."""

from __future__ import annotations

from typing import cast

import click
import pytest

from tests.cli.boxes import server
from tools.docs.cli_reference import render
from windlass.cli.context import CommandContext
from windlass.cli.errors import BY_CODE, MEANINGS
from windlass.cli.root import COMMANDS, ROOT
from windlass.client.http.session import Session
from windlass.core import errors


def call() -> CommandContext:
    return CommandContext(cast(Session, server()))


@pytest.mark.parametrize(("name", "text"), [(name, text) for _, name, _, text in COMMANDS])
def test_a_command_is_what_its_line_says(name: str, text: str) -> None:
    with click.Context(ROOT) as ctx:
        command = ROOT.get_command(ctx, name)
    assert command is not None
    assert command.name == name
    assert command.short_help == text
    assert f"### windlass {name}\n" in render(call())


def test_every_error_has_an_exit_code_and_every_exit_code_a_meaning() -> None:
    general = {"error", "internal_error"}
    assert set(errors.BY_CODE) - general == set(BY_CODE)
    assert set(BY_CODE.values()) <= set(MEANINGS)
    assert all(f"| {code} |" in render(call()) for code in MEANINGS)


def test_options_and_children_are_there() -> None:
    page = render(call())
    assert "| `-f`, `--follow` | Go on until the run has ended. |" in page
    assert "#### windlass server status\n" in page
    assert "`--slots` `N`" in page
    assert "#### windlass compute attach\n" in page and "##### windlass compute attach ssh\n" in page
    assert "\b" not in page
