"""`windlass python` and `windlass jupyter`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.cli.shell import COMMAND, Shell

WHERE = "import sys, azureml.core, windlass; print(sys.prefix, azureml.core.VERSION)"


def test_a_script_is_run_by_the_active_python(fresh: Shell, venv: Path, project: Path) -> None:
    (project / "helper.py").write_text("value = 7\n")
    (project / "train.py").write_text(
        "import sys, importlib.util, helper\n"
        "from azureml.core import Run\n"
        "print(sys.prefix, sys.argv, helper.value, sys.stdin.read(), importlib.util.find_spec('click'))\n"
        "sys.exit(41)\n"
    )
    (project / "input.txt").write_text("typed")
    with (project / "input.txt").open() as stdin:
        done = fresh(
            "python", "train.py", "--home", "x", "-h", cwd=project, env={"VIRTUAL_ENV": str(venv)}, stdin=stdin
        )
    assert (done.code, done.err) == (41, "")
    assert done.out == f"{venv} ['train.py', '--home', 'x', '-h'] 7 typed None\n"


def test_python_is_given_its_own_options(fresh: Shell, project: Path) -> None:
    assert fresh("python", "-W", "error", "-c", WHERE).out == f"{sys.prefix} 1.61.0\n"
    assert fresh("python", "-m", "azureml.core").err.endswith("No module named azureml.core.__main__; "
                                                              "'azureml.core' is a package and cannot be directly "
                                                              "executed\n")  # fmt: skip
    (project / "lines").write_text("import azureml.core; print(azureml.core.VERSION)\n")
    with (project / "lines").open() as stdin:
        assert fresh("python", stdin=stdin).out == "1.61.0\n", "without words it reads what is typed"
    assert fresh("python", "-c", "1/0").code == 1


def test_which_python_it_is(fresh: Shell, venv: Path, old_venv: Path) -> None:
    python, old = str(venv / "bin" / "python"), str(old_venv / "bin" / "python")
    code = ("-c", "import sys, azureml.core; print(sys.prefix)")
    assert fresh("python", *code, env={"VIRTUAL_ENV": str(venv), "WINDLASS_PYTHON": old}).out == f"{old_venv}\n"
    assert fresh("python", "--python", python, *code, env={"WINDLASS_PYTHON": old}).out == f"{venv}\n"
    assert fresh("python", f"--python={python}", *code).out == f"{venv}\n"
    assert fresh("python", *code, env={"CONDA_PREFIX": str(venv)}).out == f"{venv}\n"


def test_it_is_the_same_process_and_nests(fresh: Shell) -> None:
    inner = [*COMMAND, "python", "-c", "import os; print(os.environ['PYTHONPATH'])"]
    code = f"import os, subprocess; print(os.getpid(), flush=True); subprocess.run({inner!r})"
    process = subprocess.Popen(
        [*COMMAND, "python", "-c", code], env=fresh.environment(PYTHONPATH="/mine"), stdout=subprocess.PIPE, text=True
    )
    out, _ = process.communicate(timeout=60)
    (folder,) = (fresh.home / "python").iterdir()
    assert out == f"{process.pid}\n{folder}:/mine\n"


def test_a_python_that_is_not_there_or_too_old(fresh: Shell, tmp_path: Path) -> None:
    missing = fresh("python", "--python", "/nowhere/python", "-c", "pass")
    assert missing.code == 3 and "There is no Python /nowhere/python." in missing.err
    assert fresh("python", "-c", "pass", env={"WINDLASS_PYTHON": "/nowhere/python"}).code == 3
    old = tmp_path / "python3.6"
    old.write_text("#!/bin/sh\nexit 9\n")
    old.chmod(0o755)
    refused = fresh("python", "--python", str(old), "-c", "pass")
    assert refused.code == 2 and f"{old} is Python 3.6, and azureml needs 3.8 or newer." in refused.err


SUBMIT = """
from azureml.core import Experiment, ScriptRunConfig, Workspace
run = Experiment(Workspace.from_config(), "bare").submit(ScriptRunConfig(".", "train.py"))
run.wait_for_completion()
print(run.get_metrics())
"""
TRAIN = """
import sys
from azureml.core import Run
Run.get_context().log("python", sys.prefix)
"""


@pytest.mark.parametrize("is_enabled", [False, True], ids=["windlass python", "windlass azureml enable"])
def test_a_bare_old_python_starts_the_server_and_submits(
    fresh: Shell, old_venv: Path, project: Path, is_enabled: bool
) -> None:
    (project / "submit.py").write_text(SUBMIT)
    (project / "train.py").write_text(TRAIN)
    python = str(old_venv / "bin" / "python")
    if is_enabled:
        assert fresh("azureml", "enable", "--python", python).code == 0
        done = subprocess.run(
            [python, "submit.py"], cwd=project, env=fresh.environment(), capture_output=True, timeout=60, text=True
        )
        out, err = done.stdout, done.stderr
    else:
        _, out, err = fresh("python", "--python", python, "submit.py", cwd=project)
    assert out.splitlines()[-1:] == [str({"python": str(old_venv)})], err
    assert fresh.status()["running"]


def test_a_notebook_imports_azureml(fresh: Shell, project: Path) -> None:
    cell = nbformat.v4.new_code_cell("import azureml.core; print(azureml.core.VERSION)")  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    nbformat.write(notebook, project / "train.ipynb")  # type: ignore[no-untyped-call]
    done = fresh("jupyter", "execute", "--inplace", "train.ipynb", cwd=project)
    assert done.code == 0, done.err
    (executed,) = json.loads((project / "train.ipynb").read_text())["cells"]
    assert executed["outputs"][0]["text"] == ["1.61.0\n"]


@pytest.mark.parametrize("command", [("jupyter", "lab"), ("az", "ml", "notebook", "start")])
def test_without_jupyter_it_says_what_to_install(fresh: Shell, venv: Path, command: tuple[str, ...]) -> None:
    done = fresh(*command, env={"VIRTUAL_ENV": str(venv), "PATH": os.defpath})
    assert done.code == 3 and "Jupyter is not installed here." in done.err
    assert f"{venv}/bin/python -m pip install jupyterlab" in done.err
