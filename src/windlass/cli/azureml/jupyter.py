"""`windlass jupyter`: Jupyter with `azureml` on the path of its kernels."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import click

from windlass.cli.azureml import launch
from windlass.cli.azureml.python import PassThroughCommand
from windlass.cli.context import CommandContext
from windlass.cli.parameters.types import File
from windlass.core.errors import NotFound


@click.command("jupyter", cls=PassThroughCommand, short_help="Run Jupyter with `azureml` on the path of its kernels.")
@click.option("--python", metavar="PATH", type=File("file"), help="The Python that has Jupyter. [default: see below]")
@click.argument("words", nargs=-1, type=File("file"), metavar="[lab | notebook | nbconvert ...] [ARGUMENT]...")
@click.pass_obj
def jupyter(context: CommandContext, python: str | None, words: tuple[str, ...]) -> Any:
    """Run Jupyter so that notebooks can `import azureml`; without words, JupyterLab or the notebook server.

    It is the Jupyter of the active environment (virtual or conda), else of the one that windlass is installed in, else
    the one on the PATH. WINDLASS_PYTHON names another Python.

    \b
    windlass jupyter lab
    windlass jupyter nbconvert --to notebook --execute train.ipynb
    """
    context.export_options()
    start(python, words)


def start(python: str | None, words: tuple[str, ...] = ()) -> NoReturn:
    """Replace this process by Jupyter with these arguments."""
    chosen = launch.choose(python)
    program = _program("jupyter", chosen)
    if program is None:
        raise NotFound("Jupyter is not installed here.", f"Install it: {chosen} -m pip install jupyterlab")
    launch.replace([program, *(words or _usual(chosen))])


def _usual(python: str) -> tuple[str, ...]:
    """The default arguments: JupyterLab, or the notebook server if only that is installed."""
    return ("lab",) if _program("jupyter-lab", python) or not _program("jupyter-notebook", python) else ("notebook",)


def _program(name: str, python: str) -> str | None:
    """A program beside this Python, else on the PATH."""
    import shutil

    beside = os.path.join(os.path.dirname(python), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)
