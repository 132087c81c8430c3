"""`windlass forward`: a port of a run on this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.command import Command
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import RUN

if TYPE_CHECKING:
    import socket

_PORT = click.IntRange(1, 65535)


@click.command("forward", cls=Command, short_help="Forward a port of a run to this computer.")
@click.argument("run", type=RUN, metavar="RUN")
@click.argument("port", type=_PORT, metavar="PORT")
@click.option("--local", type=_PORT, metavar="PORT", help="The port here. By default the same one, or any free one.")
@click.pass_obj
def forward(context: CommandContext, run: str, port: int, local: int | None) -> None:
    """Listen on 127.0.0.1 of this computer, and connect to PORT where RUN is: a TensorBoard, a notebook, a debugger.
    Ctrl-C ends it.

    \b
    windlass forward @last 6006
    windlass forward @last 8888 --local 9000
    """
    from windlass.cli.parameters import run_reference
    from windlass.cli.runs.port_forwarder import PortForwarder

    run_id = run_reference.find(context, run)
    with _listen(port, local) as listening:
        forwarder = PortForwarder(context, run_id, port, listening)
        forwarder.check()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        if context.json:
            context.terminal.json({"run": run_id, "port": port, "address": address})
        else:
            context.terminal.line(f"http://{address}  leads to port {port} of run {run_id}; Ctrl-C ends it.")
        import sys

        sys.stdout.flush()
        forwarder.serve()


def _listen(port: int, local: int | None) -> socket.socket:
    import socket

    from windlass.core.errors import Conflict

    for wanted in [local] if local else [port, 0]:
        try:
            return socket.create_server(("127.0.0.1", wanted), backlog=64)
        except OSError as e:
            if wanted and (local or port < 1024):
                problem = e
    raise Conflict(
        f"Port {local or port} of this computer cannot be used: {problem.strerror}.", "Name another: --local"
    )
