"""Command lines of `az`, of all generations, against a real server: exit codes, and what they print."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.cli.az.conftest import Az, in_process

# Command line, exit code, keys of the answer (or a part of stdout), in the order in which a script has them.
LINES: list[tuple[str, int, tuple[str, ...] | str]] = [
    # Workspaces and folders.
    ("ml workspace create -n team -g rg -l here --tags a=b c=d", 0, ("name", "location", "resourceGroup")),
    ("ml workspace create -w team -g rg --exist-ok --friendly-name Team", 0, ("workspaceName", "friendlyName")),
    ("ml workspace create -w team -g rg", 1, ""),
    ("ml workspace create -n vaulted -g rg --key-vault x", 0, ("name",)),
    ("ml workspace list --query [].name -o tsv", 0, "team\n"),
    ("ml workspace list -g nowhere -o tsv", 0, ""),
    ("ml workspace show -n team", 0, ("creationTime", "id", "name", "workspaceid")),
    ("ml workspace show -w nowhere", 3, ""),
    ("ml workspace sync-keys -n team", 0, ""),
    ("ml workspace delete -n team --yes", 1, ""),
    ("ml workspace share -w team --user a@b.c --role Contributor", 1, ""),
    # Targets of the CLI v1 and of Workbench.
    ("ml computetarget list", 0, ("location", "name", "provisioningErrors", "provisioningState", "type")),
    ("ml computetarget list -g rg -w default -v -o tsv --query [].name", 0, "docker\nlocal\n"),
    ("ml computetarget show -n local --query provisioningState", 0, '"Succeeded"\n'),
    ("ml computetarget show -n nowhere", 3, ""),
    ("ml computetarget detach -n nowhere", 3, ""),
    ("ml computetarget delete -n local", 1, ""),
    ("ml computetarget get-credentials -n local", 1, ""),
    ("ml computetarget computeinstance start -n local", 1, ""),
    ("ml computetarget create amlcompute -n c1 --max-nodes 4", 2, ""),
    ("ml computetarget create amlcompute -n c1 --max-nodes 4 -s NC6 --vnet-name v --tag a=b", 0, ("name",)),
    ("ml computetarget create computeinstance -n c1 -s NC6 --no-wait", 1, ""),
    ("ml computetarget attach kubernetes -n k --compute-resource-id /x --namespace default", 1, ""),
    ("ml computetarget attach cluster --name hdi --address h --username u --password x", 1, ""),
    ("ml computetarget attach --cluster --name hdi --address h --username u --password x", 1, ""),
    ("ml computetarget attach remote -n vm -a h -u u", 1, ""),
    ("ml computetarget setup dsvm -n vm", 1, ""),
    ("ml computetarget update amlcompute -n local --max-nodes 2", 1, ""),
    # Targets of the CLI v2.
    ("ml compute list", 0, ("name", "provisioning_state", "type", "location")),
    ("ml compute list --type AmlCompute", 0, ("name", "size", "max_instances")),
    ("ml compute show -n local --resource-group rg", 0, ("name", "provisioning_state", "type")),
    ("ml compute show --name nowhere", 3, ""),
    ("ml compute create -f cluster.yml", 1, ""),
    ("ml compute create -n c1 -t AmlCompute --size STANDARD_D2_V2 --max-instances 4 -d 60 -p", 1, ""),
    ("ml compute create -n c1", 2, ""),
    ("ml compute create -n c1 -t Toaster", 2, ""),
    ("ml compute create -f none.yml", 1, ""),
    ("ml compute start -n local", 1, ""),
    ("ml compute list-nodes -n local", 1, ""),
    ("ml compute connect-ssh -n local", 1, ""),
    # Runs of the CLI v1.
    ("ml run list", 0, ("runId", "experimentName", "status", "createdUtc", "tags", "target", "runType")),
    ("ml run list --last 1 --minimal --status Completed -e past --query [].status -o tsv", 0, "Completed\n"),
    ("ml run list -e nowhere", 0, "[]\n"),
    ("ml run show -r {run}", 0, ("runId", "status", "runDefinition", "logFiles", "experimentName", "startTimeUtc")),
    ("ml run show --run nowhere", 3, ""),
    ("ml run update -r {run} --add-tag a=b --add-tag done", 0, ("runId", "tags")),
    ("ml run list --tags a=b --query 'length(@)'", 0, "1\n"),
    ("ml run monitor-logs -r {run}", 0, "trained []\n"),
    ("ml run download-logs -r {run} -d logs", 0, "logs/user_logs/std_log.txt"),
    ("ml run cancel -r {run}", 0, ("runId", "status")),
    ("ml run submit-script -c local -e v1 -t run.json train.py --alpha 1", 0, "trained ['--alpha', '1']\n"),
    ("ml run submit-script --ct local --source-directory src train.py", 0, "trained []\n"),
    ("ml run submit-script -c local fail.py", 1, "broken"),
    ("ml run submit-script -c nowhere train.py", 3, ""),
    ("ml run submit-script -c local", 2, ""),
    ("ml run submit -c local train.py 1", 0, "trained ['1']\n"),
    ("ml run submit-hyperdrive --hyperdrive-configuration-name hd.yml -c local train.py", 1, ""),
    # Models.
    ("ml model register -n made -f run.json --asset-path outputs/model.txt -t model.json --tag k=v", 0,
     ("id", "name", "version", "runId", "experimentName", "tags", "createdTime")),
    ("ml model register -n mine -p weights.txt -d text --model-framework Custom", 0, ("id", "description")),
    ("ml model register -n mine", 2, ""),
    ("ml model register -n mine -p nowhere.txt", 1, ""),
    ("ml model create -n mine --path weights.txt --tags a=b", 0, ("id", "type", "path", "creation_context")),
    ("ml model create -n mine --version 7 --path weights.txt", 1, ""),
    ("ml model create --file model.yml --set description=x", 0, ("id", "description")),
    ("ml model create -n fromrun -p runs:/{run}/outputs/model.txt", 0, ("id", "runId")),
    ("ml model create -n fromjob -p azureml://jobs/{run}/outputs/artifacts/paths/outputs/model.txt", 0, ("id",)),
    ("ml model list --model-name mine --latest --query [].version -o tsv", 0, "2\n"),
    ("ml model list -n mine --query [].id -o tsv", 0, "mine:2\nmine:1\n"),
    ("ml model list --tag k=v --query [].name -o tsv", 0, "made\n"),
    ("ml model show --model-id mine:1 -v", 0, ("id", "version")),
    ("ml model show -n mine -v 2 --query id -o tsv", 0, "mine:2\n"),
    ("ml model show -n nowhere", 3, ""),
    ("ml model download -i mine:1 -t down", 0, ("downloadPath",)),
    ("ml model download -i mine:1 -t down", 1, ""),
    ("ml model download -n mine --version 2 -p down --overwrite", 0, ("downloadPath",)),
    ("ml model update -i mine:1 --add-tag x=y --description other", 0, ("tags", "description")),
    ("ml model delete -i mine:1", 0, ""),
    ("ml model delete -n mine", 2, ""),
    ("ml model deploy -n svc -m mine:2 --ic ic.json --dc dc.json --overwrite", 1, ""),
    # Environments.
    ("ml environment scaffold -n scaffolded -d envdir", 0, ("name", "python", "docker")),
    ("ml environment scaffold -n other -d envdir", 2, ""),
    ("ml environment scaffold -n scaffolded -d envdir --overwrite", 0, ("name",)),
    ("ml environment register -d envdir", 0, ("name", "version", "python")),
    ("ml environment register -d nowhere", 3, ""),
    ("ml environment create --file env.yml --set version=4", 0, ("name", "version")),
    ("ml environment create -n boxed --image python:3.11", 0, ("name", "image")),
    ("ml environment create -n boxed", 2, ""),
    ("ml environment list --query [].name -o tsv", 0, "scaffolded\n"),
    ("ml environment list -n tools --query [].version -o tsv", 0, "4\n"),
    ("ml environment show -n tools -v 4", 0, ("name", "version", "environmentVariables")),
    ("ml environment show -n AzureML-Minimal --query name -o tsv", 0, "AzureML-Minimal\n"),
    ("ml environment show -n nowhere", 3, ""),
    ("ml environment download -n tools -d fetched", 0, ("name",)),
    ("ml environment download -n tools -d fetched", 2, ""),
    ("ml environment archive -n tools", 1, ""),
    # Jobs of the CLI v2.
    ("ml job create --file job.yml --stream --set inputs.alpha=2 -n my-job", 0, "trained ['--alpha', '2']\n"),
    ("ml job create -f job.yml -s --query name -o tsv --set display_name=other tags.team=red --web", 0, "v2_"),
    ("ml job create -f failing.yml --stream -o none", 1, ""),
    ("ml job create -f none.yml", 1, ""),
    ("ml job create", 2, ""),
    ("ml job validate -f job.yml", 0, ("result",)),
    ("ml job validate -f job.yml --set compute=azureml:nowhere", 3, ""),
    ("ml job show -n my-job", 0,
     ("command", "compute", "creation_context", "display_name", "experiment_name", "services", "status", "type")),
    ("ml job show -n my-job --query status -o tsv", 0, "Completed\n"),
    ("ml job show -n my-job --query services.Studio.endpoint", 0, '"http://'),
    ("ml job show -n nowhere", 3, ""),
    ("ml job list -r 1", 0, ("name", "status", "experiment_name", "creation_context")),
    ("ml job stream -n my-job", 0, "trained ['--alpha', '2']\n"),
    ("ml job download -n my-job -p got --all", 0, ""),
    ("ml job cancel --name my-job", 0, ""),
    ("ml job update -n my-job --set tags.a=b display_name=new --query display_name -o tsv", 0, "new\n"),
    ("ml job update -n my-job --set compute=x", 1, ""),
    ("ml job archive -n my-job", 0, ""),
    ("ml job list --query \"[?name=='my-job'].name\" -o tsv", 0, ""),
    ("ml job list --archived-only --query [].name -o tsv", 0, "my-job\n"),
    ("ml job restore -n my-job", 0, ""),
    ("ml job list --all-results true --query \"[?name=='my-job'].name\" -o tsv", 0, "my-job\n"),
    # Workbench.
    ("ml experiment submit -c local train.py --alpha 1", 0, "trained ['--alpha', '1']\n"),
    ("ml experiment submit --run-configuration local --async train.py", 0, "RunId:"),
    ("ml experiment submit -c local fail.py", 1, ""),
    ("ml experiment submit train.py", 2, ""),
    ("ml experiment prepare -c local", 0, ""),
    ("ml experiment status -r {run}", 0, "Completed"),
    ("ml experiment status -r {run} --query state -o tsv", 0, "Completed\n"),
    ("ml experiment list --query [].name -o tsv", 0, "past\n"),
    ("ml experiment create -n fresh", 0, ("id", "name")),
    ("ml experiment clean --all -t local", 0, ""),
    ("ml experiment diagnostics -r {run} -t local", 0, ("diagnostics", "runId")),
    ("ml experiment diagnostics -r {run} -d new/folder", 0, ("diagnostics",)),
    ("ml experiment monitor -r {run}", 0, "trained"),
    ("ml experiment monitor -r {run} --tensorboard --port 6006", 1, ""),
    ("ml experiment return -r {run} --path returned", 0, ("path",)),
    ("ml runconfigurations create -n mine -t local", 0, "Wrote"),
    ("ml runconfigurations list", 0, "mine\n"),
    ("ml runconfiguration list -o json --query run_configurations", 0, "mine"),
    ("ml runconfiguration delete -n mine", 0, ""),
    ("ml runconfiguration delete -n mine", 3, ""),
    ("ml history list --query \"[?accuracy!=null] | max_by(@, &accuracy).accuracy\"", 0, "0.5\n"),
    ("ml history last --query script_name -o tsv", 0, ".py\n"),
    ("ml history info --run {run} --artifact driver_log", 0, "trained []\n"),
    ("ml history info --run {run} --artifact nowhere", 3, ""),
    ("ml history promote -r {run} -ap outputs/model.txt -n model.txt", 0, ("Id", "link")),
    ("ml asset download -l assets/model.txt.link -d asset", 0, ("path",)),
    ("ml asset download -l nowhere.link -d asset", 3, ""),
    ("ml project create --name proj --workspace-name team -g rg", 0, ("Project path", "Workspace name")),
    ("ml account modelmanagement set -n x -g rg", 0, ""),
    # What comes later.
    *((f"ml {group} list -g rg", 1, "") for group in (
        "service", "endpoint", "online-endpoint", "batch-deployment", "dataset", "data", "datastore", "pipeline",
        "component", "schedule", "registry", "image", "env", "feature-store",
    )),
    # Around `az ml`.
    ("login --use-device-code", 0, ""),
    ("account set -s 0000", 0, ""),
    ("account show --query id -o tsv", 0, "00000000-0000-0000-0000-000000000000\n"),
    ("group create --name rg --location eastus", 0, ("name", "location", "properties")),
    ("group exists -n rg", 0, "true\n"),
    ("provider register --namespace Microsoft.ContainerService", 0, ""),
    ("feature register --namespace Microsoft.ContainerService --name AKS-ExtensionManager", 0, ""),
    ("extension add --name k8s-extension", 0, ""),
    ("k8s-extension create --name x --extension-type Microsoft.AzureML.Kubernetes --config enableTraining=True "
     "--cluster-type managedClusters --cluster-name c --resource-group r --scope cluster "
     "--auto-upgrade-minor-version False", 0, ""),
    ("aks create -n c -g rg", 1, ""),
    ("configure --defaults group=rg workspace=ws", 0, ""),
    ("--version", 0, "windlass "),
    ("version", 0, ("windlass", "extensions")),
    ("upgrade --yes", 0, ""),
    # Mistakes.
    ("ml jbo list", 2, ""),
    ("ml job lst", 2, ""),
    ("vmm list", 2, ""),
    ("ml job list --query [", 2, ""),
    ("ml job list -o xml", 2, ""),
    ("ml job list --a", 2, ""),
    ("ml job list --unknown", 2, ""),
    ("ml job list --query 'nofunction(@)'", 2, ""),
    ("ml job list --query 'length(nothing)'", 2, ""),
    ("ml job list -r -1", 2, ""),
    ("ml run list --last 0", 2, ""),
    ("ml folder attach --path /nowhere", 3, ""),
    ("ml model create -n mine -p weights.txt --type bogus", 2, ""),
    ("ml model create -f misspelt.yml", 1, ""),
]  # fmt: skip


def _is_explained(err: str) -> bool:
    """An error of az; or of Workbench, which says how a run ended."""
    return "ERROR: " in err or "Failed after" in err


def test_command_lines(az: Az) -> None:
    """They follow each other as in a script, so this is one test; every line that is wrong is reported."""
    wrong: list[tuple[object, ...]] = []
    for line, code, wanted in LINES:
        done = az(line)
        if done.code != code or "Traceback" in done.err or (code and not _is_explained(done.err)):
            wrong.append((line, done.code, done.out[-300:], done.err[-300:]))
        elif isinstance(wanted, str):
            wrong += [(line, "stdout", done.out[-300:], "")] if wanted not in done.out else []
        else:
            document = json.loads(done.out)
            first = document[0] if isinstance(document, list) else document
            wrong += [(line, "keys", str(sorted(first)), "")] if not set(wanted) <= set(first) else []
    assert not wrong, "\n".join(map(str, wrong))


def test_files_that_commands_write(az: Az, folder: Path) -> None:
    done = az("ml run submit-script -c local -e files -t written.json --async train.py")
    assert json.loads((folder / "written.json").read_text())["runId"] == done.json["runId"]
    assert az("ml model register -n written -p weights.txt -t id.json").code == 0
    assert json.loads((folder / "id.json").read_text())["modelId"] == "written:1"
    assert az("ml experiment diagnostics -r {run}").code == 0
    inside = set(zipfile.ZipFile(folder / "diagnostics.zip").namelist())
    assert {"run.json", "files/user_logs/std_log.txt", "source/train.py", "files/outputs/model.txt"} <= inside
    assert az("ml job download -n {run} -p downloaded").code == 0
    assert (folder / "downloaded" / "artifacts" / "outputs" / "model.txt").read_text() == "weights"


def test_a_folder_that_is_attached_has_workspace_experiment_and_configurations(
    az: Az, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print('here')\n")
    monkeypatch.chdir(tmp_path)
    done = az("ml folder attach -w attached -g rg -e chosen")
    assert done.json["Workspace name"] == "attached" and done.json["Experiment name"] == "chosen"
    assert {path.name for path in (tmp_path / ".azureml").iterdir()} == {
        "config.json", "project.json", "local.runconfig", "docker.runconfig",
    }  # fmt: skip
    ran = az("ml run submit-script -c local --query experimentName -o tsv train.py")
    assert ran.out == "chosen\n" and "here" in ran.err
    assert az("ml workspace show --query name -o tsv").out == "attached\n"
    monkeypatch.chdir("/")
    assert az(f"ml run list --path {tmp_path} --query [].experimentName -o tsv").out == "chosen\n"
    assert az("ml run list -w attached --query [].experimentName -o tsv").out == "chosen\n"


@pytest.mark.parametrize(
    "words",
    [
        ["$", "az", "ml", "job", "list", "-o", "none"],
        ["$az", "ml", "job", "list", "-o", "none"],
        ["ml", "job", "list", "-o", "none"],
        ["az", "ml", "\\", "job", "list", "\\\n", "-o", "none", "\\"],
        ["az", "ml", "job", "list", "--outp=none", "--resource", "rg"],
    ],
)
def test_pasted_forms(az: Az, words: list[str]) -> None:
    done = in_process(words)
    assert (done.code, done.out) == (0, "")


def test_a_backslash_of_the_script_is_left_alone(az: Az) -> None:
    assert "trained ['\\\\', '-o']" in az("ml run submit-script -c local train.py '\\' -o").out


def test_az_alone_explains_itself(az: Az) -> None:
    for line in ("", "ml", "ml job", "ml computetarget", "ml computetarget create"):
        done = az(line)
        assert done.code == 0 and "Usage: windlass az" in done.out


def test_nearest_commands_are_suggested(az: Az) -> None:
    assert "Did you mean `windlass az ml job`?" in az("ml jbo").err
    assert "Did you mean `windlass az ml job list`?" in az("ml job lst").err
    assert "--all-results, --archived-only" in az("ml job list --a").err


def test_what_has_no_meaning_is_said_once(az: Az) -> None:
    line = "ml workspace create -n network -g rg --storage-account x --keyvault y -o none"
    assert az(line).err == "WARNING: --keyvault, --storage-account have no meaning here.\n"
    assert az(f"{line} --exist-ok --only-show-errors").err == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model download -n hinted --target-dir .", "--overwrite"),
        ("model delete -n nowhere -v 1", "az ml model list"),
        ("workspace create -n default", "--exist-ok"),
        ("computetarget create amlcompute -n c2 --max-nodes 2 -s NC66", "Did you mean Standard_NC6"),
        ("environment show -n nowhere", "az ml environment list"),
    ],
)
def test_errors_of_commands_name_commands(az: Az, line: str, said: str) -> None:
    if "hinted" in line:
        assert az("ml model register -n hinted -p weights.txt").code == 0
    done = az(f"ml {line}")
    assert done.code and said in done.err
    assert not any(python in done.err for python in ("exist_ok=", "(workspace)", "attach_configuration"))


def test_a_saved_job_is_a_job(az: Az, folder: Path) -> None:
    (folder / "jobs").mkdir()
    assert az("ml job create -f job.yml --set inputs.alpha=5 --save-as jobs/saved.yml -o none").code == 0
    assert "trained ['--alpha', '5']" in az("ml job create -f jobs/saved.yml --stream").out


def test_what_show_prints_is_created_again(az: Az, folder: Path) -> None:
    made = az("ml job create -f job.yml --query name -o tsv").out.strip()
    (folder / "shown.yml").write_text(az(f"ml job show -n {made} -o yaml").out)
    again = az("ml job create -f shown.yml --stream -o json --set inputs.alpha=7")
    assert again.code == 0 and "trained ['--alpha', '7']" in again.err
    assert again.json["inputs"] == {"alpha": 7} and again.json["name"] != made
    assert "services of a run" not in again.err

    assert az("ml environment create -f env.yml --set name=shown").code == 0
    (folder / "shown-env.yml").write_text(az("ml environment show -n shown -o yaml").out)
    assert az("ml environment create -f shown-env.yml --query version -o tsv").out == "1\n"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("resources.instance_count=2", "--set resources.instance_count: Targets of kind local run on one node"),
    ],
)
def test_what_a_target_refuses_of_a_job_is_told_with_its_place(az: Az, setting: str, said: str) -> None:
    done = az(f"ml job create -f job.yml --set {setting}")
    assert done.code and "job.yml, " in done.err and said in done.err


def test_options_of_workbench_without_meaning_are_said(az: Az) -> None:
    done = az("ml experiment submit -c local -u --spark-dependencies nowhere.yml train.py")
    assert "--untracked has no meaning here" in done.err and "--spark-dependencies has no meaning here" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target: local\nnodeCount: 2\n", "mine.runconfig, line 2: nodeCount: Targets of kind local run on one node"),
        ("target: local\nmaxRunDurationSeconds: soon\n", "mine.runconfig, line 2: maxRunDurationSeconds is a number"),
        ("ArgumentVector: [$file]\nTarget: nowhere\n", "There is no target 'nowhere' in workspace default.\nTargets: "),
    ],
)
def test_mistakes_in_a_run_configuration_are_told_with_their_place(
    az: Az, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "mine.runconfig").write_text(text)
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    done = az("ml experiment submit -c mine train.py")
    assert done.code and said in done.err


def test_a_misspelt_key_of_a_compute_file_is_told_once(az: Az, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "aml_config" / "box.compute").write_text("type: remote\naddress: h\nusernam: u\n")
    (tmp_path / "aml_config" / "box.runconfig").write_text("ArgumentVector: [$file]\nTarget: box\n")
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert az("ml experiment submit -c box train.py").err.count("did you mean 'username'?") == 1


def test_a_run_configuration_brings_the_conda_file_that_it_names(
    az: Az, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aml_config").mkdir()
    monkeypatch.chdir(tmp_path)
    assert az("ml runconfiguration create -n boxed -t docker").code == 0
    from windlass import RunConfiguration

    assert RunConfiguration.load(str(tmp_path), "boxed").target == "docker"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("remotedocker -n vm -a h -u u -w x -g rg", "-w is the password in the command lines of Workbench"),
        ("remote -n vm -a 256.0.0.1 -u u -w ws -g rg -p pw", "An address is"),
        ("remote -n vm -a 256.0.0.1 -u u -w pw", "An address is"),
    ],
)
def test_the_two_meanings_of_w(az: Az, line: str, said: str) -> None:
    done = az(f"ml computetarget attach {line}")
    assert done.code in (1, 2) and said in done.err


def test_jobs_that_an_earlier_version_archived_by_a_tag(az: Az) -> None:
    name = az("ml job create -f job.yml --query name -o tsv").out.strip()
    listed = f"--query \"[?name=='{name}'].name\" -o tsv"
    assert az(f"ml job update -n {name} --set tags.archived=true").code == 0
    assert az(f"ml job list {listed}").out == ""
    assert az(f"ml job list --include-archived {listed}").out == f"{name}\n"
    assert az(f"ml job list --archived-only {listed}").out == f"{name}\n"
    assert az(f"ml job restore -n {name}").code == 0
    assert az(f"ml job list {listed}").out == f"{name}\n"
