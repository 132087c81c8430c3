"""`windlass completion`: the script by which a shell completes commands, options, files and names."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext

_VARIABLE = "_WINDLASS_COMPLETE"


@click.command("completion", cls=Command, short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def completion(context: CommandContext, shell: str) -> None:
    """Print the script that completes commands, options, file names and the names of targets, runs and experiments in
    SHELL. Names are completed only while a server is running.

    \b
    bash:  echo 'eval "$(windlass completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(windlass completion zsh)"' >> ~/.zshrc
    fish:  windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    from click.shell_completion import get_completion_class

    from windlass.cli.root import ROOT

    kind = get_completion_class(shell)
    assert kind is not None  # the three that click knows
    # Not .source(): for bash it starts a process to ask for bash's version.
    completer = kind(ROOT, {}, "windlass", _VARIABLE)
    script = completer.source_template % completer.source_vars()
    if context.json:
        context.terminal.json({"shell": shell, "script": script})
    else:
        context.terminal.line(script.rstrip("\n"))
