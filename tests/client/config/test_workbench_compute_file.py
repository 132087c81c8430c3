"""`.compute` files and the run configurations beside them, of both generations: written on attach, read on submit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass import RunConfiguration
from windlass.client.config import workbench_compute_file, yaml
from windlass.client.config.workbench_compute_file import ComputeFile
from windlass.client.exceptions import NotProvided, RunConfigurationException
from windlass.client.submit.run_spec import run_spec
from windlass.client.submit.script_run_config import ScriptRunConfig
from windlass.core.names import split_address

BOX: dict[str, Any] = {
    "name": "box",
    "kind": "ssh",
    "config": {"address": "10.0.0.7", "port": 22, "username": "jane", "login": "password", "python": "python3"},
    "inventory": {"gpus": 0},
}


def box(**changes: Any) -> dict[str, Any]:
    return {**BOX, "config": {**BOX["config"], **changes}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hi')\n")
    return tmp_path


def written(project: Path, target: dict[str, Any], folder: str = "aml_config") -> dict[str, Any]:
    workbench_compute_file.write(target, str(project), folder)
    body: dict[str, Any] = yaml.load(str(project / folder / "box.compute"))
    return body


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("box", ("box", None)),
        ("box.lab:2222", ("box.lab", 2222)),
        ("10.0.0.7:22", ("10.0.0.7", 22)),
        ("::1", ("::1", None)),
        ("2001:db8::7", ("2001:db8::7", None)),
        ("[::1]", ("::1", None)),
        ("[::1]:2222", ("::1", 2222)),
        ("box:", ("box:", None)),
        ("box:22;id", ("box:22;id", None)),
        ("box:999999", ("box:999999", None)),
        ("", ("", None)),
    ],
)
def test_an_address_may_have_a_port(text: str, parts: tuple[str, int | None]) -> None:
    assert split_address(text) == parts


def test_a_machine_with_a_python_of_its_own(project: Path) -> None:
    body = written(project, box())
    reference = body.pop("password")
    assert body == {
        "address": "10.0.0.7",
        "nativeSharedDirectory": "~/.azureml/share/",
        "pythonLocation": "python3",
        "type": "remote",
        "userManagedEnvironment": True,
        "username": "jane",
    }
    name, user, number = reference.removeprefix("AzureMlSecret=").split("#")
    assert (name, user, len(number)) == ("box", "jane", 32), "a reference, never the password"


def test_a_machine_with_docker(project: Path) -> None:
    target = {**box(docker=True, base_image="python:3.11", port=2222, login="key"), "inventory": {"gpus": 2}}
    body = written(project, target)
    assert body.pop("privateKey").startswith("AzureMlSecret=box#jane#")
    assert body == {
        "address": "10.0.0.7:2222",
        "baseDockerImage": "python:3.11",
        "nvidiaDocker": True,
        "sharedVolumes": True,
        "type": "remotedocker",
        "username": "jane",
    }


def test_an_address_of_ipv6_has_brackets_before_its_port(project: Path) -> None:
    assert written(project, box(address="2001:db8::7", port=2222))["address"] == "[2001:db8::7]:2222"
    assert written(project, box(address="2001:db8::7"))["address"] == "2001:db8::7"


def test_with_a_login_that_needs_no_secret_there_is_no_reference(project: Path) -> None:
    assert {"password", "privateKey"}.isdisjoint(written(project, box(login="agent")))


def test_which_files_are_written(project: Path) -> None:
    assert workbench_compute_file.write(BOX, str(project), "aml_config") == [
        "aml_config/box.compute",
        "aml_config/box.runconfig",
    ]
    (project / "aml_config" / "box.runconfig").write_text("Target: box\n# mine\n")
    assert workbench_compute_file.write(BOX, str(project), "aml_config") == ["aml_config/box.compute"], (
        "what is mine stays"
    )
    assert "# mine" in (project / "aml_config" / "box.runconfig").read_text()


def test_a_project_without_packages_gets_a_file_for_them_where_they_are_used(project: Path) -> None:
    assert "aml_config/conda_dependencies.yml" in workbench_compute_file.write(
        box(docker=True), str(project), "aml_config"
    )
    loaded = RunConfiguration.load(str(project), "box")
    spec = run_spec(ScriptRunConfig(str(project), "train.py", run_config=loaded))
    assert spec.environment.interpreter == "python3", "the image's own, as long as nothing is named"


def test_one_that_is_there_is_used_however_it_is_spelled(project: Path) -> None:
    (project / "aml_config").mkdir()
    (project / "aml_config" / "Conda_dependencies.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - numpy\n")
    assert workbench_compute_file.write(box(docker=True), str(project), "aml_config") == [
        "aml_config/box.compute",
        "aml_config/box.runconfig",
    ]
    loaded = RunConfiguration.load(str(project), "box")
    assert loaded.environment.python.conda_dependencies is not None
    assert list(loaded.environment.python.conda_dependencies.pip_packages) == ["numpy"]


@pytest.mark.parametrize("folder", ["aml_config", ".azureml"])
@pytest.mark.parametrize("docker", [False, True])
def test_what_is_written_is_read_again(project: Path, folder: str, docker: bool) -> None:
    workbench_compute_file.write(box(docker=docker, base_image="python:3.11" if docker else None), str(project), folder)
    loaded = RunConfiguration.load(str(project), "box")
    assert (loaded.target, loaded.framework) == ("box", "Python")
    assert loaded.docker.use_docker is docker
    spec = run_spec(ScriptRunConfig(str(project), "train.py", run_config=loaded))
    assert (spec.container is not None) is docker
    assert spec.environment.image == ("python:3.11" if docker else None)
    assert spec.environment.interpreter == "python3"


def test_the_folder_says_which_generation(project: Path) -> None:
    workbench_compute_file.write(BOX, str(project))
    assert "target: box" in (project / ".azureml" / "box.runconfig").read_text()
    (project / "old" / "aml_config").mkdir(parents=True)
    workbench_compute_file.write(BOX, str(project / "old"))
    assert "Target: box" in (project / "old" / "aml_config" / "box.runconfig").read_text()


# reading what others wrote

REAL = {
    "docker": (
        'type: "localdocker"\nbaseDockerImage: "microsoft/mmlspark:plus-0.9.9"\n#sharedVolumes: true\n',
        "docker",
    ),
    "older docker": ('type: "docker"\nbaseDockerImage: "microsoft/mmlspark"\n', "docker"),
    "earliest docker": ("baseDockerImage: microsoft/mmlspark\n", "docker"),
    "local": ("type: local\n", "local"),
    "earliest local": ("native: True\n", "local"),
    "remote": ("type: remote\naddress: 10.0.0.7:2222\nusername: jane\nuserManagedEnvironment: true\n", "remote"),
    "earliest remote": ("native: True\naddress: 10.0.0.7\nusername: jane\n", "remote"),
    "remote docker": (
        "address: 10.0.0.7\nbaseDockerImage: somebody/mlgpu\nnativeSharedDirectory: ~/.azureml/share/\n"
        "password: AzureMlSecret=x#jane#0\nsharedVolumes: true\ntype: remotedocker\nusername: jane\n"
        "nvidiaDocker: true\n",
        "remotedocker",
    ),
    "earliest remote docker": ("address: 10.0.0.7\nusername: jane\n", "remotedocker"),
    "cluster": ("address: x-ssh.azurehdinsight.net\ntype: cluster\nusername: sshuser\n", "cluster"),
    "earliest cluster": ("address: x-ssh.azurehdinsight.net\ncluster: True\nusername: sshuser\n", "cluster"),
}


def lay(project: Path, compute: str, configuration: str = "Target: it\nFramework: Python\n") -> None:
    (project / "aml_config").mkdir()
    (project / "aml_config" / "it.compute").write_text(compute)
    (project / "aml_config" / "it.runconfig").write_text(configuration)


@pytest.mark.parametrize("which", REAL)
def test_every_form_of_the_file_is_understood(project: Path, which: str) -> None:
    text, kind = REAL[which]
    lay(project, text)
    found = workbench_compute_file.find(str(project), "it")
    assert found is not None and (found.name, found.kind) == ("it", kind)


def test_all_that_it_says_is_read(project: Path) -> None:
    lay(project, REAL["remote docker"][0])
    assert workbench_compute_file.find(str(project / "aml_config"), "it") == ComputeFile(
        name="it",
        kind="remotedocker",
        host="10.0.0.7",
        username="jane",
        base_image="somebody/mlgpu",
        has_gpus=True,
        shared_directory="~/.azureml/share/",
        password="AzureMlSecret=x#jane#0",
    )
    assert workbench_compute_file.find(str(project), "other") is None


@pytest.mark.parametrize("text", ["- a\n", "type: teapot\n", "just words\n"])
def test_what_is_no_such_file_is_said(project: Path, text: str) -> None:
    lay(project, text)
    with pytest.raises(RunConfigurationException):
        workbench_compute_file.find(str(project), "it")


@pytest.mark.parametrize(
    ("which", "target", "docker", "managed"),
    [
        ("docker", "docker", True, False),
        ("older docker", "docker", True, False),
        ("local", "local", False, True),
        ("remote", "it", False, True),
        ("remote docker", "it", True, False),
    ],
)
def test_a_run_lives_as_the_file_of_its_target_says(
    project: Path, which: str, target: str, docker: bool, managed: bool
) -> None:
    lay(project, REAL[which][0])
    loaded = RunConfiguration.load(str(project), "it")
    assert (loaded.target, loaded.docker.use_docker) == (target, docker)
    assert loaded.environment.python.user_managed_dependencies is managed


def test_an_image_and_its_gpus(project: Path) -> None:
    lay(project, REAL["remote docker"][0])
    spec = run_spec(ScriptRunConfig(str(project), "train.py", run_config=RunConfiguration.load(str(project), "it")))
    assert spec.environment.image == "somebody/mlgpu"
    assert spec.container is not None and spec.container.arguments == ("--gpus", "all")
    assert spec.container.shared_volumes is True


def test_a_python_that_people_manage_is_the_scripts(project: Path) -> None:
    compute = "type: remote\naddress: a\nuserManagedEnvironment: true\npythonLocation: /anaconda/envs/py35/bin/python\n"
    packages = "Target: it\nFramework: Python\nCondaDependenciesFile: aml_config/conda_dependencies.yml\n"
    lay(project, compute + "nativeSharedDirectory: ~/.azureml/share/\n", packages)
    (project / "aml_config" / "conda_dependencies.yml").write_text("dependencies:\n- pip:\n  - numpy\n")
    spec = run_spec(ScriptRunConfig(str(project), "train.py", run_config=RunConfiguration.load(str(project), "it")))
    assert spec.environment.interpreter == "/anaconda/envs/py35/bin/python" and spec.environment.pip == ()
    assert spec.environment_variables == {"AZUREML_NATIVE_SHARE_DIRECTORY": "~/.azureml/share/"}


def loaded_variables(project: Path) -> dict[str, str]:
    return RunConfiguration.load(str(project), "it").environment_variables


@pytest.mark.parametrize("kind", ["localdocker", "remotedocker\naddress: 10.0.0.7"])
def test_scripts_in_containers_find_a_directory_that_is_their_own(
    project: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(project, f"type: {kind}\n")
    assert loaded_variables(project) == {"AZUREML_NATIVE_SHARE_DIRECTORY": "/tmp/"}
    assert capsys.readouterr().err == ""
    compute = project / "aml_config" / "it.compute"
    compute.write_text(f"type: {kind}\nsharedVolumes: false\n")
    assert loaded_variables(project) == {}
    compute.write_text(f"type: {kind}\nnativeSharedDirectory: ~/.azureml/share/\n")
    assert loaded_variables(project) == {"AZUREML_NATIVE_SHARE_DIRECTORY": "/tmp/"}
    assert "nativeSharedDirectory of a target is not shared with containers" in capsys.readouterr().err


def test_a_misspelt_setting_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "vm.compute").write_text("type: remotedocker\naddress: h\nbaseDockerImge: python:3.11\n")
    workbench_compute_file.read(str(project / "vm.compute"))
    assert "there is no setting 'baseDockerImge'; did you mean 'baseDockerImage'?" in capsys.readouterr().err


def test_a_cluster_is_not_provided_and_says_so(project: Path) -> None:
    lay(project, REAL["cluster"][0])
    with pytest.raises(NotProvided, match="HDInsight cluster it"):
        RunConfiguration.load(str(project), "it")


def test_detached_only_its_own_file_goes(project: Path) -> None:
    workbench_compute_file.write(BOX, str(project), "aml_config")
    assert workbench_compute_file.remove(str(project), "box") == ["aml_config/box.compute"]
    assert [path.name for path in (project / "aml_config").iterdir()] == ["box.runconfig"]
    assert workbench_compute_file.remove(str(project), "box") == []


def test_a_batch_ai_cluster_is_known_and_says_what_to_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "aml_config").mkdir()
    text = "type: batchai\nsubscriptionId: s\nresourceGroup: g\nclusterName: c\nworkspaceName: w\n"
    (tmp_path / "aml_config" / "batch.compute").write_text(text)
    (tmp_path / "aml_config" / "batch.runconfig").write_text("ArgumentVector: [$file]\nTarget: batch\n")
    with pytest.raises(NotProvided, match="The Batch AI cluster batch"):
        RunConfiguration.load(str(tmp_path), "batch")
    assert capsys.readouterr().err == ""
