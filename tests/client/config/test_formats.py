"""Every file format: reading, writing and reading again gives the same; errors name file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from windlass import CondaDependencies, Environment, RunConfiguration
from windlass.client.config import cli_v2_compute_file, job_file, spark_dependencies, workbench_compute_file, yaml
from windlass.client.environments import environment_file
from windlass.client.exceptions import UserErrorException
from windlass.client.submit import gitignore
from windlass.client.workspace import config_file
from windlass.core.errors import WindlassError

RUNCONFIG = """\
script: train.py
arguments: [--rate, 0.5]
target: cpu-cluster
framework: PyTorch
communicator: Nccl
maxRunDurationSeconds: 3600
nodeCount: 2
priority: 3
environment:
  name: mine
  version: '4'
  environmentVariables: {EXAMPLE_ENV_VAR: EXAMPLE_VALUE}
  python:
    userManagedDependencies: false
    interpreterPath: python3
    condaDependenciesFile: .azureml/conda_dependencies.yml
    baseCondaEnvironment: null
  docker:
    enabled: true
    baseImage: mcr.example.org/base:1
    baseDockerfile: null
    buildContext: null
    sharedVolumes: false
    shmSize: 1g
    arguments: [--cpus, '2']
    baseImageRegistry: {address: r.example.org, username: null, password: null, registryIdentity: null}
    platform: {os: Linux, architecture: amd64}
  spark:
    repositories: [https://example.org/maven]
    packages:
    - {group: com.example, artifact: ml_2.11, version: '0.12'}
    precachePackages: false
  databricks:
    mavenLibraries: [{coordinates: a.b, repo: null, exclusions: []}]
    pypiLibraries: [{package: numpy, repo: null}]
    rcranLibraries: [{package: dplyr, repo: null}]
    jarLibraries: [{library: a.jar}]
    eggLibraries: [{library: a.egg}]
  r: null
  inferencingStackVersion: latest
  assetId: some/asset
history: {outputCollection: false, snapshotProject: true, directoriesToWatch: [logs, more]}
spark:
  configuration: {spark.app.name: mine, spark.yarn.maxAppAttempts: 2}
docker: {useDocker: true, sharedVolumes: false, arguments: [--init], shmSize: 3g}
hdi: {yarnDeployMode: client}
tensorflow: {workerCount: 3, parameterServerCount: 2}
mpi: {processCountPerNode: 4, nodeCount: 2}
pytorch: {communicationBackend: gloo, processCount: 4, nodeCount: 2}
paralleltask: {maxRetriesPerWorker: 1, workerCountPerNode: 2, terminalExitCodes: [3]}
dataReferences:
  blob: {dataStoreName: ds, pathOnDataStore: a/b, mode: download, overwrite: true, pathOnCompute: /x}
data: {set: {dataLocation: {dataset: {id: '1'}}}}
datacaches: [{name: c}]
outputData: {out: {outputLocation: {}}}
sourceDirectoryDataStore: ds
amlcompute: {vmSize: STANDARD_D2_V2, vmPriority: dedicated, retainCluster: true, name: c, clusterMaxNodeCount: 3}
kubernetescompute: {instanceType: gpu}
credentialPassthrough: true
command: python x.py
environmentVariables: {A: b}
applicationEndpoints: {lab: {type: JupyterLab}}
autoPrepareEnvironment: false
batchai: {nodeCount: 1}
containerInstance: {region: eastus, cpuCores: 2.0, memoryGb: 3.5}
newInTwentyThirty: {anything: [1]}
"""
WORKBENCH = """\
ArgumentVector: [$file, --rate, '0.5']
CondaDependenciesFile: aml_config/conda_dependencies.yml
EnvironmentVariables: {A: 1}
Framework: PySpark
PrepareEnvironment: false
SparkDependenciesFile: aml_config/spark_dependencies.yml
Target: docker
TrackedRun: false
UseSampling: true
DataSourceSettings: {my.dsource: {sampling: [1]}}
DataSourceSubstitutions: {a: b}
"""
SPARK = """\
configuration: {spark.app.name: mine, spark.executor.cores: 2}
repositories: [https://example.org/maven]
packages:
- {group: com.example, artifact: ml_2.11, version: '0.12'}
"""
CONDA = "name: x\nchannels: [conda-forge]\ndependencies:\n- python=3.11\n- pip:\n  - numpy==1.26.4\nvariables: {A: b}\n"
COMPUTE = """\
address: 10.0.0.7:2222
baseDockerImage: somebody/mlgpu
nativeSharedDirectory: ~/.azureml/share/
nvidiaDocker: true
password: AzureMlSecret=box#jane#0
sharedVolumes: false
sparkSubmitLocation: /usr/bin/spark-submit
type: remotedocker
username: jane
"""
JOB = """\
# a comment stays
type: command
name: job-1
display_name: The job
experiment_name: tries
description: What it does
tags: {team: vision}
properties: {key: value}
command: >-
  python main.py --rate ${{inputs.rate}} --data ${{inputs.data}} --out ${{outputs.model}}
code: src
inputs:
  rate: 0.5
  data: {type: uri_file, path: src/data.csv, mode: ro_mount}
outputs:
  model: {type: uri_folder, mode: rw_mount}
environment:
  image: mcr.example.org/base:1
  conda_file: conda.yml
environment_variables: {A: b}
compute: azureml:cpu-cluster
resources: {instance_count: 2, instance_type: gpu, shm_size: 1g, docker_args: --cpus 2}
distribution: {type: pytorch, process_count_per_instance: 1}
limits: {timeout: 600}
identity: {type: user_identity}
queue_settings: {job_tier: spot, priority: high}
"""
CLUSTER = """\
name: cpu-cluster
type: amlcompute
description: A cluster
tags: {team: vision}
location: westus
size: STANDARD_DS3_v2
tier: low_priority
min_instances: 0
max_instances: 2
idle_time_before_scale_down: 120
ssh_public_access_enabled: true
ssh_settings: {admin_username: me, ssh_key_value: ssh-ed25519 AAAA}
network_settings: {vnet_name: v, subnet: s}
identity: {type: user_assigned, user_assigned_identities: [{resource_id: r}]}
enable_node_public_ip: false
"""
INSTANCE = """\
name: my-instance
type: computeinstance
size: STANDARD_DS3_v2
idle_time_before_shutdown_minutes: 30
schedules:
  compute_start_stop:
  - action: stop
    trigger: {type: cron, expression: 0 18 * * *, time_zone: UTC}
setup_scripts: {creation_script: {path: a.sh, timeout_minutes: 20}}
create_on_behalf_of: {user_tenant_id: t, user_object_id: o}
"""
MACHINE = """\
name: vm
type: virtualmachine
resource_id: /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm
ssh_settings: {admin_username: me, ssh_port: 2222, ssh_private_key_file: ~/.ssh/id}
"""
KUBERNETES = "name: k8s\ntype: kubernetes\nresource_id: /subscriptions/s/k\nnamespace: team\nproperties: {a: 1}\n"
ENVIRONMENT = "name: mine\nversion: '3'\nimage: python:3.11\nconda_file: conda.yml\n"
ENVIRONMENT_JSON = (
    '{"name": "mine", "version": "2", "environmentVariables": {"A": "b"}, '
    '"docker": {"enabled": true, "shmSize": "1g"}, "python": {"interpreterPath": "python"}}'
)
NAMED = {"subscription_id": "s", "resource_group": "g", "workspace_name": "ws"}
CONFIG_JSON = '{"subscription_id": "s", "resource_group": "g", "workspace_name": "ws"}'
SCOPE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/ws/projects/tries"
PROJECT_JSON = json.dumps({"Id": "tries", "Scope": SCOPE})


def read_project(path: str) -> tuple[config_file.WorkspaceReference, str]:
    return config_file.read(path), config_file.read_experiment(path)


def save_run_configuration(value: RunConfiguration, path: str) -> None:
    value.save(path)


def load_job(path: str) -> Any:
    made = job_file.load(path)
    return made, made.config.run_config.to_dict()


class Format(NamedTuple):
    file: str
    text: str
    read: Callable[[str], Any]
    write: Callable[[Any, str], Any]
    value: Callable[[Any], Any] = lambda made: made  # what is compared


FORMATS = {
    "config.json": Format(
        ".azureml/config.json",
        CONFIG_JSON,
        config_file.read,
        lambda value, path: config_file.write(str(Path(path).parent), value, Path(path).name),
    ),
    "project.json": Format(
        "aml_config/project.json",
        PROJECT_JSON,
        read_project,
        lambda value, path: config_file.write_project(str(Path(path).parent), value[0], value[1], Path(path).name),
    ),
    "run configuration": Format(
        ".azureml/mine.runconfig", RUNCONFIG, RunConfiguration.load, save_run_configuration, RunConfiguration.to_dict
    ),
    "run configuration of Workbench": Format(
        "aml_config/mine.runconfig", WORKBENCH, RunConfiguration.load, save_run_configuration, RunConfiguration.to_dict
    ),
    "Spark dependencies": Format(
        "aml_config/spark_dependencies.yml", SPARK, spark_dependencies.load, spark_dependencies.dump
    ),
    "conda file": Format(
        "conda_dependencies.yml", CONDA, CondaDependencies, CondaDependencies.save, CondaDependencies.as_dict
    ),
    ".compute file": Format(
        "aml_config/box.compute",
        COMPUTE,
        workbench_compute_file.read,
        lambda value, path: yaml.write(path, workbench_compute_file.to_body(value)),
        lambda value: value._replace(name=""),
    ),
    "environment folder": Format(
        "folder/azureml_environment.json",
        ENVIRONMENT_JSON,
        lambda path: Environment.load_from_directory(str(Path(path).parent)),
        lambda value, path: value.save_to_directory(str(Path(path).parent), overwrite=True),
        Environment.to_dict,
    ),
    "v2 job": Format("job.yml", JOB, load_job, lambda value, path: job_file.dump(value[0], path)),
    "v2 environment": Format(
        "environment.yml", ENVIRONMENT, environment_file.load, environment_file.dump, Environment.to_dict
    ),
    **{
        f"v2 {name}": Format("compute.yml", text, cli_v2_compute_file.load, cli_v2_compute_file.dump)
        for name, text in (
            ("cluster", CLUSTER),
            ("compute instance", INSTANCE),
            ("virtual machine", MACHINE),
            ("Kubernetes", KUBERNETES),
        )
    },
}


# Saved in another form: as a run configuration of the second generation, with the packages of the conda file.
REWRITTEN = ("run configuration of Workbench", "v2 environment")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".azureml").mkdir()
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "data.csv").write_text("1\n")
    (tmp_path / ".azureml" / "conda_dependencies.yml").write_text(CONDA)
    (tmp_path / "aml_config" / "conda_dependencies.yml").write_text(CONDA)
    (tmp_path / "aml_config" / "spark_dependencies.yml").write_text(SPARK)
    (tmp_path / "conda.yml").write_text(CONDA)
    return tmp_path


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_and_written_is_read_again(project: Path, name: str) -> None:
    format = FORMATS[name]
    file = project / format.file
    file.write_text(format.text)
    first = format.read(str(file))
    value = format.value(first)
    other = file.with_name(f"again{file.suffix}") if file.suffix != ".json" else file
    format.write(first, str(other))
    assert format.value(format.read(str(other))) == value


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in REWRITTEN])
def test_every_key_survives_load_and_save(project: Path, name: str) -> None:
    format = FORMATS[name]
    file = project / format.file
    file.write_text(format.text)
    format.write(format.read(str(file)), str(file))
    assert differences(yaml.loads(format.text), yaml.load(str(file))) == []


def differences(wanted: Any, found: Any, name: str = "") -> list[str]:
    """The names of keys of `wanted` whose value `found` has not."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [each for key, value in wanted.items() for each in differences(value, found.get(key), f"{name}.{key}")]
    return [] if wanted == found else [name]


def test_a_saved_job_keeps_its_comments_and_finds_its_files_from_another_folder(project: Path) -> None:
    (project / "job.yml").write_text(JOB)
    (project / "jobs").mkdir()
    job_file.dump(job_file.load(str(project / "job.yml")), str(project / "jobs" / "job.yml"))
    assert "# a comment stays" in (project / "jobs" / "job.yml").read_text()
    moved = job_file.load(str(project / "jobs" / "job.yml"))
    assert moved.body["code"] == "../src" and moved.config.source_directory == str(project / "src")


def test_settings_of_a_job_without_meaning_are_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "command: ls\nenvironment: AzureML-Minimal\nidentity: {type: managed}\n"
    (project / "job.yml").write_text(f"{text}queue_settings: {{job_tier: spot}}\nresources: {{instance_type: a}}\n")
    job_file.load(str(project / "job.yml"))
    said = capsys.readouterr().err
    for line, key in ((3, "identity"), (4, "queue_settings.job_tier"), (5, "resources.instance_type")):
        assert f"job.yml, line {line}: {key} has no meaning here." in said


def test_spark_dependencies_are_ignored_for_python(project: Path) -> None:
    file = project / "aml_config" / "mine.runconfig"
    file.write_text(WORKBENCH)
    spark = RunConfiguration.load(str(file))
    assert spark_dependencies.of_run_configuration(spark) == spark_dependencies.load(
        str(project / "aml_config" / "spark_dependencies.yml")
    )
    file.write_text(WORKBENCH.replace("PySpark", "Python"))
    python = RunConfiguration.load(str(file))
    assert python.environment.spark.packages == [] and "spark.executor.cores" not in python.spark.configuration


@pytest.mark.parametrize(
    ("text", "ignored"),
    [("# data\n*.csv\n!keep.csv\n", ["a.csv"]), ("/src/\n", ["src"]), ("\ufeff*.csv\r\n", ["a.csv", "keep.csv"])],
)
def test_an_amlignore_is_read_as_git_reads_it(tmp_path: Path, text: str, ignored: list[str]) -> None:
    (tmp_path / ".amlignore").write_bytes(text.encode())
    (tmp_path / ".gitignore").write_text("*\n")
    rules = gitignore.Rules.of_folder(str(tmp_path))
    assert [name for name in ("a.csv", "keep.csv", "src") if rules.ignores(name, name, name == "src")] == ignored


BROKEN = [
    ("config.json", '{\n"workspace_name": ws\n}', r"config\.json, line 2: not valid JSON"),
    ("config.json", "{}", r"config\.json names no workspace"),
    ("project.json", '{"Id": "e",\n\n"Scope" "x"}', r"project\.json, line 3: not valid JSON"),
    ("project.json", '{"Id": "e", "Scope": "/nowhere"}', r"project\.json names no workspace"),
    ("run configuration", "script: x\n\nenvironment: [1]\n", r"runconfig, line 3: environment must be a map"),
    ("run configuration", "script: x\nframework: Pyton\n", r"line 2: framework: There is no framework 'Pyton'"),
    ("run configuration", "script: x\nnodeCount: two\n", r"runconfig, line 2: nodeCount is a whole number, not 'two'"),
    (
        "run configuration",
        "docker:\n  useDocker: yes\n",
        r"runconfig, line 2: docker\.useDocker is true or false, not 'yes'",
    ),
    ("run configuration", "dataReferences: [a]\n", r"runconfig, line 1: dataReferences is a map, not \['a'\]"),
    (
        "run configuration",
        "environment:\n  spark:\n    packages:\n    - a\n",
        r"line 4: environment\.spark\.packages must be a map of settings, not 'a'",
    ),
    (
        "run configuration",
        "environment:\n  docker:\n    baseImage: a\n    baseDockerfile: b\n",
        r"line 4: environment\.docker has baseImage and baseDockerfile",
    ),
    ("run configuration", "script: x\n  y: z\n", r"runconfig, line 2: a map inside a scalar"),
    ("run configuration of Workbench", "Target: a\nArgumentVector: b\n", r"line 2: ArgumentVector must be a list"),
    ("run configuration", "target: a\nautoPrepareEnvironment: maybe\n", r"line 2: autoPrepareEnvironment is true or"),
    ("run configuration", "docker:\n  shmSize: [1]\n", r"line 2: docker\.shmSize is a text, not \[1\]"),
    (
        "run configuration",
        "environment:\n  python:\n    condaDependenciesFile: no.yml\n",
        r"line 3: there is no conda file no\.yml",
    ),
    ("run configuration of Workbench", "Target: a\nPrepareEnvironment: maybe\n", r"line 2: PrepareEnvironment is true"),
    ("run configuration of Workbench", "Target: a\nTrackedRun: 7\n", r"line 2: TrackedRun is true or false, not 7"),
    ("run configuration of Workbench", "Target: a\nCondaDependenciesFile: no.yml\n", r"line 2: there is no conda file"),
    ("run configuration of Workbench", "Target: a\nFramework: Jva\n", r"line 2: There is no framework 'Jva'"),
    ("run configuration of Workbench", "Target: a\nEnvironmentVariables: b\n", r"line 2: EnvironmentVariables must"),
    (
        "Spark dependencies",
        "configuration: {}\nrepository: []\n",
        r"spark_dependencies\.yml, line 2: there is no key 'repository'\.\nDid you mean 'repositories'\?",
    ),
    ("Spark dependencies", "packages:\n- {group: a}\n", r"line 2: the key 'packages\[0\]\.artifact' is missing"),
    ("Spark dependencies", "packages:\n- a\n", r"line 2: packages is a list of maps, not of 'a'"),
    ("Spark dependencies", "repositories:\n- a: b\n", r"line 2: repositories is a list of texts, not of a map"),
    ("conda file", "dependencies:\n- numpy\n  - scipy\n", r"conda_dependencies\.yml, line 3: "),
    ("conda file", "dependncies: []\n", r"unknown dependncies key.*conda_dependencies\.yml, line 1"),
    (".compute file", "address: a\ntype: teapot\n", r"box\.compute, line 2: there is no type teapot"),
    (".compute file", "type: remotedocker\nnvidiaDocker: no\n", r"box\.compute, line 2: nvidiaDocker is true or false"),
    (".compute file", "type: remote\naddress: [foo]\n", r"box\.compute, line 2: address is HOST or HOST:PORT"),
    (".compute file", "type: remote\naddress: h:p:q\n", r"box\.compute, line 2: address is HOST or HOST:PORT"),
    (".compute file", "type: tea\n", r"There are: local, docker, localdocker, .*batchai"),
    (".compute file", "- a\n", r"box\.compute, line 1: '- a' is not a compute target"),
    ("environment folder", '{\n"name" 1}', r"azureml_environment\.json, line 2: not valid JSON"),
    ("environment folder", '{"docker": {\n"enabled": "no"}}', r"\.json, line 2: docker\.enabled is true or"),
    ("environment folder", '{\n"name": 3}', r"azureml_environment\.json, line 2: name is a text, not 3"),
    ("environment folder", '{"name": "a", "docker":\n{"baseImage": 4}}', r"line 2: docker\.baseImage is a text, not 4"),
    ("environment folder", '{"version": "1"}', r"azureml_environment\.json: the key 'name' is missing"),
    ("v2 job", "comand: ls\n", r"job\.yml, line 1: there is no key 'comand'\.\nDid you mean 'command'\?"),
    ("v2 job", "command: ls\n", r"job\.yml: the key 'environment' is missing"),
    ("v2 job", "", r"job\.yml, which is empty, is not a job"),
    ("v2 job", "- ls\n", r"job\.yml, line 1: '- ls' is not a job"),
    ("v2 job", "type: pipeline\njobs: {}\n", r"line 1: a job of type pipeline is not provided"),
    ("v2 job", "type: comand\n", r"job\.yml, line 1: there is no type 'comand'\.\nThere are: command, "),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: echo ${{inputs.a}}\ninputs: {b: 1}\n",
        r"job\.yml, line 2: \$\{\{inputs\.a\}\} is unknown\.\nThe job has inputs\.b\.",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\nresources:\n  instance_count: many\n",
        r"job\.yml, line 4: resources\.instance_count is a whole number of at least 1, not 'many'",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\nresources: {instances: 2}\n",
        r"job\.yml, line 3: there is no key 'resources\.instances'",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ncode: nowhere\n",
        r"job\.yml, line 3: there is no file or folder .*nowhere",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ncode: conda.yml\n",
        r"job\.yml, line 3: .*conda\.yml is a file; code names a folder",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ncode: https://example.org/x\n",
        r"job\.yml, line 3: code that is not a folder of this machine is not provided",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ninputs:\n  a:\n    path: azureml:data:1\n",
        r"job\.yml, line 5: data that is not a file or folder of this machine is not provided",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ncompute: azureml:far\ncode: src\n"
        "inputs:\n  a: {type: uri_file, path: conda.yml}\n",
        r"job\.yml, line 6: data outside of the code folder",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\noutputs:\n  a: {path: azureml://datastores/x}\n",
        r"job\.yml, line 4: an output with a path is not provided",
    ),
    ("v2 job", "environment: a/b:1\ncommand: ls\n", r"job\.yml, line 1: 'a/b:1' names no environment"),
    ("v2 job", "environment: azureml:mine@prod\ncommand: ls\n", r"job\.yml, line 1: there is no label 'prod'"),
    (
        "v2 job",
        "command: ls\nenvironment:\n  conda_file:\n    dependencies:\n    - a b c d\n",
        r"job\.yml, line 5: ",
    ),
    (
        "v2 job",
        "environment: azureml:AzureML-Minimal:1\ncommand: ls\ndistribution:\n  type: horovod\n",
        r"job\.yml, line 4: there is no distribution\.type 'horovod'",
    ),
    ("v2 job", "environment: azureml:AzureML-Minimal:1\ncommand: ls\ndistribution: {}\n", r"job\.yml, line 3: the key"),
    ("v2 environment", "image: a\n", r"environment\.yml: the key 'name' is missing"),
    ("v2 environment", "name: a\nconda: x\n", r"environment\.yml, line 2: there is no key 'conda'"),
    ("v2 environment", "name: a\n", r"environment\.yml: the environment has neither image, conda_file nor build"),
    (
        "v2 environment",
        "name: a\ndependencies: []\n",
        r"environment\.yml, line 2: 'dependencies' belongs in a conda file",
    ),
    (
        "v2 environment",
        "name: a\nimage: b\nbuild: {path: .}\n",
        r"environment\.yml, line 3: an environment has an image",
    ),
    (
        "v2 environment",
        "name: a\nconda_file: no.yml\n",
        r"environment\.yml, line 2: there is no file or folder .*no\.yml",
    ),
    ("v2 environment", "name: a\nbuild: {path: src}\n", r"environment\.yml, line 2: the Dockerfile .* cannot be read"),
    ("v2 cluster", "name: a\ntype: amlcomput\n", r"compute\.yml, line 2: there is no type 'amlcomput'\.\nThere are"),
    ("v2 cluster", "type: amlcompute\n", r"compute\.yml: the key 'name' is missing"),
    (
        "v2 cluster",
        "name: a\ntype: amlcompute\nmax_instance: 2\n",
        r"compute\.yml, line 3: there is no key 'max_instance'\.\nDid you mean 'max_instances'\?",
    ),
    (
        "v2 cluster",
        "name: a\ntype: amlcompute\nmin_instances: 3\nmax_instances: 2\n",
        r"compute\.yml, line 4: max_instances \(2\) is smaller than min_instances \(3\)",
    ),
    (
        "v2 cluster",
        "name: a\ntype: amlcompute\nssh_settings:\n  admin_usrname: x\n",
        r"compute\.yml, line 4: there is no key 'ssh_settings\.admin_usrname'\.\nDid you mean 'admin_username'\?",
    ),
    ("v2 Kubernetes", "name: a\ntype: kubernetes\nsize: b\n", r"compute\.yml, line 3: there is no key 'size'"),
]


@pytest.mark.parametrize(("name", "text", "message"), BROKEN)
def test_a_mistake_is_named_with_its_file_and_line(project: Path, name: str, text: str, message: str) -> None:
    format = FORMATS[name]
    (project / format.file).write_text(text)
    with pytest.raises(WindlassError, match=message):
        format.read(str(project / format.file))


def test_a_password_is_read_and_never_written_or_shown(tmp_path: Path) -> None:
    file = tmp_path / "compute.yml"
    file.write_text("name: a\ntype: amlcompute\nssh_settings: {admin_username: me, admin_password: Hunter2!}\n")
    found = cli_v2_compute_file.load(str(file))
    assert found.ssh_settings is not None and found.ssh_settings.admin_password == "Hunter2!"
    cli_v2_compute_file.dump(found, str(tmp_path / "again.yml"))
    assert "Hunter2!" not in (tmp_path / "again.yml").read_text() + repr(found)


def test_a_project_attaches_to_an_experiment(tmp_path: Path) -> None:
    named = config_file.WorkspaceReference(**NAMED)
    path = config_file.write_project(str(tmp_path / "aml_config"), named, "tries")
    assert read_project(path) == (named, "tries")
    plain = config_file.write(str(tmp_path / ".azureml"), named, "config.json")
    assert read_project(plain) == (named, "")


def test_what_is_set_is_said_to_be_set(project: Path) -> None:
    (project / "job.yml").write_text(JOB)
    with pytest.raises(UserErrorException, match=r"job\.yml, --set limits\.timeout: limits\.timeout is a whole number"):
        job_file.load(str(project / "job.yml"), ["limits.timeout=soon"])
    for wrong in ("limits", "=1", "limits..x=1"):
        with pytest.raises(UserErrorException, match="is not of the form KEY=VALUE"):
            job_file.load(str(project / "job.yml"), [wrong])
    with pytest.raises(UserErrorException, match="--set command.x: command is not a map"):
        job_file.load(str(project / "job.yml"), ["command.x=1"])
