"""Group B: names that are no names, in every place where something is called by a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.inputs.outside import API, WS, Answer, Outside

# Not the name of anything that is addressed by its name: experiment, run, target, workspace.
NO_IDENTIFIERS = {
    "B1 empty": "",
    "B2 a space": " ",
    "B2 spaces": "     ",
    "B2 a space that does not break": "\u00a0",
    "B5 65,536 characters": "a" * 65_536,
    "B6 up": "..",
    "B6 up and on": "../x",
    "B7 here": ".",
    "B8 an option": "-rf",
    "B8 a long option": "--help",
    "B9 slash": "a/b",
    "B9 slash first": "/ab",
    "B9 slash last": "ab/",
    "B10 backslash": "a\\b",
    "B11 a device with an ending": "nul.txt ",
    "B12 NUL": "a\0b",
    "B12 NUL last": "ab\0",
    "B13 newline": "a\nb",
    "B13 newline last": "ab\n",
    "B13 carriage return": "a\rb",
    "B13 tab": "a\tb",
    "B13 escape": "a\x1b[31mb",
    "B13 next line": "a\x85b",
    "B14 right to left": "a\u202eb",
    "B14 zero width": "a\u200bb",
    "B14 joiner": "a\u200db",
    "B14 byte order mark": "\ufeffab",
    "B14 line separator": "a\u2028b",
    "B15 composed": "caf\u00e9",
    "B15 decomposed": "cafe\u0301",
    "B15 Turkish": "\u0130\u0131",
    "B15 Cyrillic a": "\u0430b",
    "B15 full width": "\uff41\uff42",
    "B15 long s": "te\u017ft",
    "B15 Arabic digits": "a\u0661",
    "B16 emoji": "\U0001f600",
    "B18 markup": "<script>alert(1)</script>",
    "B18 template": "{{7*7}}",
    "B18 lookup": "${jndi:ldap://x}",
    "B18 format": "%s%n%x",
    "B18 SQL": "'; DROP TABLE runs;--",
    "B18 spreadsheet": "=cmd|' /C calc'!A0",
    "B18 shell": "$(touch {canary})",
    "B18 backquotes": "`touch {canary}`",
    "B18 semicolon": "x;touch {canary}",
    "B18 wildcard": "*",
    "B18 percent": "%",
    "B18 quote": "a'b\"c",
    "B18 dollar": "$HOME",
    "B18 tilde": "~root",
    "B18 URL": "http://example.org/",
}

Place = Callable[[Outside, str], Answer]


def _path(template: str, method: str = "GET", body: Any = None) -> Place:
    return lambda server, name: server.call(method, template.replace("NAME", quote(name, safe="")), body)


def _body(method: str, path: str, **body: Any) -> Place:
    def fill(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return {fill(key, name): fill(item, name) for key, item in value.items()}
        return name if value == "NAME" else value

    return lambda server, name: server.call(method, path, fill(body, name))


def _submit(**changes: Any) -> Place:
    def place(server: Outside, name: str) -> Answer:
        body = {**server.submission(), **{key: name if value == "NAME" else value for key, value in changes.items()}}
        return server.call("POST", f"{WS}/runs", body)

    return place


def _spec(**changes: Any) -> Place:
    def place(server: Outside, name: str) -> Answer:
        spec: dict[str, Any] = {key: name if value == "NAME" else value for key, value in changes.items()}
        return server.call("POST", f"{WS}/runs", server.submission(**spec))

    return place


IDENTIFIERS: dict[str, Place] = {
    "new experiment": _body("POST", f"{WS}/experiments", name="NAME"),
    "experiment": _path(f"{WS}/experiments/NAME"),
    "experiment to change": _path(f"{WS}/experiments/NAME", "PATCH", {"archived": True}),
    "experiment to delete": _path(f"{WS}/experiments/NAME", "DELETE"),
    "experiment of a submit": _submit(experiment="NAME"),
    "experiment of an interactive run": _body("POST", f"{WS}/runs", type="interactive", experiment="NAME"),
    "id of a new run": _submit(run_id="NAME"),
    "parent of a run": _submit(parent="NAME"),
    "type of a run": _submit(type="NAME"),
    "run": _path(f"{WS}/runs/NAME"),
    "run to cancel": _path(f"{WS}/runs/NAME/cancel", "POST"),
    "run to evict": _path(f"{WS}/runs/NAME/evict", "POST"),
    "run whose files": _path(f"{WS}/runs/NAME/files"),
    "run whose stream": _path(f"{WS}/runs/NAME/stream"),
    "new workspace": _body("POST", f"{API}/workspaces", name="NAME"),
    "workspace": _path(f"{API}/workspaces/NAME"),
    "workspace of runs": _path(f"{API}/workspaces/NAME/runs"),
    "target of a submit": _spec(target="NAME"),
    "target": _path(f"{WS}/targets/NAME"),
    "target to check": _path(f"{WS}/targets/NAME/check", "POST"),
    "new secret": _path(f"{WS}/secrets/NAME", "PUT", {"value": "abcd"}),
    "secret to grant": _path(f"{WS}/secrets/NAME", "PATCH", {"granted_to": "runs"}),
    "secret to delete": _path(f"{WS}/secrets/NAME", "DELETE"),
    "secret to open": _path(f"{WS}/secrets/NAME/sealed", "POST"),
    "target to change": _path(f"{WS}/targets/NAME", "PATCH", {"slots": 1}),
    "target to attach": _body("POST", f"{WS}/targets", name="NAME", kind="ssh", config={}),
    "target to detach": _path(f"{WS}/targets/NAME", "DELETE"),
    "target to probe": _path(f"{WS}/targets/NAME/probe", "POST"),
    "target to trust": _path(f"{WS}/targets/NAME/trust", "POST", {"pin": "ssh-ed25519 AAAA"}),
    "kind of a target": _body("POST", f"{WS}/probe", kind="NAME", config={}),
    "digest of a blob": _path(f"{WS}/blobs/NAME", "PUT"),
}


@pytest.mark.parametrize("name", NO_IDENTIFIERS.values(), ids=NO_IDENTIFIERS)
def test_what_is_no_name_is_refused_wherever_a_name_stands(server: Outside, name: str) -> None:
    name = name.replace("{canary}", str(server.canary))
    with server.unchanged():
        for where, place in IDENTIFIERS.items():
            answer = place(server, name)
            assert 400 <= answer.status < 500, (where, answer)
            answer.refused()


def test_b16_half_of_a_pair_is_no_name(server: Outside) -> None:
    with server.unchanged():
        for place in (IDENTIFIERS["new experiment"], IDENTIFIERS["target of a submit"], IDENTIFIERS["id of a new run"]):
            place(server, "a\ud800").refused(400)


def test_b3_b4_targets_have_2_to_32_characters(server: Outside) -> None:
    with server.unchanged():
        for name in ("x", "1x", "a" * 33, "a_b"):
            assert "2 to 32" in IDENTIFIERS["target"](server, name).refused(400)
            assert "2 to 32" in IDENTIFIERS["target of a submit"](server, name).refused(400)
        for name in ("ab", "a" * 17, "a" * 32, "CON"):
            assert IDENTIFIERS["target"](server, name).refused(404)
            assert IDENTIFIERS["target of a submit"](server, name).refused(404)


def test_the_longest_names_work_and_one_more_character_does_not(server: Outside) -> None:
    name = "e" * 255
    assert IDENTIFIERS["new experiment"](server, name).kept()["name"] == name
    run = server.call("POST", f"{WS}/runs", {"experiment": name, "type": "interactive"}).kept()
    assert len(run["id"]) <= 256 and server.call("GET", f"{WS}/runs/{run['id']}").kept()["experiment"] == name
    IDENTIFIERS["new experiment"](server, name + "e").refused(400)


def test_b11_names_of_devices_are_only_names_here(server: Outside) -> None:
    for name in ("CON", "nul", "aux", "LPT1"):
        assert IDENTIFIERS["new experiment"](server, name).kept()["name"] == name
        assert server.call("DELETE", f"{WS}/experiments/{name}").status == 204


def test_b17_names_that_differ_in_case_are_two(server: Outside) -> None:
    """On both databases alike: whoever sorts or compares without regard to case would mix them up."""
    runs = {}
    for name in ("Gpu-Twins", "gpu-twins", "GPU-TWINS"):
        runs[name] = server.interactive(experiment=name)
    for name, run_id in runs.items():
        found = server.call("GET", f"{WS}/runs?experiment={name}").kept()["runs"]
        assert [run["id"] for run in found] == [run_id]
    server.call("GET", f"{WS}/experiments/gPU-tWINS").refused(404)
    server.call("GET", f"{API}/workspaces/DEFAULT").refused(404)
    server.call("GET", f"{WS}/targets/LOCAL").refused(404)


# Text that is shown as it is: taken as it is, or refused; never turned into something else.
TEXTS = {name: text for name, text in NO_IDENTIFIERS.items() if text.strip()} | {
    "B11 a device": "CON",
    "B15 right to left script": "שלום",
    "B16 family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
}
# Nobody can see these, or they change what is seen beside them.
UNSHOWABLE = ("B12", "B13", "B14")
FINE = ("B14 joiner",)

TEXT_PLACES: dict[str, tuple[Callable[[str], dict[str, Any]], Callable[[dict[str, Any]], Any]]] = {
    "name of a run": (lambda text: {"name": text}, lambda run: run["name"]),
    "description": (lambda text: {"description": text}, lambda run: run["description"]),
    "key of a tag": (lambda text: {"tags": {text: "x"}}, lambda run: next(iter(run["tags"]), None)),
    "value of a tag": (lambda text: {"tags": {"k": text}}, lambda run: run["tags"].get("k")),
    "key of a property": (lambda text: {"properties": {text: "x"}}, lambda run: next(iter(run["properties"]), None)),
    "value of a property": (lambda text: {"properties": {"k": text}}, lambda run: run["properties"].get("k")),
}


@pytest.mark.parametrize("where", TEXT_PLACES)
def test_texts_are_kept_to_the_character_or_refused(server: Outside, where: str) -> None:
    make, find = TEXT_PLACES[where]
    many = "property" in where  # which is written once
    run_id = server.interactive()
    for case, text in TEXTS.items():
        text = text.replace("{canary}", str(server.canary))
        answer = server.call("PATCH", f"{WS}/runs/{run_id}", make(text))
        hidden = case.startswith(UNSHOWABLE) and case not in FINE
        if answer.status >= 400:
            answer.refused(400)
            assert hidden or len(text) > 100, (case, answer)
            continue
        assert find(answer.kept()) == text, case
        assert not hidden or text in ("a\nb", "ab\n", "a\tb"), case
        if many:
            run_id = server.interactive()
        else:
            server.call("PATCH", f"{WS}/runs/{run_id}", {"remove_tags": [text[:100], "k"]})


def test_texts_of_a_submit_are_judged_alike(server: Outside) -> None:
    with server.unchanged():
        for text in ("a\u202eb", "a\x1b[31m", "a\0b", "a\x85b"):
            for change in ({"name": text}, {"tags": {text: "x"}}, {"tags": {"k": text}}, {"properties": {"k": text}}):
                server.call("POST", f"{WS}/runs", {**server.submission(), **change}).refused(400)
            server.call("POST", f"{WS}/runs", server.submission(environment={"name": text})).refused(400)
            tags = {"name": "tagged", "tags": {text: "x"}}
            server.call("POST", f"{API}/workspaces", tags).refused(400)
            server.call("PATCH", f"{WS}/experiments/inputs", {"tags": {"k": text}}).refused()


def test_empty_keys_are_refused(server: Outside) -> None:
    run_id = server.interactive()
    with server.unchanged():
        for key in ("", " ", "\u00a0", "k" * 101):
            for field in ("tags", "properties"):
                server.call("PATCH", f"{WS}/runs/{run_id}", {field: {key: "x"}}).refused(400)
            server.call("PATCH", f"{WS}/runs/{run_id}", {"remove_tags": [key]}).refused(400)
        server.call("PATCH", f"{WS}/runs/{run_id}", {"tags": {str(i): "x" for i in range(1001)}}).refused(400)
