"""Group C, first half: submits that cannot be meant. Nothing is run, nothing is kept, and it is said why."""

from __future__ import annotations

import json
import secrets
import threading
from typing import Any

import pytest

from tests.inputs.outside import API, WS, Answer, Outside

ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


def send(server: Outside, **spec: Any) -> Answer:
    return server.call("POST", f"{WS}/runs", server.submission(**spec))


def refused(server: Outside, *statuses: int, **spec: Any) -> str:
    """Refused by a submit and by the plan of the same, without effect."""
    with server.unchanged():
        planned = server.call("POST", f"{WS}/plan", server.submission(**spec)).refused(*statuses)
        sentence = send(server, **spec).refused(*statuses)
    assert sentence == planned
    return sentence


NO_SCRIPTS = {
    "C1 missing": "nothing.py",
    "C1 a folder's name": "main.py/",
    "C2 absolute": "/etc/passwd",
    "C3 up": "../../x.py",
    "C3 up in the middle": "a/../../x.py",
    "C4 a command": "a;touch {canary}",
    "C5 a substitution": "$(touch {canary}).py",
    "C6 backquotes": "`touch {canary}`",
    "C7 an option": "-c",
    "C8 newline": "main.py\nx",
    "C8 NUL": "main.py\0",
    "empty": "",
    "here": ".",
    "backslash": "..\\main.py",
    "drive": "C:/main.py",
    "address": "http://example.org/main.py",
    "device": "/dev/stdin",
    "other case": "MAIN.PY",
    "long": "a" * 5000 + ".py",
}


@pytest.mark.parametrize("script", NO_SCRIPTS.values(), ids=NO_SCRIPTS)
def test_a_script_that_is_not_there(server: Outside, script: str) -> None:
    refused(server, 400, script=script.replace("{canary}", str(server.canary)))


def test_neither_script_nor_command(server: Outside) -> None:
    assert "script or a command" in refused(server, 400, script=None)


@pytest.mark.parametrize(
    "name",
    [
        "a;touch canary",
        "$(touch canary).py",
        "`touch canary`",
        "-c",
        "-",
        "--help",
        "-m",
        "a b'\"c.py",
        "ünïcödé.py",
        "{python}",
    ],
)
def test_c4_to_c7_odd_names_of_scripts_are_only_names(sqlite: Outside, name: str) -> None:
    """A file may be called so. It is run as a file, whatever a shell or an interpreter would take it for."""
    body = sqlite.submission(files={name: ECHO.encode()}, script=name, arguments=["print('injected')"])
    run = sqlite.world.wait_final(sqlite.call("POST", f"{WS}/runs", body).kept()["id"])
    assert (run["state"], sqlite.file(run["id"])) == ("Completed", b"[\"print('injected')\"]\n"), run
    assert not (sqlite.world.folder(run["id"]) / "source" / "canary").exists()


def test_c11_c12_arguments_arrive_as_they_are(server: Outside) -> None:
    odd = [
        "--",
        "",
        " ",
        "-c",
        "a b",
        "'",
        '"',
        "$HOME",
        "$(touch {canary})",
        "`id`",
        "*",
        "a\nb",
        "\t",
        "é漢\U0001f600",
        "\\",
        "%s",
        "{python}",
    ]
    odd = [text.replace("{canary}", str(server.canary)) for text in odd]
    run = server.run(ECHO, *odd, "x" * 100_000)
    assert json.loads(server.file(run["id"])) == [*odd, "x" * 100_000]


def test_c11_very_many_arguments(sqlite: Outside) -> None:
    run = sqlite.run("import sys; print(len(sys.argv))", *["x"] * 100_000)
    assert (run["state"], sqlite.file(run["id"])) == ("Completed", b"100001\n")


@pytest.mark.parametrize(
    "arguments", [["x" * 200_000], ["é" * 70_000], ["x"] * 200_000, ["x" * 100_000] * 20], ids=range(4)
)
def test_c11_more_than_a_program_takes(server: Outside, arguments: list[str]) -> None:
    assert "Use a file" in refused(server, 413, arguments=arguments)


@pytest.mark.parametrize(
    "arguments", [["a\0b"], ["a\ud800"], [1], [None], [["a"]], [{"a": 1}], [True], "text", {"a": "b"}, 5], ids=repr
)
def test_c12_what_is_no_argument(server: Outside, arguments: Any) -> None:
    refused(server, 400, arguments=arguments)
    if isinstance(arguments, list):
        refused(server, 400, command=arguments, script=None)


