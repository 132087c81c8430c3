"""What the documents state without a snippet: settings of clusters, reserved names, hosting, commands for the cloud."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.seeds.conftest import Bench
from windlass import (
    ComputeTarget,
    ComputeTargetException,
    Experiment,
    RemoteCompute,
    RunConfiguration,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)
from windlass.client.exceptions import AzureMLException, NotProvided
from windlass.core.errors import WindlassError

NETWORK = {"vnet_resourcegroup_name": "net", "vnet_name": "inner", "subnet_name": "nodes"}
ADMIN = {"admin_username": "ada", "admin_user_password": "Seven7even!", "admin_user_ssh_key": "ssh-rsa AAAA ada"}


@pytest.mark.parametrize(
    "settings",
    [
        {"vm_size": "STANDARD_D2_V2"},
        {"vm_size": "STANDARD_NC6"},
        {"vm_priority": "lowpriority"},
        {"min_nodes": 0, "idle_seconds_before_scaledown": 2400},
        {"location": "westeurope"},
        NETWORK,
        ADMIN,
    ],
    ids=lambda settings: next(iter(settings.items()))[-1] if len(settings) == 1 else next(iter(settings)),
)
def test_settings_of_a_cluster(ws: Workspace, settings: dict[str, Any]) -> None:
    from azureml.core.compute import AmlCompute

    made = AmlCompute.provisioning_configuration(max_nodes=4, **settings)
    assert made.max_nodes == 4
    assert {name: getattr(made, name) for name in settings} == settings


def test_sizes_of_machines(ws: Workspace) -> None:
    from azureml.core.compute import AmlCompute

    sizes = {size["name"].upper(): size for size in AmlCompute.supported_vmsizes(ws)}
    assert {"STANDARD_D2_V2", "STANDARD_DS3_V2"} <= set(sizes)
    assert {bool(size["gpus"]) for size in sizes.values()} == {False, True}, "with GPUs and without"


@pytest.mark.parametrize(
    ("name", "settings", "kind", "asked"),
    [
        ("BatchAiCompute", {"vm_size": "STANDARD_D2_V2", "max_nodes": 4}, "cluster", "a cluster"),
        ("AksCompute", {}, "aks", "an AKS cluster"),
        ("ComputeInstance", {"vm_size": "STANDARD_D2_V2"}, "instance", "a compute instance"),
    ],
)
def test_classes_of_a_kind_that_may_be_missing(
    ws: Workspace, kinds: set[str], name: str, settings: dict[str, Any], kind: str, asked: str
) -> None:
    found = getattr(import_module("azureml.core.compute"), name)
    configuration = found.provisioning_configuration(**settings)
    if kind in kinds:
        ComputeTarget.create(ws, "later-kind", configuration).wait_for_completion()
        return
    with pytest.raises(
        ComputeTargetException, match=f"^ComputeTargetException:\n\tMessage: Creating {asked} is not"
    ) as e:
        ComputeTarget.create(ws, "later-kind", configuration)
    assert f"no driver for targets of kind {kind}; use " in e.value.message


def test_hdinsight_takes_a_private_key(ws: Workspace) -> None:
    from azureml.core.compute import HDInsightCompute

    Path("id").write_text("a key\n")
    made = HDInsightCompute.attach_configuration(
        username="ada", address="h", private_key_file="id", private_key_passphrase="sesame"
    )
    assert (made.private_key_file, made.private_key_passphrase, str(made.ssh_port)) == ("id", "sesame", "22")


def test_only_managed_compute_is_created(ws: Workspace) -> None:
    config = RemoteCompute.attach_configuration(address="h", username="ada", password="x")
    with pytest.raises(AzureMLException):
        ComputeTarget.create(ws, "box", config)
    assert "box" not in ws.compute_targets
    with pytest.raises(ComputeTargetException, match="Delete is not supported .* Try to use detach instead"):
        ComputeTarget(ws, "local").delete()


def test_a_cluster_for_one_run(ws: Workspace, kinds: set[str]) -> None:
    config = RunConfiguration()
    config.target = "amlcompute"
    config.amlcompute.vm_size = "STANDARD_D2_V2"
    source = ScriptRunConfig(".", "myscript.py", run_config=config)
    if "cluster" in kinds:
        Experiment(ws, "once").submit(source).wait_for_completion()
        return
    with pytest.raises(WindlassError, match="cluster"):
        Experiment(ws, "once").submit(source)


@pytest.mark.parametrize("name", ["amlcompute", "containerinstance", "local"])
def test_reserved_names(ws: Workspace, name: str) -> None:
    config = RemoteCompute.attach_configuration(address="h", username="ada", password="x")
    with pytest.raises(UserErrorException, match=f"Please specify a different target name. {name} is a reserved name."):
        ComputeTarget.attach(ws, name, config)


def test_a_run_without_a_target(ws: Workspace) -> None:
    run = Experiment(ws, "serverless").submit(ScriptRunConfig(".", "myscript.py"))
    assert run.wait_for_completion()["target"] == "local"


def test_the_workflow(ws: Workspace, project: Path) -> None:
    """Develop, submit, query the metrics, register the model."""
    (project / "myscript.py").write_text(
        "import os\n"
        "from azureml.core import Run\n"
        "Run.get_context().log('accuracy', 0.9)\n"
        "os.makedirs('outputs', exist_ok=True)\n"
        "open('outputs/model.pkl', 'w').write('weights')\n"
    )
    experiment = Experiment(ws, "workflow")
    run = experiment.submit(ScriptRunConfig(str(project), "myscript.py", compute_target="local"))
    run.wait_for_completion()
    assert [found.get_metrics() for found in experiment.get_runs()] == [{"accuracy": 0.9}]
    assert run.register_model("seeds-model", model_path="outputs/model.pkl").version == 1


def test_hosting_says_what_to_use_instead(ws: Workspace) -> None:
    from azureml.core.model import Model
    from azureml.core.webservice import AciWebservice, AksWebservice, LocalWebservice
    from azureml.pipeline.steps import ParallelRunStep

    asked: list[Callable[[], Any]] = [
        lambda: Model.deploy(ws, "service", []),
        lambda: LocalWebservice.deploy_configuration(),
        lambda: AciWebservice.deploy_configuration(),
        lambda: AksWebservice.deploy_configuration(),
        lambda: ParallelRunStep(),
    ]
    for ask in asked:
        with pytest.raises(NotProvided) as caught:
            ask()
        assert caught.value.message.endswith(" is not provided in this version.") and caught.value.hint


def test_automl_is_not_provided(ws: Workspace) -> None:
    from azureml.train.automl import AutoMLConfig

    with pytest.raises(NotProvided) as caught:
        AutoMLConfig(task="classification")
    assert "ScriptRunConfig" in caught.value.hint


def test_availability_at_a_glance(bench: Bench) -> None:
    listed = bench.shell("compute", "list", "--json").json["targets"]
    assert {"local", "docker"} <= {target["name"] for target in listed}
    assert all({"slots", "active_runs", "queued_runs"} <= set(target) for target in listed)


@pytest.mark.parametrize("at", ["3:36", "3:37", "3:40", "3:43", "3:46"])
def test_commands_for_the_cloud_alone(bench: Bench, at: str) -> None:
    done = bench.run(at)
    assert done.code == 0
    said = done.out + done.err
    assert said.count("\n") == 1 and said.startswith("Nothing is needed here")
