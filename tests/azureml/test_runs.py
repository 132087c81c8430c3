"""Code that imports `azureml` only, with a real server."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from azureml.core import Experiment as AzureExperiment
from azureml.core import ScriptRunConfig, Workspace
from azureml.core.authentication import InteractiveLoginAuthentication, ServicePrincipalAuthentication

from tests.sdk.conftest import Project
from windlass import Experiment, Run
from windlass import Workspace as OurWorkspace

SCRIPT = """
from azureml.core import Run, VERSION
from azureml.core.run import _OfflineRun
from azureml.logging import get_azureml_logger
from azureml.core import Dataset

run = Run.get_context()
assert not isinstance(run, _OfflineRun)
run.log("accuracy", 0.9)
get_azureml_logger().log("Accuracies", [0.1, 0.2])
print("spoken", VERSION, run.experiment.workspace._workspace_id)
"""


@pytest.fixture(scope="module")
def run(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of a script that imports `azureml` in the environment that a run has."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(SCRIPT)
    submitted = AzureExperiment(Workspace.from_config(), "azureml").submit(ScriptRunConfig(str(folder), "train.py"))
    submitted.wait_for_completion()
    return submitted


def test_a_script_finds_the_package_in_a_run(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.get_metrics() == {"accuracy": 0.9, "Accuracies": [0.1, 0.2]}
    assert isinstance(run, Run)


@pytest.mark.parametrize("name", ["user_logs/std_log.txt", "azureml-logs/70_driver_log.txt"])
def test_the_log_is_found_by_both_names(run: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run.download_file(name, "log.txt")
    assert Path("log.txt").read_text() == "spoken 1.61.0 default\n"
    run.download_file(name)
    assert Path(name).name in {path.name for path in tmp_path.iterdir()}
    run.download_files(prefix=name, output_directory="some")
    assert Path("some", name).read_text() == "spoken 1.61.0 default\n"
    details = run.get_details_with_logs()
    assert name in details["logFiles"]
    assert details["logFiles"][name] == details["logFiles"].get(name) == "spoken 1.61.0 default\n"
    run.download_files(prefix=name.partition("/")[0], output_directory="folder")
    assert Path("folder", name).is_file()


def test_the_log_is_listed_once(run: Any, tmp_path: Path) -> None:
    def of_the_script(names: Any) -> list[str]:
        """Without the record of what it used, which a run of more than a second has."""
        return [name for name in names if "log" in name and not name.endswith("usage.jsonl")]

    assert of_the_script(run.get_file_names()) == ["user_logs/std_log.txt"]
    assert of_the_script(run.get_details()["logFiles"]) == ["user_logs/std_log.txt"]
    assert [Path(path).name for path in of_the_script(run.get_all_logs(str(tmp_path)))] == ["std_log.txt"]
    assert run.get_details()["logFiles"].get("azureml-logs/20_image_build_log.txt") is None
    with pytest.raises(KeyError):
        run.get_details()["logFiles"]["azureml-logs/75_job_post.txt"]


def test_a_file_of_a_classic_name_is_that_file(exp: Experiment, tmp_path: Path) -> None:
    with exp.start_logging(snapshot_directory=None, outputs=False) as run:
        run.upload_file("azureml-logs/70_driver_log.txt", b"own")
    run.download_file("azureml-logs/70_driver_log.txt", str(tmp_path / "log.txt"))
    assert (tmp_path / "log.txt").read_bytes() == b"own"


def test_the_header_opens_the_servers_api(ws: OurWorkspace) -> None:
    auth = InteractiveLoginAuthentication(tenant_id="contoso.example")
    workspace = Workspace.from_config(auth=auth)
    assert workspace._auth is workspace._auth_object is auth
    address = f"{workspace.discovery_url}/api/v1/workspaces/{workspace.name}"
    asked = urllib.request.Request(address, headers=auth.get_authentication_header())
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["name"] == workspace.name
    assert Workspace.from_config()._auth.get_authentication_header() == auth.get_authentication_header()


def test_a_secret_that_is_given_is_kept_nowhere() -> None:
    auth = ServicePrincipalAuthentication("tenant", "program", service_principal_password="swordfish")
    assert "swordfish" not in repr(auth) + repr(vars(auth))


def test_a_token_for_azures_services_is_refused(ws: OurWorkspace) -> None:
    from azureml.core.authentication import AzureMLTokenAuthentication, TokenAuthentication

    with pytest.raises(Exception, match="A token for Azure's services is not provided"):
        InteractiveLoginAuthentication().get_token("https://management.example/.default")
    assert TokenAuthentication(lambda audience: f"for {audience.value}").get_token() == "for ARM"
    of_run = AzureMLTokenAuthentication.create("swordfish", 1, "host", "s", "g", "w", "e", "r")
    assert of_run.get_authentication_header()["Authorization"].startswith("Bearer ")
    assert "swordfish" not in str(vars(of_run)) and of_run.expiry_time == 1


def test_assigning_the_limit_of_a_snapshot_changes_it(
    exp: Experiment, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    import azureml._restclient.snapshots_client as limits
    from azureml.exceptions import SnapshotException

    assert (limits.SNAPSHOT_MAX_SIZE_BYTES, limits.SNAPSHOT_MAX_FILES) == (300 * 1024 * 1024, 2000)
    config = ScriptRunConfig(project(train="pass", other="pass"), "train.py")
    monkeypatch.setattr(limits, "SNAPSHOT_MAX_SIZE_BYTES", 1)
    with pytest.raises(SnapshotException, match="exceeds the limit"):
        exp.submit(config)
    monkeypatch.setattr(limits, "SNAPSHOT_MAX_SIZE_BYTES", 1000)
    monkeypatch.setattr(limits, "SNAPSHOT_MAX_FILES", 1)
    with pytest.raises(SnapshotException, match="file limit of 1"):
        exp.submit(config)
    monkeypatch.setenv("AML_SNAPSHOT_NO_FILE_LIMIT", "True")
    assert exp.submit(config).wait_for_completion()["status"] == "Completed"


def test_telemetry_prints_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    from azureml.telemetry import set_diagnostics_collection

    set_diagnostics_collection(send_diagnostics=True)
    assert capsys.readouterr().out == "Turning diagnostics collection on. \n"
    set_diagnostics_collection(send_diagnostics=False)
    assert capsys.readouterr().out == ""


def test_the_logger_of_workbench_prints_without_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    from azureml.logging import get_azureml_logger

    get_azureml_logger().log("Accuracy", 0.5)
    assert capsys.readouterr().out == "Attempted to log scalar metric Accuracy:\n0.5\n"


def test_a_script_is_submitted_by_the_function_too(ws: OurWorkspace, project: Project) -> None:
    from azureml.core.script_run_config import get_run_config_from_script_run, submit

    config = ScriptRunConfig(project(train="import sys; sys.exit(len(sys.argv))"), "train.py", ["--a", 1])
    assert get_run_config_from_script_run(config).arguments == ["--a", 1]
    run = submit(config, ws, "by-function")
    assert run.wait_for_completion(raise_on_error=False)["error"]["error"]["code"]
    assert run.experiment.name == "by-function"


def test_workspaces_that_are_there_or_not(ws: OurWorkspace) -> None:
    from azureml.exceptions import ProjectSystemException, WorkspaceException

    made = Workspace.create("shim", subscription_id="s", resource_group="g", sku="basic", storage_account="/a/b/c")
    assert Workspace.get("shim", subscription_id="s", resource_group="g") == made
    with pytest.raises(WorkspaceException, match="shim"):
        Workspace.create("shim")
    with pytest.raises(ProjectSystemException):
        Workspace.create("shim")
    assert Workspace.create("shim", exist_ok=True).get_details()["workspaceid"] == made._workspace_id
    assert made in Workspace.list("s")["shim"]


def test_the_default_target_is_found_by_its_name(ws: OurWorkspace) -> None:
    from azureml.core.compute_target import ComputeTargetException
    from azureml.exceptions import UserErrorException

    with pytest.raises(ComputeTargetException, match="gpu-cluster not found"):
        ws.get_default_compute_target("GPU")
    with pytest.raises(UserErrorException, match="CPU or GPU"):
        ws.get_default_compute_target("TPU")


def test_models_and_their_payload(ws: OurWorkspace, tmp_path: Path) -> None:
    from azureml.core import Model
    from azureml.core.resource_configuration import ResourceConfiguration
    from azureml.exceptions import UserErrorException, WebserviceException

    (tmp_path / "model.txt").write_text("1")
    resources = ResourceConfiguration(cpu=1, memory_in_gb=0.5)
    assert ResourceConfiguration.deserialize(resources.serialize()).cpu == 1
    kept = Model.register(ws, str(tmp_path / "model.txt"), "shim-model", resource_configuration=resources)
    assert Model.deserialize(ws, kept.serialize()).id == kept.id
    assert Path(Model._get_model_path_remote("shim-model", 1, ws)).read_text() == "1"
    with pytest.raises(WebserviceException, match="cannot be found"):
        Model.register(ws, str(tmp_path / "nowhere"), "shim-model")
    with pytest.raises(UserErrorException, match="The data of a model is not provided"):
        Model.register(ws, str(tmp_path / "model.txt"), "shim-model", datasets=[("train", "data")])


def test_the_older_functions_know_whether_a_target_is_prepared(exp: Experiment, project: Project) -> None:
    from azureml.core.compute_target import LocalTarget, is_compute_target_prepared
    from azureml.core.runconfig import RunConfiguration

    config = RunConfiguration()
    config.target = LocalTarget()
    config.environment.python.user_managed_dependencies = True
    assert is_compute_target_prepared(exp, project(train="pass"), config)


def test_a_logger_has_another_level_for_a_while() -> None:
    import logging

    from azureml.core.util import NewLoggingLevel

    before = logging.getLogger("shim").level
    with NewLoggingLevel("shim", logging.ERROR) as logger:
        assert logger.level == logging.ERROR
    assert logging.getLogger("shim").level == before


def test_what_is_refused_is_caught_by_azures_names(ws: OurWorkspace, exp: Experiment, project: Project) -> None:
    from azureml.core import Environment
    from azureml.core.runconfig import MpiConfiguration
    from azureml.exceptions import AzureMLException, UserErrorException

    from windlass.core.errors import NotFound

    folder = project(train="pass")
    run = exp.start_logging(snapshot_directory=None)
    run.upload_file("a.txt", b"1")
    run.complete()
    two_nodes = ScriptRunConfig(folder, "train.py", distributed_job_config=MpiConfiguration(1, 2))
    for refused in (
        lambda: run.download_file("nope"),
        lambda: Run.get(ws, "nope"),
        lambda: Run(exp, "nope"),
        lambda: ws.get_run("nope"),
        lambda: Environment.get(ws, "nope"),
        lambda: exp.submit(ScriptRunConfig(folder, "train.py", compute_target="nope")),
        lambda: exp.submit(two_nodes),
        lambda: ws.get_default_keyvault().get_secret("no name!"),
    ):
        with pytest.raises(AzureMLException) as caught:
            refused()
        assert isinstance(caught.value, UserErrorException), caught.value
    with pytest.raises(NotFound) as missing:
        run.download_file("nope")
    assert missing.value.message == "File with path nope was not found,\navailable files include: a.txt."
