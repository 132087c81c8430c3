"""Environments whose releases are not to be had here: the nearest ones are installed, and each run's record says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.indexes import HERE, PackageIndex
from windlass.runner.environments import interpreters

from ..conftest import Hosts
from ..pipe import Host
from .test_environment import LOG, UV, VERSION

MINOR = VERSION.rpartition(".")[0]
LOOK = "import importlib, sys; print(*(importlib.import_module(name).version for name in sys.argv[1:]))"
REPLACED = f"olden==1.0 → 1.2 (no wheel for Python {MINOR})"
UNTIL = "packages without a version → releases until 2025-03-01 (the time of olden==1.0)"


def fill(index: PackageIndex) -> PackageIndex:
    index.add("olden", "1.0", "2018-01-01", python="cp36")
    index.add("olden", "1.2", "2025-03-01", python=HERE)
    index.add("olden", "2.0", "2025-06-01", python=HERE)
    index.add("follower", "1.0", "2018-01-01")
    index.add("follower", "9.0", "2026-01-01")
    index.add("partner", "1.0", "2018-01-01", requires=["olden>=2"])
    index.add("foreign", "1.0", "2018-01-01", python="cp36")
    index.add_source("onlysource", "1.0", "2018-01-01")
    return index


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    with PackageIndex.served(tmp_path_factory.mktemp("dated")) as index:
        yield fill(index)


@pytest.fixture(scope="module")
def undated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    with PackageIndex.served(tmp_path_factory.mktemp("undated"), has_dates=False) as index:
        yield fill(index)


@pytest.fixture
def host(hosts: Hosts, tmp_path: Path) -> Host:
    # An address without a listener: no Python is downloaded.
    return hosts(env={"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON_INSTALL_MIRROR": "http://127.0.0.1:1"})


def asking(index: PackageIndex, *pip: str, **more: Any) -> dict[str, Any]:
    wishes = {"interpreter": None, "pip": list(pip), "pip_options": [f"--index-url {index.url}"], "conda": [],
              "channels": [], "python_version": MINOR, **more}  # fmt: skip
    return {"environment": wishes, "tools": {"uv": UV}}


def ran(host: Host, job: str, names: str, **environment: Any) -> str:
    """What the modules `names` say of their versions."""
    host.start(job, ["{python}", "-c", LOOK, *names.split()], **environment)
    assert host.wait(job, 60)["exit_code"] == 0, host.read(job) + host.read(job, LOG)
    return host.read(job).decode().strip()


def refused(host: Host, job: str, **environment: Any) -> str:
    host.python(job, "print('ran')", **environment)
    ended = host.wait(job, 60)
    assert ended["reason"] == "environment_failed"
    assert host.properties(job) == {}
    return str(ended["message"])


def test_a_release_without_a_wheel_is_replaced_in_the_log_and_in_the_record_of_every_run(
    host: Host, dated: PackageIndex
) -> None:
    environment = asking(dated, "olden==1.0", "follower")
    for job in ("first.1", "second.1"):
        assert ran(host, job, "olden follower", **environment) == "1.2 1.0", "the nearest, and one of its time"
        assert host.properties(job) == {"replaced.olden": REPLACED, "replaced.*": UNTIL}
    log = host.read("first.1", LOG).decode()
    assert REPLACED in log and UNTIL in log
    assert host.read("second.1", LOG) == b"", "it was built once"


def test_an_index_without_upload_times_gives_the_nearest_release_and_the_newest_of_the_rest(
    host: Host, undated: PackageIndex
) -> None:
    assert ran(host, "a.1", "olden follower", **asking(undated, "olden==1.0", "follower")) == "1.2 9.0"
    assert host.properties("a.1") == {"replaced.olden": REPLACED}


@pytest.mark.parametrize("has_dates", [True, False])
def test_a_newer_release_than_the_nearest_where_the_others_need_it(
    host: Host, dated: PackageIndex, undated: PackageIndex, has_dates: bool
) -> None:
    environment = asking(dated if has_dates else undated, "olden==1.0", "partner")
    assert ran(host, "a.1", "olden partner", **environment) == "2.0 1.0"
    assert host.properties("a.1")["replaced.olden"] == f"olden==1.0 → 2.0 (no wheel for Python {MINOR})"


def test_what_did_not_happen_is_not_recorded(host: Host, dated: PackageIndex) -> None:
    assert ran(host, "a.1", "olden", **asking(dated, "olden==1.0")) == "1.2"
    assert host.properties("a.1") == {"replaced.olden": REPLACED}


def test_what_can_be_had_is_installed_as_it_is(host: Host, dated: PackageIndex) -> None:
    environment = asking(dated, "olden==2.0", "onlysource==1.0", "follower")
    assert ran(host, "a.1", "olden onlysource follower", **environment) == "2.0 1.0 9.0"
    assert host.properties("a.1") == {}


def test_a_strict_environment_names_what_there_is_and_replaces_nothing(host: Host, dated: PackageIndex) -> None:
    ran(host, "replaced.1", "olden", **asking(dated, "olden==1.0"))
    message = refused(host, "strict.1", **asking(dated, "olden==1.0", strict=True))
    assert f"olden==1.0 has no wheel for Python {VERSION}: the nearest release that has one is 1.2" in message
    assert "Python 3.6 has one" in message and "leave out strict" in message
    same = asking(dated, "olden==2.0", "follower", strict=True)
    assert ran(host, "exact.1", "olden follower", **same) == "2.0 9.0"


@pytest.mark.parametrize("pin", ["foreign==1.0", "absent==1.0"])
def test_a_package_that_no_release_helps_fails_with_its_name(host: Host, dated: PackageIndex, pin: str) -> None:
    assert pin.partition("=")[0] in refused(host, "a.1", **asking(dated, pin, "follower"))


@pytest.mark.parametrize("has_dates", [True, False])
def test_a_python_of_past_years_is_replaced_and_its_packages_are_of_its_time(
    host: Host, dated: PackageIndex, undated: PackageIndex, has_dates: bool
) -> None:
    there = interpreters.choose("3.5.2")
    assert there is not None
    environment = asking(dated if has_dates else undated, "follower", python_version="3.5.2")
    assert ran(host, "a.1", "follower", **environment) == ("1.0" if has_dates else "9.0")
    told = host.properties("a.1")
    assert told.pop("replaced.python") == f"python 3.5.2 → {there.version} (the SDK needs 3.8 or newer)"
    assert list(told) == (["replaced.*"] if has_dates else [])
    assert "(the time of Python 3.5.2)" in told.get("replaced.*", "(the time of Python 3.5.2)")


def test_a_strict_environment_refuses_another_python(host: Host, dated: PackageIndex) -> None:
    message = refused(host, "a.1", **asking(dated, "follower", python_version="3.5.2", strict=True))
    assert "No Python on this machine is 3.5.2; there are" in message
    assert "The environment is strict" in message and "leave out strict" in message


# The pins of the documents and notebooks of 2019 and 2020.
OF_THE_TIME = ("scikit-learn==0.22.1", "pandas==0.25.3", "numpy==1.16.*", "pip==20.2.4", "azureml-defaults==1.20.0")
LOOK_BACK = """
import sys, numpy, pandas, sklearn
numpy.float(1)
print(*sys.version_info[:2], *(module.__version__ for module in (sklearn, pandas, numpy)))
"""


@pytest.mark.slow
def test_code_of_2020_runs_with_what_the_real_index_has(hosts: Hosts) -> None:
    wishes = {"interpreter": None, "pip": list(OF_THE_TIME), "pip_options": [], "conda": [], "channels": [],
              "python_version": "3.6.2"}  # fmt: skip
    host = hosts()
    host.python("a.1", LOOK_BACK, environment=wishes, tools={"uv": UV})
    assert host.wait("a.1", 600)["exit_code"] == 0, host.read("a.1") + host.read("a.1", LOG)
    said, told = host.read("a.1").decode(), host.properties("a.1")
    there = interpreters.choose("3.6.2")
    assert there is not None and said.startswith(" ".join(there.version.split(".")[:2]))
    assert told["replaced.python"].startswith(f"python 3.6.2 → {there.version}")
    assert told["replaced.numpy"].startswith("numpy==1.16.* → 1."), "3.7 was its last Python"
    assert all(text in host.read("a.1", LOG).decode() for text in told.values())