VARIABLES = [
    "A=B",
    "",
    "1X",
    "BASH_FUNC_x%%",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "IFS",
    "A B",
    "A-B",
    "é",
    "A\nB",
    "A\0",
    "$A",
    "WINDLASS_URL",
    "WINDLASS_RUN_TOKEN",
    "AZUREML_RUN_TOKEN",
    "X" * 300,
]


@pytest.mark.parametrize("name", VARIABLES)
def test_c13_names_of_variables(server: Outside, name: str) -> None:
    refused(server, 400, environment_variables={name: "x"})
    refused(server, 400, environment={"interpreter": "python3", "variables": {name: "x"}})


@pytest.mark.parametrize("value", ["a\0b", 1, None, ["x"], {"a": "b"}, "\udc80"], ids=repr)
def test_c14_what_is_no_value_of_a_variable(server: Outside, value: Any) -> None:
    refused(server, 400, environment_variables={"A": value})


def test_c14_values_arrive_as_they_are_or_are_refused(server: Outside) -> None:
    values = {"A": "a\nb\r\t ", "B": "", "C": "$(id)", "D": "é\U0001f600", "E": "x" * 100_000, "PATH": "/nowhere"}
    script = "import json, os, sys; print(json.dumps({k: os.environ[k] for k in sys.argv[1:]}))"
    run = server.run(script, *values, environment_variables=values)
    assert json.loads(server.file(run["id"])) == values
    assert "Use a file" in refused(server, 413, environment_variables={"A": "x" * 200_000})
    assert "Use a file" in refused(server, 413, environment_variables={f"A{i}": "x" * 100_000 for i in range(20)})


def test_c14_a_value_of_64_mb(sqlite: Outside) -> None:
    with sqlite.unchanged():
        try:
            send(sqlite, environment_variables={"A": "x" * (64 << 20)}).refused(413)
        except ConnectionResetError:
            pass  # it did not listen to the end


@pytest.mark.parametrize("nodes", [0, -1, 1.5, 10**9, "4", True, [1], 2**63, -(2**63) - 1], ids=repr)
def test_c15_nodes(server: Outside, nodes: Any) -> None:
    refused(server, 400, resources={"nodes": nodes})


@pytest.mark.parametrize(
    "resources",
    [{"cpus": 0}, {"cpus": -1}, {"gpus": -1}, {"memory_mb": 0}, {"memory_mb": 2**62}, {"disks": 1}, [], "all", 5],
)
def test_c15_other_resources(server: Outside, resources: Any) -> None:
    refused(server, 400, resources=resources)


@pytest.mark.parametrize("seconds", [0, -1, 10**18, 1.5, "60", "1h", True, 2**64], ids=repr)
def test_c16_time_limits(server: Outside, seconds: Any) -> None:
    refused(server, 400, max_run_duration_seconds=seconds)


@pytest.mark.parametrize(
    "change",
    [
        {"grace_seconds": -1},
        {"grace_seconds": 10**9},
        {"priority": 10**9},
        {"priority": "high"},
        {"output_collection": "yes"},
        {"directories_to_watch": ["../x"]},
        {"directories_to_watch": ["/"]},
        {"directories_to_watch": [""]},
        {"directories_to_watch": "logs"},
        {"definition": []},
    ],
)
def test_other_fields(server: Outside, change: dict[str, Any]) -> None:
    refused(server, 400, **change)


def test_c17_an_unknown_target(server: Outside) -> None:
    assert "nowhere" in refused(server, 404, target="nowhere")


def test_c18_what_belongs_to_another_workspace_is_not_there(server: Outside) -> None:
    other = f"other-{secrets.token_hex(4)}"
    server.call("POST", f"{API}/workspaces", {"name": other}).kept()
    foreign = server.interactive()
    with server.unchanged():
        body = {"experiment": "inputs", "type": "interactive", "parent": foreign}
        server.call("POST", f"{API}/workspaces/{other}/runs", body).refused(404)
        server.call("GET", f"{API}/workspaces/{other}/runs/{foreign}").refused(404)
        server.call("POST", f"{API}/workspaces/{other}/runs/{foreign}/cancel").refused(404)


def test_c20_a_key_again_with_another_body(server: Outside) -> None:
    key = {"Idempotency-Key": secrets.token_hex(8)}
    body = server.submission("print('once')")
    first = server.call("POST", f"{WS}/runs", body, headers=key)
    again = server.call("POST", f"{WS}/runs", body, headers=key)
    assert (first.status, again.status) == (201, 200) and first.json["id"] == again.json["id"]
    server.world.wait_final(first.json["id"])
    with server.unchanged():
        for change in ({"name": "another"}, {"experiment": "another"}, {"type": "interactive", "spec": None}):
            server.call("POST", f"{WS}/runs", {**body, **change}, headers=key).refused(409)


