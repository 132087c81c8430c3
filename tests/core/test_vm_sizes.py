"""Sizes of virtual machines by their names, in any spelling."""

from __future__ import annotations

import pytest

from windlass.core import vm_sizes
from windlass.core.errors import InvalidRequest
from windlass.core.vm_sizes import SIZES, VmSize, find, node_price, require, require_family


@pytest.mark.parametrize("name", ["STANDARD_D2_V2", "Standard_D2_v2", "d2_v2", " standard_d2_v2 "])
def test_a_size_is_found_in_any_spelling(name: str) -> None:
    assert find(name) == VmSize("Standard_D2_v2", 2, 7.0, 0, "Standard Dv2 Family", 0.146)


def test_sizes_with_gpus_say_so() -> None:
    assert find("STANDARD_NC6") == VmSize("Standard_NC6", 6, 56.0, 1, "Standard NC Family", 0.90)


def test_an_unknown_size_is_none() -> None:
    assert find("Standard_X1") is None and find("") is None


def test_the_usual_sizes_are_there() -> None:
    assert len(SIZES) >= 60
    for name in ("D2_V2", "DS12_V2", "NC6S_V3", "DS11_V2", "D3_V2", "DS3_V2", "E4ds_v4"):
        assert find(f"STANDARD_{name}") is not None, name


def test_every_size_has_a_family_and_a_price() -> None:
    for size in SIZES.values():
        assert size.family.startswith("Standard ") and size.family.endswith(" Family"), size
        assert size.price is not None and 0.01 < size.price < 50 and size.cores >= 1 and size.memory_gb > 0, size


def test_low_priority_costs_less() -> None:
    size = require("STANDARD_NC6")
    assert size.price_per_hour(is_low_priority=True) == pytest.approx(0.18)
    assert VmSize("mine", 1, 1).price_per_hour(is_low_priority=True) is None


def test_settings_of_a_target_have_a_price_if_their_size_has() -> None:
    assert node_price({"vm_size": "standard_nc6", "vm_priority": "lowpriority"}) == pytest.approx(0.18)
    assert node_price({"vm_size": "STANDARD_NC6"}) == pytest.approx(0.9)
    assert node_price({}) is None


def test_an_unknown_size_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(InvalidRequest) as caught:
        require("STANDARD_D2_V22")
    assert caught.value.message == "There is no VM size 'STANDARD_D2_V22'."
    assert caught.value.hint.startswith("Did you mean Standard_D2_v2 or Standard_")


@pytest.mark.parametrize("name", ["Dv2", "Standard Dv2 Family", "standardDv2Family", "STANDARD DV2 FAMILY VCPUS"])
def test_a_family_is_found_in_any_spelling(name: str) -> None:
    assert require_family(name) == "Standard Dv2 Family"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Standard_D2_v2", 'Its family is "Standard Dv2 Family".'),
        ("Dv22", 'Did you mean "Standard Dv2 Family"?'),
        ("xyz", "windlass quota list --all lists the families."),
    ],
)
def test_an_unknown_family_is_an_error_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        require_family(name)
    assert caught.value.hint == hint


def test_own_sizes_are_found_too_and_replace_azures() -> None:
    try:
        vm_sizes.declare({"big": VmSize("big", 64, 512), "Standard_NC6": VmSize("Standard_NC6", 8, 60, 2)})
        assert require("BIG").cores == 64 and require("nc6").gpus == 2
        assert vm_sizes.OWN_FAMILY in vm_sizes.families()
        assert len(vm_sizes.every_size()) == len(SIZES) + 1
    finally:
        vm_sizes.declare({})
    assert find("big") is None
