"""`windlass.core` is not `azureml.core`: a name of the SDK that is looked for here leads to where it is."""

from __future__ import annotations

import pytest

import windlass.core


def test_a_name_of_the_sdk_leads_to_its_place() -> None:
    with pytest.raises(ImportError, match="^Workspace is not in windlass.core. Write: from windlass import Workspace$"):
        exec("from windlass.core import Workspace")
    assert not hasattr(windlass.core, "Workspace")


def test_a_name_that_is_not_provided_says_what_to_do() -> None:
    with pytest.raises(ImportError, match=r"^Dataset is not provided in this version\. Pass paths"):
        exec("from windlass.core import Dataset")


@pytest.mark.parametrize("name", ["Wurkspace", "wurkspace"])
def test_other_names_are_not_there(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'windlass.core' has no attribute '{name}'"):
        getattr(windlass.core, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from windlass.core import {name}")


def test_its_modules_are_found() -> None:
    exec("from windlass.core import digests, names")
