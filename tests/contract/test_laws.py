"""Every kind keeps the laws, has a harness here, and a page in the docs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.harnesses import HARNESSES
from windlass import drivers
from windlass.testing.harness import Harness
from windlass.testing.laws import Laws

PAGES = Path(__file__).parents[2] / "docs" / "targets"


def name_of(harness: type[Harness]) -> str:
    return "-".join(filter(None, [harness.kind, harness.label, "real" if harness.is_real else "fake"]))


@pytest.fixture(params=HARNESSES, ids=name_of)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    made: Harness = request.param.make(tmp_path, request.getfixturevalue)
    yield made
    made.close()


class TestLaws(Laws):
    """Each law, for each harness."""


@pytest.mark.parametrize("kind", drivers.known_kinds())
def test_every_kind_has_a_harness(kind: str) -> None:
    assert kind in {each.kind for each in HARNESSES}, f"add {kind} to tests/contract/harnesses.py"


@pytest.mark.parametrize("kind", drivers.known_kinds())
def test_every_kind_has_a_page_that_names_its_settings(kind: str) -> None:
    driver = drivers.load(kind)
    if driver.is_internal:
        assert not (PAGES / f"{kind}.md").exists()
        return
    page = (PAGES / f"{kind}.md").read_text()
    assert all(f"`{name}`" in page for name in driver.config_model.model_fields)


def test_there_are_twenty_one_laws() -> None:
    numbers = {name.split("_")[1] for name in dir(Laws) if name.startswith("test_")}
    assert numbers == {f"{number:02}" for number in range(1, 22)}
