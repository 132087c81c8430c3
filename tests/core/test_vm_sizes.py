"""Sizes of virtual machines by their names, in any spelling."""

from __future__ import annotations

import pytest

from windlass.core.vm_sizes import SIZES, VmSize, find


@pytest.mark.parametrize("name", ["STANDARD_D2_V2", "Standard_D2_v2", "d2_v2", " standard_d2_v2 "])
def test_a_size_is_found_in_any_spelling(name: str) -> None:
    assert find(name) == VmSize("Standard_D2_v2", 2, 7.0, 0)


def test_sizes_with_gpus_say_so() -> None:
    assert find("STANDARD_NC6") == VmSize("Standard_NC6", 6, 56.0, 1)


def test_an_unknown_size_is_none() -> None:
    assert find("Standard_X1") is None and find("") is None


def test_the_usual_sizes_are_there() -> None:
    assert len(SIZES) >= 60
    for name in ("D2_V2", "DS12_V2", "NC6S_V3", "DS11_V2", "D3_V2", "DS3_V2", "E4ds_v4"):
        assert find(f"STANDARD_{name}") is not None, name
