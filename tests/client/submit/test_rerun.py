"""What a rerun changes in the specification of a run."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from windlass.client.exceptions import UserErrorException
from windlass.client.submit.rerun import Rerun, spread, with_argument
from windlass.core.codec import to_wire
from windlass.core.entities import Container, EnvironmentSpec, RunSpec

FILES = [{"path": "tools/train.py", "digest": "a" * 64, "size": 1, "executable": False}]


class OneSnapshot:
    """A session that knows the files of the run's snapshot."""

    def call(self, method: str, path: str) -> Any:
        assert (method, path) == ("GET", "/workspaces/default/runs/demo_1_aa/snapshot")
        return {"digest": "b" * 64, "files": FILES}


def a_rerun(**fields: Any) -> Rerun:
    spec = to_wire(RunSpec(**{"script": "train.py", **fields}))
    view = {"id": "demo_1_aa", "snapshot": "b" * 64, "spec": spec, "experiment": "demo", "name": "base",
            "type": "azureml.scriptrun", "tags": {"kind": "x", "archived": "true"},
            "properties": {"azureml.git.commit": "c0ffee", "replaced.python": "3.12"}}  # fmt: skip
    session: Any = OneSnapshot()
    return Rerun(session, "/workspaces/default", view)


@pytest.mark.parametrize(
    ("line", "name", "value", "result"),
    [
        ("--alpha 0.1 --beta 2", "alpha", "0.2", "--alpha 0.2 --beta 2"),
        ("--alpha=0.1", "alpha", "0.2", "--alpha=0.2"),
        ("alpha=0.1", "alpha", "0.2", "alpha=0.2"),
        ("--beta 2", "alpha", "0.2", "--beta 2 --alpha 0.2"),
        ("", "a", "1", "-a 1"),
        ("-a 3 -b 4", "a", "1", "-a 1 -b 4"),
        ("--learning-rate 1", "learning_rate", "2", "--learning-rate 2"),
        ("--learning_rate 1", "learning-rate", "2", "--learning_rate 2"),
        ("--alpha -1.5", "alpha", "-2", "--alpha -2"),
        ("--alpha --beta", "alpha", "1", "--alpha 1 --beta"),
        ("--alpha 1 --alpha 2", "alpha", "3", "--alpha 1 --alpha 3"),
        ("-lr 1", "-lr", "2", "-lr 2"),
        ("data.csv", "verbose", None, "data.csv --verbose"),
        ("--verbose", "verbose", None, "--verbose"),
        ("--alphabet x", "alpha", "1", "--alphabet x --alpha 1"),
    ],
)
def test_one_argument_is_replaced_or_added(line: str, name: str, value: str | None, result: str) -> None:
    assert with_argument(line.split(), name, value) == result.split()


def test_a_list_of_values_is_not_guessed() -> None:
    with pytest.raises(UserErrorException, match="--layers 64 32: it is not clear"):
        with_argument(["--layers", "64", "32"], "layers", "8")


@pytest.mark.parametrize("name", ["", "--", "a=b"])
def test_what_names_no_argument_is_refused(name: str) -> None:
    with pytest.raises(UserErrorException, match="not the name of an argument"):
        with_argument([], name, "1")


@pytest.mark.parametrize(
    ("command", "arguments", "result"),
    [
        (("torchrun", "tools/train.py", "--a", "1"), ["x"], ["torchrun", "tools/train.py", "x"]),
        (("sh", "./tools/train.py", "1"), [], ["sh", "./tools/train.py"]),
        (("{python}", "-m", "trainer.main", "1"), ["2"], ["{python}", "-m", "trainer.main", "2"]),
        (("nvidia-smi", "-L"), [], ["nvidia-smi"]),
    ],
)
def test_the_arguments_of_a_command_follow_its_script(
    command: tuple[str, ...], arguments: list[str], result: list[str]
) -> None:
    again = a_rerun(script=None, command=command)
    again.replace_arguments(arguments)
    assert again.spec["command"] == result


