"""Azure's coordinates: read from ids, compared without regard to case, refused where they cannot be."""

from __future__ import annotations

import pytest

from windlass.core.coordinates import Coordinates, checked, matching, of_resource_id
from windlass.core.errors import InvalidRequest

AKS = "/subscriptions/12f4/resourceGroups/rg-One/providers/Microsoft.ContainerService/managedClusters/Merlion"


def test_a_resource_id_is_a_subscription_a_group_and_a_name() -> None:
    assert of_resource_id(AKS) == Coordinates("rg-One", "Merlion", "12f4")
    assert of_resource_id(AKS.replace("resourceGroups", "resourcegroups")).name == "Merlion"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Merlion",
        "/a/b",
        AKS[1:],
        AKS + "/",
        AKS + "/agentPools/x",
        AKS.replace("providers", "provider"),
        AKS.replace("rg-One", ""),
        AKS.replace("Merlion", " "),
        AKS.replace("12f4", "12\n4"),
        AKS.replace("Merlion", "a\u202eb"),
        AKS.replace("Merlion", "x" * 261),
    ],
)
def test_what_is_no_resource_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        of_resource_id(text)


@pytest.mark.parametrize("parts", [("", "name"), ("group", ""), ("a/b", "name"), ("group", "name", "a/b")])
def test_parts_that_cannot_be_are_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="no '/'"):
        checked(*parts)


def test_upper_and_lower_case_are_the_same() -> None:
    assert checked("RG", "Name", "S").key == checked("rg", "NAME", "s").key
    assert of_resource_id(AKS).fits(checked("RG-one", "merlion"))


@pytest.mark.parametrize(
    ("one", "other", "fits"),
    [
        (("g", "n"), ("g", "n"), True),
        (("g", "n", "s"), ("G", "N"), True),
        (("g", "n"), ("g", "n", "s"), True),
        (("g", "n", "s"), ("g", "n", "S"), True),
        (("g", "n", "s"), ("g", "n", "t"), False),
        (("g", "n"), ("g", "m"), False),
        (("g", "n"), ("h", "n"), False),
    ],
)
def test_a_subscription_counts_where_both_name_one(one: tuple[str, ...], other: tuple[str, ...], fits: bool) -> None:
    assert checked(*one).fits(checked(*other)) is fits


def test_equal_coordinates_win_over_those_that_fit() -> None:
    known = {"wide": checked("g", "n"), "narrow": checked("g", "n", "s"), "other": checked("g", "m")}
    assert matching(checked("g", "n", "s"), known) == ["narrow"]
    assert matching(checked("g", "n", "t"), known) == ["wide"]
    assert matching(checked("g", "n"), known) == ["wide"]
    assert matching(checked("h", "n"), known) == []