def test_c20_a_key_twenty_times_at_once_makes_one_run(server: Outside) -> None:
    key = {"Idempotency-Key": secrets.token_hex(8)}
    body = server.submission("print('once')")
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(server.call("POST", f"{WS}/runs", body, headers=key)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.kept()["id"] for answer in answers}) == 1
    assert sorted(answer.status for answer in answers) == [200] * 19 + [201]
    assert server.world.wait_final(answers[0].json["id"])["state"] == "Completed"


@pytest.mark.parametrize("key", ["", " ", "k" * 10_240, "k\u00e9y", "a\tb"], ids=range(5))
def test_c21_keys_that_are_no_keys(server: Outside, key: str) -> None:
    with server.unchanged():
        answer = server.call("POST", f"{WS}/runs", server.submission(), headers={"Idempotency-Key": key})
        answer.refused(400)


def test_c24_more_than_the_target_has(server: Outside) -> None:
    assert "one node" in refused(server, 422, resources={"nodes": 2})
    assert "GPUs; 99 are asked for" in refused(server, 422, resources={"gpus": 99})
    assert "cores; 9999 are asked for" in refused(server, 422, resources={"cpus": 9999})


ENVIRONMENTS: list[dict[str, Any]] = [
    {"interpreter": ""},
    {"interpreter": "python3\0"},
    {"interpreter": "x" * 5000},
    {"interpreter": 3},
    {"interpreter": ["python3"]},
    {"interpreter": None, "pip": ["numpy\n--index-url http://example.org"]},
    {"interpreter": None, "pip": ["numpy\r"]},
    {"interpreter": None, "pip": "numpy"},
    {"interpreter": None, "pip": [1]},
    {"interpreter": None, "python_version": 3.11},
    {"interpreter": None, "python_version": "3.11\n"},
    {"docker": True},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=repr)
def test_environments_that_cannot_be(server: Outside, environment: dict[str, Any]) -> None:
    refused(server, 400, environment=environment)


@pytest.mark.parametrize(
    "interpreter", ["no-such-python", "/no/such/python", "/", "-c", "--version", "{canary}", "sh -c id"]
)
def test_interpreters_that_are_not_there(sqlite: Outside, interpreter: str) -> None:
    """Only the machine knows: the run fails, and says so."""
    run = sqlite.run("print('never')", environment={"interpreter": interpreter.replace("{canary}", str(sqlite.canary))})
    assert run["state"] == "Failed" and run["exit_code"] is None
    assert len(run["message"].split()) >= 3, run["message"]


@pytest.mark.parametrize(
    "command", [["no-such-command"], ["/no/such/command"], ["./main.py"], [""], ["touch /tmp/x"], ["-"]], ids=repr
)
def test_commands_that_are_not_there(sqlite: Outside, command: list[str]) -> None:
    answer = send(sqlite, command=command, script=None)
    if answer.status >= 400:
        answer.refused(400)
        return
    run = sqlite.world.wait_final(answer.kept()["id"])
    assert run["state"] == "Failed" and run["exit_code"] is None, run
    assert len(run["message"].split()) >= 3, run["message"]


@pytest.mark.parametrize(
    "files",
    [
        None,
        [],
        {},
        "x",
        [None],
        [1],
        [{}],
        [{"path": "main.py"}],
        [{"path": "main.py", "digest": "0" * 64, "size": "5"}],
        [{"path": "main.py", "digest": "0" * 64, "size": -5}],
        [{"path": "main.py", "digest": "0" * 64, "size": 2**70}],
        [{"path": "main.py", "digest": "zz", "size": 5}],
        [{"path": "main.py", "digest": "0" * 64, "size": 5, "mode": 0o4755}],
    ],
    ids=repr,
)
def test_manifests_that_cannot_be(server: Outside, files: Any) -> None:
    with server.unchanged():
        server.call("POST", f"{WS}/runs", {**server.submission(), "files": files}).refused(400)


def test_a_size_that_lies(server: Outside) -> None:
    """The bytes are there, but are not as many as the manifest says."""
    with server.unchanged():
        body = server.submission()
        body["files"][0]["size"] += 1
        server.call("POST", f"{WS}/runs", body).refused(400, 409)


def test_bytes_that_are_not_there(server: Outside) -> None:
    with server.unchanged():
        body = server.submission()
        body["files"].append({"path": "b.py", "digest": "ab" * 32, "size": 5, "executable": False})
        answer = server.call("POST", f"{WS}/runs", body)
        answer.refused(409)
        assert answer.error["details"]["missing"] == ["ab" * 32]
        server.call("POST", f"{WS}/runs", server.submission(snapshot="cd" * 32)).refused(400, 409)
