"""`windlass completion`: what a shell needs to complete commands, options, files and names."""

from __future__ import annotations

import click

from windlass.cli.command import Command
from windlass.cli.context import Call

_VARIABLE = "_WINDLASS_COMPLETE"


@click.command("completion", cls=Command, short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def completion(call: Call, shell: str) -> None:
    """Print the script that completes commands, options, file names and the names of targets, runs and experiments in
    SHELL. Names are those of a server that is running.

    \b
    bash:  echo 'eval "$(windlass completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(windlass completion zsh)"' >> ~/.zshrc
    fish:  windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    from click.shell_completion import get_completion_class

    from windlass.cli.root import ROOT

    kind = get_completion_class(shell)
    assert kind is not None  # the three that click knows
    # Not .source(): for bash that starts a bash to ask for its version.
    completer = kind(ROOT, {}, "windlass", _VARIABLE)
    script = completer.source_template % completer.source_vars()
    if call.json:
        call.terminal.json({"shell": shell, "script": script})
    else:
        call.terminal.line(script.rstrip("\n"))
