"""`windlass az` in this process, against a real server of its own, with a project that has a run behind it."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Result, using
from windlass.cli import main

TRAIN = """
import os, sys
from windlass import Run
Run.get_context().log("accuracy", 0.5)
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("weights")
print("trained", sys.argv[1:])
"""
JOB = """
command: python train.py --alpha ${{inputs.alpha}}
code: src
environment:
  conda_file: {name: e, dependencies: []}
compute: azureml:local
experiment_name: v2
display_name: a job
description: about it
inputs: {alpha: 1}
tags: {team: blue}
"""
FILES = {
    "train.py": TRAIN,
    "fail.py": "import sys\nsys.exit('broken')\n",
    "src/train.py": TRAIN,
    "job.yml": JOB,
    "failing.yml": JOB.replace("python train.py", "exit 3 #"),
    "env.yml": "name: tools\nconda_file: {name: e, dependencies: [python=3.11]}\n",
    "model.yml": "name: filed\npath: weights.txt\ntags: {a: b}\n",
    "misspelt.yml": "name: filed\npath: weights.txt\ntgas: {a: b}\n",
    "cluster.yml": "name: c1\ntype: amlcompute\nsize: STANDARD_D2_V2\nmax_instances: 2\n",
    "weights.txt": "weights",
}

Az = Callable[[str], Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def az(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Az]:
    """A command line of `az`, as a text. {run} in it stands for a run that has ended."""
    with using(tmp_path_factory.mktemp("az") / "home") as shell, pytest.MonkeyPatch.context() as patch:
        shell.start_server()
        for name, value in shell.environment().items():
            patch.setenv(name, value)
        patch.chdir(folder)

        def run(line: str) -> Result:
            return in_process(["az", *shlex.split(line.replace("{run}", past))])

        past = ""
        past = run("ml run submit-script -c local -e past --async --query runId -o tsv train.py").out.strip()
        assert run("ml run monitor-logs -r {run}").code == 0
        yield run


def in_process(words: list[str]) -> Result:
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in (out, err)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(words)
    return Result(code, out.getvalue().decode(), err.getvalue().decode())