def test_a_line_for_a_shell_has_no_arguments() -> None:
    again = a_rerun(script=None, command=("sh", "-c", "train --alpha 1 && test"))
    with pytest.raises(UserErrorException, match="line for a shell"):
        again.set_arguments({"alpha": "2"})


def test_an_interactive_run_cannot_be_run_again() -> None:
    view = {"id": "demo_1_aa", "spec": None, "snapshot": None}
    session: Any = None
    with pytest.raises(UserErrorException, match="was not submitted"):
        Rerun(session, "/workspaces/default", view)


def test_an_interpreter_of_this_computer_stays_here() -> None:
    again = a_rerun(environment=EnvironmentSpec(interpreter="/here/bin/python"))
    again.move("gpu-box")
    assert (again.spec["target"], again.spec["environment"]["interpreter"]) == ("gpu-box", "python3")
    back = a_rerun(target="gpu-box", environment=EnvironmentSpec(interpreter="python3"))
    back.move("local")
    assert back.spec["environment"]["interpreter"] == sys.executable
    elsewhere = a_rerun(target="gpu-box", environment=EnvironmentSpec(interpreter="/opt/python"))
    elsewhere.move("other-box")
    assert elsewhere.spec["environment"]["interpreter"] == "/opt/python"


@pytest.mark.parametrize("fields", [
    {"environment": EnvironmentSpec(pip=("numpy",))},
    {"environment": EnvironmentSpec(interpreter="/in/it/python"), "container": Container()},
])  # fmt: skip
def test_packages_and_containers_move_as_they_are(fields: dict[str, Any]) -> None:
    again = a_rerun(**fields)
    before = dict(again.spec["environment"])
    again.move("gpu-box")
    assert again.spec["environment"] == before


def test_the_request_keeps_what_is_not_changed() -> None:
    body = a_rerun(secrets=("key",)).body(tags={"more": "1"})
    assert (body["experiment"], body["name"]) == ("demo", "base")
    assert body["tags"] == {"kind": "x", "more": "1"}, "the tag of archived runs would hide the new one"
    assert body["properties"] == {"azureml.git.commit": "c0ffee", "rerun_of": "demo_1_aa"}
    assert (body["spec"]["secrets"], body["spec"]["snapshot"]) == (["key"], "b" * 64)


def test_a_cluster_for_one_run_is_created_again() -> None:
    again = a_rerun(target="run-aa", definition={"target": "amlcompute", "amlcompute": {"vmSize": "STANDARD_D2_V2"}})
    assert again.spec["target"] == "amlcompute"


def a_spec(nodes: int, **distribution: Any) -> dict[str, Any]:
    return {"resources": {"nodes": nodes}, "distribution": {"processes_per_node": 2, **distribution}}


def test_processes_grow_with_the_nodes() -> None:
    pytorch = {"framework": "pytorch", "process_count": 4}
    assert spread(a_spec(3, **pytorch), a_spec(2, **pytorch))["distribution"]["process_count"] == 6
    tensorflow = {"framework": "tensorflow", "workers": 4}
    assert spread(a_spec(1, **tensorflow), a_spec(2, **tensorflow))["distribution"]["workers"] == 2
    chosen = {"framework": "tensorflow", "workers": 3}
    assert spread(a_spec(4, **chosen), a_spec(2, **chosen))["distribution"]["workers"] == 3


def test_the_run_definition_says_what_the_run_does() -> None:
    definition = {
        "arguments": ["--a", "1"],
        "job": {"command": "train --a 1"},
        "environment": {"python": {"interpreterPath": sys.executable}},
    }
    again = a_rerun(environment=EnvironmentSpec(interpreter=sys.executable), definition=definition)
    again.replace_arguments(["--a", "2"])
    again.move("gpu-box")
    found = again.body()["spec"]["definition"]
    assert (found["arguments"], found["target"]) == (["--a", "2"], "gpu-box")
    assert "job" not in found
    assert found["environment"]["python"]["interpreterPath"] == "python3"
