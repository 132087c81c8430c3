"""Attach configurations that name an Azure resource: their refusals, with Azure's texts."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import (
    AdlaCompute,
    AksCompute,
    BatchCompute,
    ComputeTargetException,
    DatabricksCompute,
    DataFactoryCompute,
    HDInsightCompute,
    KubernetesCompute,
)

FOO = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Foo/things/t"
CLUSTER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c"
MISMATCH = "Invalid resource_id provided, resource type Microsoft.Foo does not match for"


def refusal(configuration: Any, **given: Any) -> str:
    with pytest.raises(ComputeTargetException) as caught:
        configuration(**given)
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "noun"),
    [
        (DatabricksCompute, "Databricks"),
        (AdlaCompute, "DataLakeAnalytics"),
        (BatchCompute, "Batch"),
        (AksCompute, "AKS"),
        (DataFactoryCompute, "DataFactory"),
    ],
)
def test_a_resource_id_is_of_the_right_provider(kind: Any, noun: str) -> None:
    assert refusal(kind.attach_configuration, resource_id="/x") == "Invalid resource_id provided: /x"
    assert refusal(kind.attach_configuration, resource_id=FOO) == f"{MISMATCH} {noun}"


def test_a_head_node_is_called_hdinsight() -> None:
    assert refusal(HDInsightCompute.attach_configuration, username="jane").endswith("for HDInsight being attached.")
    wrong = refusal(HDInsightCompute.attach_configuration, username="jane", resource_id=FOO)
    assert wrong == f"{MISMATCH} HDInsight"


def test_a_kubernetes_cluster_is_named_by_one_of_two_ids() -> None:
    attach = KubernetesCompute.attach_configuration
    assert refusal(attach) == "Missing argument: resource_id."
    template = "/subscriptions/<>/resourceGroups/<>/providers/{}/<>"
    assert refusal(attach, resource_id="/x") == (
        "Invalid resource_id provided: /x \n Does not match\n"
        f"AKS template: {template.format('Microsoft.ContainerService/managedClusters')}\n or\n "
        f"ARC template: {template.format('Microsoft.Kubernetes/connectedClusters')}"
    )
    assert "identity_ids cannot be set" in refusal(attach, resource_id=CLUSTER, identity_ids=["a"])
    assert attach(resource_id=CLUSTER).to_dict() == {"resource_id": CLUSTER}


def test_an_aks_cluster_has_a_subnet_with_an_internal_balancer_only() -> None:
    assert "load balancer subnet can be changed" in refusal(
        AksCompute.attach_configuration, resource_id=CLUSTER, load_balancer_subnet="s"
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "noun", "first"),
    [
        (HDInsightCompute, ["jane", "host"], "HDI", 'address="ip_address",'),
        (DatabricksCompute, ["id", "token"], "Databricks", 'resource_group="name_of_resource_group",'),
        (AdlaCompute, ["id"], "ADLA", 'resource_group="name_of_resource_group",'),
        (AksCompute, ["id"], "AKS", 'resource_group="name_of_resource_group",'),
        (DataFactoryCompute, ["id"], "DataFactory", 'resource_group="name_of_resource_group",'),
    ],
)
def test_the_old_way_to_attach_has_azures_lines(kind: Any, arguments: list[str], noun: str, first: str) -> None:
    with pytest.raises(ComputeTargetException) as caught:
        kind.attach(None, "name", *arguments)
    lines = caught.value.message.splitlines()
    head = "This method is DEPRECATED. Please use the following code to attach a"
    assert lines[0] == f"{head} {noun} compute resource."
    assert lines[2] == f"attach_config = {kind.__name__}.attach_configuration({first}"
    assert lines[3].startswith(" " * lines[2].index(first))
    assert lines[-1] == "compute = ComputeTarget.attach(workspace, name, attach_config)"
