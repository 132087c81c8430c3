"""Examples in the style of public Azure ML code: each is executed unchanged, and its results are checked."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.hosts.network import Network
from tests.pages import ROOT
from tests.sdk.conftest import own_home
from windlass import Environment, Experiment, Model, Run, Workspace

EXAMPLES = ROOT / "examples" / "azureml"
SECONDS = 180


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One server for all of them, and the package azureml on the path."""
    for folder in own_home(tmp_path_factory.mktemp("examples") / "home"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT / "src" / "windlass" / "compat"))
            yield folder


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


class Project:
    """A copy of an example's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, file: str, **variables: str) -> str:
        """Execute a script; returns what it printed."""
        done = subprocess.run(
            [sys.executable, file],
            cwd=self.folder,
            env={**os.environ, **variables},
            capture_output=True,
            timeout=SECONDS,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def execute(self, file: str) -> list[list[Any]]:
        """Execute a notebook; returns the outputs of its code cells."""
        notebook = nbformat.read(self.folder / file, as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(self.folder)}}).execute()
        return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    name = re.sub(r"^test_", "", request.node.name).replace("_", "-")
    return Project(Path(shutil.copytree(EXAMPLES / name, tmp_path / name)))


def printed(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def runs_of(ws: Workspace, experiment: str, **filters: Any) -> list[Run]:
    """The newest first."""
    return list(Experiment(ws, experiment).get_runs(**filters))


def only_run(ws: Workspace, experiment: str) -> Run:
    (run,) = runs_of(ws, experiment)
    assert run.get_status() == "Completed"
    return run


def files_in(run: Run, *folders: str) -> list[str]:
    return [name for name in run.get_file_names() if name.startswith(folders)]


def test_logging_metrics(project: Project, ws: Workspace) -> None:
    assert "losses only: ['loss']" in project.run("submit.py")
    run = only_run(ws, "logging-metrics")
    metrics = run.get_metrics()
    assert metrics["loss"] == [math.exp(-epoch) for epoch in range(4)]
    assert metrics["progress"]["epoch"] == [0, 1, 2, 3] and math.isnan(metrics["diverged"])
    assert (metrics["final accuracy"], metrics["optimizer"]) == (0.875, "sgd")
    assert metrics["fibonacci"] == [0, 1, 1, 2, 3, 5, 8, 13]
    assert metrics["sine"] == {"angle": [0, 90, 180], "value": [0.0, 1.0, 0.0]}
    assert metrics["confusion"]["data"]["matrix"] == [[9, 1], [2, 8]]
    assert files_in(run, "gradient_") == [metrics["gradient"].rsplit("/", 1)[1]]


def test_manage_runs(project: Project, ws: Workspace) -> None:
    cells = project.execute("manage-runs.ipynb")
    *_, failed, completed = runs_of(ws, "manage-runs")
    assert completed.get_status() == "Completed" and completed.get_metrics() == {"message": "Hello from run!"}
    assert failed.get_status() == "Failed"
    assert failed.get_details()["error"]["error"] == {"code": "Demo", "message": "I give up"}
    (great,) = runs_of(ws, "manage-runs", tags={"quality": "fantastic run"})
    assert great.get_tags() == {"quality": "fantastic run", "worth another look": None}
    assert great.get_properties()["author"] == "azureml-user"
    assert [run.get_status() for run in Run.list(great.experiment, status="Canceled")] == ["Canceled"]
    parent = runs_of(ws, "manage-runs")[0]
    folds = {child.get_metrics().get("fold") for child in parent.get_children()}
    assert folds == {None, "a", "b"} and len(list(parent.get_children())) == 4
    assert printed(cells[-1]) == "True 1 None\n"


def test_hyperparameters_by_loop(project: Project, ws: Workspace) -> None:
    assert "best learning rate: 1.0" in project.run("search.py")
    runs = runs_of(ws, "hyperparameters-by-loop")
    assert [run.get_status() for run in runs] == ["Completed"] * 4
    assert [run.get_metrics()["learning_rate"] for run in runs] == [1.0, 0.5, 0.1, 0.01]
    assert all(len(run.get_metrics()["mse"]) == 50 for run in runs)
    (best,) = runs_of(ws, "hyperparameters-by-loop", tags={"best": "true"})
    assert best == runs[0] and Model(ws, "best-line").run_id == best.id


def test_train_on_local(project: Project, ws: Workspace) -> None:
    cells = project.execute("train-on-local.ipynb")
    run = only_run(ws, "train-on-local")
    assert run.get_metrics()["alpha"] == [0.1, 0.2, 0.5, 1.0]
    assert files_in(run, "outputs/") == [f"outputs/ridge_{alpha}.pkl" for alpha in ("0.10", "0.20", "0.50", "1.00")]
    assert "alpha is 0.10, and mse is 0.01" in printed(cells[3])
    model = Model(ws, "ridge_on_local")
    assert model.tags == {"alpha": "0.1"} and model.run_id == run.id


def test_train_with_conda_file(project: Project, ws: Workspace) -> None:
    assert "trained on 1,234,567 samples" in project.run("submit.py")
    run = only_run(ws, "train-with-conda-file")
    assert run.get_metrics() == {"version of humanize": "4.9.0"} and run.get_environment().name == "small"


def test_conda_dependencies(project: Project, ws: Workspace) -> None:
    assert "hello, 1.0 MB" in project.run("submit.py")
    packages = only_run(ws, "conda-dependencies").get_environment().python.conda_dependencies
    assert packages is not None and list(packages.pip_packages) == ["azureml-defaults", "humanize==4.9.0"]


def test_run_configurations(project: Project, ws: Workspace) -> None:
    project.run("submit.py")
    by_name, by_object = runs_of(ws, "run-configurations")
    assert by_object.get_metrics() == {"arguments": ["--quick", "yes"], "mode": "saved"}
    assert by_name.get_metrics() == {"arguments": ["--other"], "mode": "saved"}
    assert not list(project.folder.glob(".azureml/quick*"))


def test_train_on_remote_vm(project: Project, ws: Workspace, network: Network) -> None:
    machine = network.host("gpu-box")
    variables = {"VM_ADDRESS": machine.address, "VM_USER": machine.user, "VM_PASSWORD": machine.password}
    first = project.run("submit.py", **variables)
    assert "trained on gpu-box" in first and "Provisioning operation finished" in first
    assert (project.folder / "host.txt").read_text() == "gpu-box"
    assert "found existing: cpudsvm" in project.run("submit.py")
    runs = runs_of(ws, "train-on-remote-vm")
    assert [(run.get_status(), run.get_metrics()) for run in runs] == [("Completed", {"host": "gpu-box"})] * 2
    assert runs[0].get_details()["target"] == "cpudsvm"
    ws.compute_targets["cpudsvm"].detach()


def test_child_runs(project: Project, ws: Workspace) -> None:
    assert "6 runs with metrics" in project.run("submit.py")
    run = only_run(ws, "child-runs")
    assert run.get_metrics() == {"best fold": "fold-2"}
    children = list(run.get_children())
    assert [child.get_status() for child in children] == ["Completed"] * 5
    submitted = [child.get_metrics() for child in children if child.type == "azureml.scriptrun"]
    assert submitted == [{"alpha": 0.5, "parent": run.id}, {"alpha": 0.1, "parent": run.id}]


def test_register_model(project: Project, ws: Workspace) -> None:
    project.execute("register-model.ipynb")
    (model,) = Model.list(ws, name="mean")
    assert (model.version, model.tags, model.properties) == (1, {"area": "means", "type": "mean"}, {"samples": "3"})
    assert model.run_id == only_run(ws, "register-model").id
    for file in ("downloaded/model/mean.json", "azureml-models/mean/1/model/mean.json"):
        assert json.loads((project.folder / file).read_text()) == {"mean": 5.0}


def test_score_with_model(project: Project, ws: Workspace) -> None:
    assert "score: 21.0" in project.run("submit.py")
    project.run("submit.py")
    assert [run.get_metrics() for run in runs_of(ws, "score-with-model")] == [{"score": 21.0}] * 2
    assert [model.version for model in Model.list(ws, name="mean-model")] == [1], "the second time it is found"


def test_interactive_run(project: Project, ws: Workspace) -> None:
    cells = project.execute("train-in-notebook.ipynb")
    failed, *others = runs_of(ws, "train-in-notebook")
    assert failed.get_status() == "Failed" and [run.get_status() for run in others] == ["Completed"] * 4
    assert [run.get_metrics()["alpha"] for run in others] == [2.0, 1.0, 0.5, 0.0]
    (best,) = runs_of(ws, "train-in-notebook", tags="Best Run")
    assert best.get_metrics()["mse"] == min(run.get_metrics()["mse"] for run in others)
    assert best.get_file_names() == ["models/0.5.pkl", "outputs/model.pkl"] and best.get_snapshot_id()
    assert best.id in cells[-1][0]["data"]["text/html"]


def test_widgets(project: Project, ws: Workspace) -> None:
    cells = project.execute("watch-a-run.ipynb")
    run = only_run(ws, "watch-a-run")
    first, last = cells[1][0]["data"]["text/html"], cells[3][0]["data"]["text/html"]
    assert run.id in first and run.id in last and len(cells[1]) == 1
    assert "Completed" in last and "step 29: loss 0.055" in last and last.count("<polyline") == 3
    assert len(run.get_metrics()["loss"]) == 30


def test_estimator(project: Project, ws: Workspace) -> None:
    assert "['--regularization', 0.5, '--epochs', 3, '--verbose']" in project.run("submit.py")
    again, first = runs_of(ws, "estimator")
    assert first.get_metrics() == {"loss": [0.5, 1.0, 1.5]} and first.get_tags() == {"by": "estimator"}
    assert again.get_metrics() == {"loss": 0.5}
    assert first.get_details()["runDefinition"]["maxRunDurationSeconds"] == 600


def test_sklearn_estimator(project: Project, ws: Workspace) -> None:
    assert "'scikit-learn==0.20.3'" in project.run("submit.py")
    run = only_run(ws, "sklearn-estimator")
    assert run.get_metrics() == {"kernel type": "rbf", "penalty": 1.5, "accuracy": 1.0}
    assert run.get_environment().name == "sklearn-by-hand"


def test_images_and_tables(project: Project, ws: Workspace) -> None:
    project.execute("images-and-tables.ipynb")
    run = only_run(ws, "images-and-tables")
    metrics = run.get_metrics()
    assert metrics["Squares"] == [0, 1, 4, 9, 16] and metrics["sines"]["sine"] == [0.0, 0.5, 1.0]
    assert metrics["Cosine Wave"] == {"angle": [0, 30, 90], "cosine": [1.0, 0.866, 0.0]}
    assert metrics["confusion"]["data"]["matrix"] == [[3, 1], [0, 4]]
    assert metrics["residuals"]["data"] == {"bin_edges": [0, 1], "bin_counts": [2]}
    pictures = [metrics[name].rsplit("/", 1)[1] for name in ("grey", "plot")]
    assert files_in(run, "grey_", "plot_") == pictures
    run.download_file(pictures[1], str(project.folder / "plot.png"))
    assert (project.folder / "plot.png").read_bytes() == (project.folder / "grey.png").read_bytes()


def test_files_of_a_run(project: Project, ws: Workspace) -> None:
    project.run("submit.py")
    kept = files_in(only_run(ws, "files-of-a-run"), "outputs", "extra", "plots")
    assert kept == ["extra/notes.txt", "outputs/result.txt", *(f"plots/inner/{number}.csv" for number in range(3))]
    fetched = project.folder / "fetched"
    assert (fetched / "result.txt").read_text() == "forty-two" and (fetched / "notes.txt").read_text() == "by name"
    assert (fetched / "plots" / "inner" / "2.csv").read_text() == "x,y\n2,4\n"


def test_environments(project: Project, ws: Workspace) -> None:
    project.execute("environments.ipynb")

    def packages(name: str, version: str | None = None) -> list[str]:
        found = Environment.get(ws, name, version).python.conda_dependencies
        assert found is not None
        return list(found.pip_packages)

    assert packages("example-environment", "1") == ["azureml-defaults", "six==1.16.0"]
    assert packages("example-environment") == ["azureml-defaults"]
    assert packages("example-environment-clone") == ["azureml-defaults", "six==1.16.0", "humanize"]
    assert packages("from-pip") == ["humanize==4.9.0"]
    assert Environment.get(ws, "example-environment").environment_variables == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}
    assert (project.folder / "saved" / "azureml_environment.json").is_file()


def test_keyvault(project: Project, ws: Workspace) -> None:
    said = project.run("submit.py")
    assert "the value is in the logs: False" in said and "secret-" not in said
    metrics = only_run(ws, "keyvault").get_metrics()
    assert metrics == {"length of the password": 39, "missing": True}
    assert ws.get_default_keyvault().list_secrets() == []


def test_offline_script(project: Project, ws: Workspace) -> None:
    alone = project.run("train.py")
    assert "no run around this script" in alone and "Attempted to log scalar metric accuracy:\n0.75" in alone
    assert not any(experiment.name == "offline-script" for experiment in Experiment.list(ws))
    project.run("submit.py")
    run = only_run(ws, "offline-script")
    assert run.get_metrics() == {"accuracy": 0.75, "losses": [3, 2, 1]} and run.get_tags() == {"mode": "online"}


def test_workbench(project: Project, ws: Workspace) -> None:
    alone = project.run("iris_sketch.py")
    assert "Regularization Rate" in alone
    project.run("submit.py")
    runs = runs_of(ws, "workbench")
    assert [run.get_metrics()["Regularization Rate"] for run in runs] == [0.125, 0.25]
    assert all(run.get_metrics()["Variable"] == "Example Value" for run in runs)
    assert all(run.get_metrics()["Labels"] == ["setosa", "versicolor", "virginica"] for run in runs)


def test_run_details(project: Project, ws: Workspace) -> None:
    said = project.run("submit.py")
    assert "True Completed local" in said and "train.py ['--alpha', '0.5']" in said
    assert "in the log: True" in said and "failed: True" in said
    assert "hello from the log" in (project.folder / "logs-of-the-run/user_logs/std_log.txt").read_text()
    failed, completed = runs_of(ws, "run-details")
    assert (failed.get_status(), completed.get_status()) == ("Failed", "Completed")


def test_configuration(project: Project) -> None:
    cells = project.execute("configuration.ipynb")
    assert "using version 1.61.0" in printed(cells[0])
    written = json.loads((project.folder / ".azureml" / "config.json").read_text())
    assert written["workspace_name"] == "notebook-ws" and written["resource_group"] == "my-resource-group"
    found = Workspace.from_config(str(project.folder))
    assert (found.name, found.location) == ("notebook-ws", "eastus2")
    assert printed(cells[-1]) == "True\n"


# About all of them.

FILES = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".ipynb"))


def sources(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [path.read_text("utf-8")]
    return ["".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"] if "outputs" in cell]


def modules(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_names_azureml_alone_and_has_no_outputs(path: Path) -> None:
    assert not [name for source in sources(path) for name in modules(source) if name.split(".")[0] == "windlass"]
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


def test_every_example_is_listed_and_tested() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = set(re.findall(r"^\| \[([\w-]+)\]", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE))
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert len(folders) >= 20 and folders == listed and folders <= tested
