"""`windlass model`: what is registered is what comes back, and nothing goes that nobody asked to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.fake import FakeSession, W, windlass
from tests.cli.shell import Shell, Terminal
from windlass.core.errors import NotFound

RUN = "demo_1763268000_3f9a1c2b"
MODELS = f"GET {W}/models"
SCRIPT = """
import os
os.makedirs("outputs/net", exist_ok=True)
for name in "model.pkl", "net/weights", "net/shape":
    with open(f"outputs/{name}", "w") as file:
        file.write(name)
"""


def view(name: str = "churn", version: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "id": f"{name}:{version}",
        "description": "",
        "framework": "",
        "framework_version": "",
        "tags": {},
        "properties": {},
        "run": RUN,
        "experiment": "demo",
        "files": [{"path": "model.pkl", "digest": "ab" * 32, "size": 6}],
        "created_by": "owner",
        "created_at": "2026-01-31T12:00:00.000000Z",
        "changed_at": "2026-01-31T12:00:00.000000Z",
        **changes,
    }


def keeping(*views: dict[str, Any]) -> FakeSession:
    """A server that has these, the latest first."""

    def one(name: str) -> Callable[[Any, Any], dict[str, Any]]:
        def find(_: Any, query: Any) -> dict[str, Any]:
            for each in views:
                if each["name"] == name and (query or {}).get("version") in (None, each["version"]):
                    return each
            raise NotFound(f"There is no version {query['version']} of the model {name}.", "What there is: ...")

        return find

    return FakeSession({MODELS: {"models": list(views)}, **{f"{MODELS}/{v['name']}": one(v["name"]) for v in views}})


def with_files(content: dict[str, bytes]) -> FakeSession:
    files = [
        {"path": path, "digest": hashlib.sha256(data).hexdigest(), "size": len(data)} for path, data in content.items()
    ]
    session = keeping(view(files=files))
    session.answers.update({f"{MODELS}/churn/2/files/{quote(path)}": data for path, data in content.items()})
    return session


@pytest.fixture
def name() -> str:
    """One that nobody has."""
    return f"churn-{os.urandom(4).hex()}"


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ([], {"latest": "true"}),
        (["--all"], {}),
        (["--name", "churn"], {"name": "churn"}),
        (["--run", RUN], {"run": RUN}),
        (["-a", "-n", "churn", "-r", RUN], {"name": "churn", "run": RUN}),
    ],
)
def test_which_are_listed(words: list[str], query: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    session = keeping(view(), view("x" * 255, 123456, run=None, experiment=None))
    assert windlass(session, "model", "list", *words) == 0
    assert session.asked == [(MODELS, None, query)]
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["MODEL", "VERSION", "SIZE", "EXPERIMENT", "RUN", "REGISTERED", "BY"]
    assert first.split()[:6] == ["churn", "2", "6", "B", "demo", "3f9a1c2b"] and first.endswith("owner")
    assert second.split()[:2] == ["x" * 255, "123456"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "No models yet: windlass model register NAME PATH"),
        (["--all"], "No models yet: windlass model register NAME PATH"),
        (["--name", "churn"], "No models are named churn: windlass model list"),
        (["--run", RUN], "No models of run 3f9a1c2b: windlass model register NAME PATH --run 3f9a1c2b"),
    ],
)
def test_none_are_listed(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(keeping(), "model", "list", *words) == 0
    assert capsys.readouterr().out == f"{said}\n"
    assert windlass(keeping(), "model", "list", *words, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"models": []}


def test_one_is_shown(at_terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    at_terminal(80)
    told: dict[str, Any] = {
        "description": "who leaves, " + "and when, " * 12,
        "framework": "ScikitLearn",
        "framework_version": "1.5",
        "tags": {"auc": "0.91", "best": ""},
        "properties": {"seed": "7"},
        "changed_at": "2026-02-01T12:00:00.000000Z",
        "files": [{"path": f"net/{'x' * 40}{n}", "digest": "ab" * 32, "size": 2_000_000} for n in range(14)],
    }
    session = keeping(view(**told), *(view(version=n) for n in range(40, 20, -1)))
    assert windlass(session, "model", "show", "churn") == 0
    shown = capsys.readouterr().out
    for text in (
        "Model churn:2", "About", "ScikitLearn 1.5", "auc=0.91, best", "seed=7", RUN, "demo", "by owner", "Changed",
        "2, 40, 39", "30 and 9 more", "2.0 MB", "and 2 more", "Next: windlass model download churn:2",
    ):  # fmt: skip
        assert text in shown, text
    assert max(map(len, shown.splitlines())) <= 80
    assert windlass(session, "model", "show", "churn:40", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["id"], document["versions"][:2]) == ("churn:40", [2, 40])


def test_what_others_wrote_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "x\x1b[31m\u202e"
    said: dict[str, Any] = {
        "description": evil,
        "tags": {evil: evil},
        "created_by": evil,
        "experiment": evil,
        "framework": evil,
    }
    session = keeping(view(**said, run=evil, files=[{"path": evil, "digest": "", "size": 1}]))
    for words in ["list"], ["show", "churn"], ["tag", "churn"]:
        assert windlass(session, "model", *words) == 0
        assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)


@pytest.mark.parametrize("words", [["show"], ["download"], ["tag"], ["delete", "-y"]])
def test_what_is_not_there(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    session = keeping(view(), view("other", 1))
    for wrong, hint in ("chrun:1", "Did you mean churn?"), ("churn:7", "The latest version is 2."):
        assert windlass(session, "model", *words, wrong) == 3
        assert hint in capsys.readouterr().err
    assert not any(asked.startswith("DELETE") for asked, _, _ in session.asked)


@pytest.mark.parametrize("text", ["a/b", "../x", "", ":1", "churn:", "churn:latest", "churn:-1", "churn:1:2", "a b"])
def test_what_is_no_model(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = keeping(view())
    for words in ["show"], ["download"], ["tag"], ["delete", "-y"]:
        assert windlass(session, "model", *words, text) == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert session.asked == []


NET = {"net/weights": b"\x80w", "net/a b/ü.txt": b"", "net/shape": b"3"}


def test_a_model_comes_as_it_was_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "down"
    assert windlass(with_files(NET), "model", "download", "churn", "-o", str(place)) == 0
    assert {path: (place / path).read_bytes() for path in NET} == NET
    assert capsys.readouterr().out == f"churn:2, 3 files, 3 B, is {place}/net\n"


def test_into_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert windlass(with_files({"model.pkl": b"\x80model"}), "model", "download", "churn:2") == 0
    assert capsys.readouterr().out == "churn:2, 1 file, 6 B, is model.pkl\n"
    assert windlass(with_files({"model.pkl": b"\x80model"}), "model", "download", "churn:2", "-f", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["model"], document["path"]) == ("churn:2", str(tmp_path / "model.pkl"))


def test_nothing_is_overwritten_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "weights").write_bytes(b"mine")
    words = ("model", "download", "churn", "-o", str(tmp_path))
    assert windlass(with_files(NET), *words) == 2
    assert "net is there already; --force overwrites" in capsys.readouterr().err
    (tmp_path / "net" / "weights").rename(tmp_path / "net" / "other")
    assert windlass(with_files(NET), *words) == 2, "two models would be mixed"
    assert [path.name for path in (tmp_path / "net").iterdir()] == ["other"]
    assert windlass(with_files(NET), *words, "--force") == 0
    assert (tmp_path / "net" / "weights").read_bytes() == b"\x80w"


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "a\\..\\evil"])
def test_a_path_that_climbs_out_is_refused(tmp_path: Path, path: str) -> None:
    session = with_files({"fine": b"1", path: b"2"})
    assert windlass(session, "model", "download", "churn", "-o", str(tmp_path / "in")) == 2
    assert list(tmp_path.iterdir()) == []


def test_tags(capsys: pytest.CaptureFixture[str]) -> None:
    session = keeping(view())
    session.answers[f"PATCH {W}/models/churn/2"] = view(tags={"auc": "0.91", "best": ""})
    assert windlass(session, "model", "tag", "churn") == 0
    assert capsys.readouterr().out == "No tags. Add one: windlass model tag churn:2 KEY=VALUE\n"
    assert windlass(session, "model", "tag", "churn", "auc=0.91", "best", "-r", "old", "-r", "auc") == 0
    assert session.asked[-1][1] == {"tags": {"auc": "0.91", "best": "", "old": None}}
    assert capsys.readouterr().out == "auc=0.91, best\n"
    assert windlass(session, "model", "tag", "churn:2", "--remove", "old", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"model": "churn:2", "tags": {"auc": "0.91", "best": ""}}
    assert windlass(session, "model", "tag", "churn", "=x") == 2


def test_a_version_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    session = keeping(view(), view(version=1))
    session.answers[f"DELETE {W}/models/churn/1"] = view(version=1)
    for words, hint in (["churn", "-y"], "windlass model list --name churn"), (["churn:1"], "delete churn:1 -y"):
        assert windlass(session, "model", "delete", *words) == 2
        assert hint in capsys.readouterr().err
    assert not any(asked.startswith("DELETE") for asked, _, _ in session.asked)
    assert windlass(session, "model", "delete", "churn:1", "-y") == 0
    assert capsys.readouterr().out == "churn:1 is deleted.\n"
    assert windlass(session, "model", "delete", "churn:1", "-y", "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == "churn:1"


@pytest.mark.parametrize("command", ["deploy", "package", "profile"])
def test_what_is_not_provided_says_what_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(keeping(), "model", command, "-n", "x") == 2
    said = capsys.readouterr().err
    assert f"windlass model {command} is not provided" in said and "`windlass model download NAME`" in said


@pytest.mark.parametrize("line", ["", "list", "show", "register", "download", "tag", "delete"])
def test_help_fits(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert windlass(keeping(), "model", *line.split(), "--help") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_files_of_this_machine(shell: Shell, project: Path, name: str) -> None:
    (project / "model.pkl").write_bytes(b"\x80model")
    (project / "net" / "deep").mkdir(parents=True)
    (project / "net" / "deep" / "weights").write_bytes(b"w")
    (project / "net" / "shape").write_bytes(b"3")
    done = shell("model", "register", name, "model.pkl", cwd=project)
    first, second = f"{name}:1", f"{name}:2"
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{first} is registered: 1 file, 6 B.",
        f"Fetch it anywhere: windlass model download {first}",
    ]
    words = ("--tag", "auc=0.91", "-t", "best", "--description", "by hand")
    kept = shell("model", "register", name, "net/", *words, "--json", cwd=project).json
    assert (kept["id"], kept["tags"], kept["description"]) == (second, {"auc": "0.91", "best": ""}, "by hand")
    assert (kept["run"], kept["experiment"], kept["created_by"]) == (None, None, "owner")
    assert shell("model", "show", name, "--json").json == {**kept, "versions": [2, 1]}
    down = project / "down"
    assert shell("model", "download", first, "-o", str(down)).out == f"{first}, 1 file, 6 B, is {down}/model.pkl\n"
    assert shell("model", "download", name, "-o", str(down)).out == f"{second}, 2 files, 2 B, is {down}/net\n"
    found = {str(p.relative_to(down)): p.read_bytes() for p in down.rglob("*") if p.is_file()}
    assert found == {"model.pkl": b"\x80model", "net/deep/weights": b"w", "net/shape": b"3"}


def test_what_a_run_left(shell: Shell, project: Path, name: str) -> None:
    run = shell.submit(project, SCRIPT, "-e", name)["id"]
    kept = shell("model", "register", name, "outputs/model.pkl", "--run", run, "--json").json
    assert (kept["run"], kept["experiment"]) == (run, name)
    assert [file["path"] for file in kept["files"]] == ["model.pkl"]
    done = shell("model", "register", name, "./outputs/net/", "--run", run.rpartition("_")[2])
    assert (done.code, done.err) == (0, "") and "2 files, 20 B" in done.out
    listed = shell("model", "list", "--run", run, "--json").json["models"]
    assert [each["version"] for each in listed] == [2, 1]
    assert shell("model", "download", name, cwd=project).out == f"{name}:2, 2 files, 20 B, is net\n"
    assert (project / "net" / "weights").read_text() == "net/weights"


def test_what_cannot_be_registered(shell: Shell, project: Path, name: str) -> None:
    run = shell.submit(project, SCRIPT, "-e", name)["id"]
    (project / "empty").mkdir()
    for words, code, problem, hint in (
        ((name, "trian.py"), 3, "no file or folder trian.py here", "Did you mean train.py?"),
        ((name, "outputs/model.pkl"), 3, "no file or folder outputs/model.pkl here", "--run RUN"),
        ((name, "outputs/mode.pkl", "--run", run), 3, f"Run {run} has no file or", "Did you mean outputs/model.pkl?"),
        ((name, "x", "--run", run), 3, f"Run {run} has no file or folder x", f"windlass files {run[-8:]}"),
        ((name, "train.py", "--run", "nothing-like-this"), 3, "no run nothing-like-this", "windlass runs"),
        ((name, "empty"), 2, "empty", ""),
        ((name, "train.py", "--tag", "=x"), 2, "KEY=VALUE", ""),
        (("a/b", "train.py"), 2, "A model's name has", ""),
        ((f"{name}:3", "train.py"), 2, "A model's name has", ""),
    ):
        done = shell("model", "register", *words, cwd=project)
        assert (done.code, done.out) == (code, ""), done
        assert problem in done.err and hint in done.err and len(done.err.splitlines()) <= 2
    assert shell("model", "list", "--name", name, "--json").json == {"models": []}


def test_tagged_and_deleted(shell: Shell, project: Path, name: str) -> None:
    (project / "model.pkl").write_bytes(b"\x80model")
    for _ in range(2):
        assert shell("model", "register", name, "model.pkl", "-t", "old=1", cwd=project).code == 0
    assert shell("model", "tag", name, "auc=0.91", "--remove", "old").out == "auc=0.91\n"
    assert shell("model", "tag", f"{name}:1").out == "old=1\n"
    assert shell("model", "delete", f"{name}:2", "--yes").out == f"{name}:2 is deleted.\n"
    missing = shell("model", "show", f"{name}:2")
    assert missing.code == 3 and "The latest version is 1." in missing.err
    again = shell("model", "register", name, "model.pkl", "--json", cwd=project).json
    assert again["version"] == 3, "a number is not used again"


def test_at_a_terminal_it_is_asked(shell: Shell, project: Path, name: str) -> None:
    (project / "model.pkl").write_bytes(b"\x80model")
    assert shell("model", "register", name, "model.pkl", cwd=project).code == 0
    for answer, code, said in ("\n", 6, "Nothing was deleted"), ("y\n", 0, f"{name}:1 is deleted."):
        terminal = Terminal(shell, "model", "delete", f"{name}:1", cwd=project)
        terminal.wait_for(f"Delete {name}:1 (1 file, 6 B)? This cannot be undone. [y/N] ")
        terminal.press(answer)
        assert terminal.end() == code
        assert said in terminal.text
    assert shell("model", "show", name).code == 3
