"""The command lines and project files of the second document, on real machines and with a real Docker engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hosts.host import Host
from tests.hosts.network import Network
from tests.seeds.conftest import Bench
from tests.seeds.items import ITEMS
from tests.wheels import make_wheel

PREPARED = "The compute target already prepared for the specified run configuration.\n"
LOOK = "import os, tiny; print(tiny.version, os.path.exists('/.dockerenv'))\n"


@pytest.fixture
def packages(project: Path) -> Path:
    """aml_config/conda_dependencies.yml with a wheel that no environment has yet."""
    (project / "aml_config").mkdir()
    return write_packages(project, "1.0")


def write_packages(project: Path, version: str) -> Path:
    make_wheel(project, "tiny", version, f"version = {version!r}  # {os.urandom(8).hex()}\n")
    file = project / "aml_config" / "conda_dependencies.yml"
    file.write_text(f"dependencies:\n- pip:\n  - --no-index\n  - ../tiny-{version}-py3-none-any.whl\n")
    return file


def facts(machine: Host) -> dict[str, str]:
    return {"address": machine.address, "user": machine.user, "password": machine.password}


def files(project: Path) -> set[str]:
    return {path.name for path in (project / "aml_config").iterdir()}


def test_local_docker(bench: Bench, packages: Path) -> None:
    (bench.project / "myscript.py").write_text(LOOK)
    assert bench.run("2:137", "--check").code == 1
    prepared = bench.run("2:137")
    assert prepared.code == 0 and "tiny==1.0" in prepared.out
    assert bench.run("2:137", "--check").out == PREPARED
    for at in ("2:127", "2:131"):
        ran = bench.run(at)
        assert (ran.code, ran.out) == (0, "1.0 True\n"), "the image is used as it was prepared"
    write_packages(bench.project, "2.0")
    changed = bench.run("2:127")
    assert (changed.code, changed.out.splitlines()[-1]) == (0, "2.0 True"), "a changed file is another image"


def test_prepare_environment(bench: Bench, packages: Path) -> None:
    configuration = bench.project / "aml_config" / "docker.runconfig"
    text = "Target: docker\nFramework: Python\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n"
    configuration.write_text(f"{text}PrepareEnvironment: false\n")
    refused = bench.run("2:127")
    assert refused.code != 0 and "is not prepared" in refused.err
    configuration.write_text(f"{text}PrepareEnvironment: true\n")
    assert bench.run("2:127").code == 0


def test_remote_docker(bench: Bench, packages: Path, machine: Host) -> None:
    attached = bench.confirm("2:164", **facts(machine))
    assert attached.code == 0 and machine.password not in attached.out
    assert files(bench.project) == {"remotevm.compute", "remotevm.runconfig", "conda_dependencies.yml"}
    assert "type: remotedocker" in (bench.project / "aml_config" / "remotevm.compute").read_text()
    (bench.project / "myscript.py").write_text(LOOK)
    prepared = bench.run("2:177")
    assert prepared.code == 0 and "tiny==1.0" in prepared.out
    ran = bench.run("2:169")
    assert (ran.code, ran.out) == (0, "1.0 True\n")


def test_a_machine_without_docker_is_told(bench: Bench, network: Network) -> None:
    bare = network.host("bare", environment={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    attached = bench.confirm("2:164", **facts(bare))
    assert attached.code == 0 and "Docker" in attached.out.partition("experiment prepare")[2]


def test_a_remote_machine(bench: Bench, machine: Host) -> None:
    attached = bench.confirm("2:200", **facts(machine))
    assert attached.code == 0 and machine.password not in attached.out
    assert files(bench.project) == {"remotevm.compute", "remotevm.runconfig"}
    compute = bench.project / "aml_config" / "remotevm.compute"
    assert "userManagedEnvironment: true" in compute.read_text()
    assert ITEMS["2:207"].file in compute.read_text()
    script = "import sys\nfrom azureml.core import Run\nprint(sys.executable, Run.get_context().id != '')\n"
    (bench.project / "myscript.py").write_text(script)
    first = bench.run("2:212")
    assert first.code == 0 and first.out.endswith("/python3 True\n"), "nothing was installed there before"
    compute.write_text(compute.read_text().replace("pythonLocation: python3", "pythonLocation: /usr/bin/python3"))
    assert bench.run("2:212").out == "/usr/bin/python3 True\n"


@pytest.mark.parametrize("at", ["2:261", "2:265"])
def test_the_workspaces_key(bench: Bench, packages: Path, machine: Host, at: str) -> None:
    attached = bench.confirm(at, address=machine.address, user=machine.user)
    assert attached.code == 0
    [public] = [line for line in attached.out.splitlines() if line.startswith("ssh-ed25519 ")]
    with open(machine.home / ".ssh" / "authorized_keys", "a") as keys:
        keys.write(f"{public}\n")
    prepared = bench.run("2:275")
    assert prepared.code == 0 and "tiny==1.0" in prepared.out
    assert "publickey" in machine.log and "Accepted password" not in machine.log


def test_local_uses_the_python_that_is_there(bench: Bench, packages: Path) -> None:
    (bench.project / "myscript.py").write_text("import importlib.util; print(importlib.util.find_spec('tiny'))\n")
    ran = bench.submit("local")
    assert (ran.code, ran.out) == (0, "None\n"), "conda_dependencies.yml is not used"


def test_environment_variables(bench: Bench) -> None:
    (bench.project / "aml_config").mkdir()
    text = f"Target: local\nFramework: Python\n{ITEMS['2:104'].file}"
    (bench.project / "aml_config" / "mine.runconfig").write_text(text)
    (bench.project / "myscript.py").write_text(ITEMS["2:111"].text())
    ran = bench.submit("mine")
    assert (ran.code, ran.out) == (0, "Example Value1\n")


def test_run_configurations_by_command(bench: Bench) -> None:
    assert bench.run("2:99b", "create", "--name", "mine", "--target", "local").code == 0
    assert bench.run("2:99b", "list").out == "mine\n"
    assert bench.run("2:99b", "delete", "--name", "mine").code == 0
    assert bench.run("2:99b", "list").out == ""


def test_several_run_configurations_for_one_target(bench: Bench) -> None:
    (bench.project / "aml_config").mkdir()
    (bench.project / "myscript.py").write_text("import os, sys; print(os.environ['SIDE'], sys.argv[1:])\n")
    for side in ("left", "right"):
        words = f'ArgumentVector: ["$file", "--rate", "{len(side)}"]'
        text = f"Target: local\n{words}\nEnvironmentVariables: {{SIDE: {side}}}\n"
        (bench.project / "aml_config" / f"{side}.runconfig").write_text(text)
    said = [bench.submit(side).out for side in ("left", "right")]
    assert said == ["left ['--rate', '4']\n", "right ['--rate', '5']\n"]


def test_an_hdinsight_cluster(bench: Bench, kinds: set[str], machine: Host) -> None:
    attached = bench.run("2:233", **facts(machine))
    if "spark" in kinds:
        assert attached.code == 0 and bench.run("2:243").code == 0
        return
    assert attached.code != 0 and machine.password not in attached.err
    assert "myhdi, an HDInsight cluster, is not provided in this version." in attached.err
    assert "windlass computetarget attach remote" in attached.err, "what there is instead"
    submitted = bench.run("2:243")
    assert submitted.code != 0 and "myhdi" in submitted.err


def test_pyspark_needs_spark(bench: Bench, kinds: set[str]) -> None:
    (bench.project / "aml_config").mkdir()
    (bench.project / "aml_config" / "spark_dependencies.yml").write_text("packages: []\n")
    (bench.project / "aml_config" / "mine.runconfig").write_text(
        "Target: local\nFramework: PySpark\nSparkDependenciesFile: aml_config/spark_dependencies.yml\n"
    )
    ran = bench.submit("mine")
    if "spark" in kinds:
        assert ran.code == 0
        return
    assert ran.code != 0 and "Running on Spark is not provided in this version." in ran.err
