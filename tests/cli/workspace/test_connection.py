"""`windlass connection`, against a real server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Result, Shell, Terminal, using

CANARY = "the-canary-sings"
KUBECONFIG = f"""
clusters: [{{name: c, cluster: {{server: "https://k8s:6443"}}}}]
users: [{{name: u, user: {{token: {CANARY}}}}}]
contexts: [{{name: main, context: {{cluster: c, user: u}}}}]
current-context: main
"""
HOST = ("--host", "https://adb-1.2.azuredatabricks.net")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with using(tmp_path_factory.mktemp("connection") / "home") as found:
        yield found


def given(shell: Shell, value: bytes, *arguments: str) -> Result:
    """Called with this on standard input."""
    with tempfile.TemporaryFile() as file:
        file.write(value)
        file.seek(0)
        return shell(*arguments, stdin=file)


def names(shell: Shell) -> list[str]:
    return [each["name"] for each in shell("connection", "list", "--json").json["connections"]]


def test_every_kind_is_added_listed_shown_and_removed(shell: Shell, tmp_path: Path) -> None:
    for name, text in (("token", f"{CANARY}\n"), ("kubeconfig", KUBECONFIG)):
        (tmp_path / name).write_text(text)
    token, kubeconfig = str(tmp_path / "token"), str(tmp_path / "kubeconfig")
    empty = shell("connection", "list")
    assert empty.out == "No connections yet: windlass connection add KIND NAME\n"
    place = ("-g", "RG")
    for kind, options in {
        "databricks": (*place, "--workspace-name", "ws", *HOST, "--token-file", token),
        "aks": (*place, "--cluster-name", "c", "--kubeconfig", kubeconfig, "--context", "main"),
        "batch": (*place, "--account-name", "b", "-a", "login:2222", "-u", "jane", "--password-file", token),
        "adla": (*place, "--account-name", "a", "--folder", "/data/lake"),
        "vm": (*place, "--vm-name", "v", "--subscription", "s", "--address", "10.0.0.7:2222"),
    }.items():
        done = shell("connection", "add", kind, f"my-{kind}", *options)
        assert done.code == 0 and done.out.startswith(f"my-{kind} says what "), done.err
    batch = (*place, "--account-name", "z", "--batch-url", "https://z.batch.azure.com", "--account-key-file", token)
    assert shell("connection", "add", "batch", "azure", *batch).code == 0
    assert names(shell) == ["azure", "my-adla", "my-aks", "my-batch", "my-databricks", "my-vm"]
    listed = shell("connection", "list")
    assert "s/RG/v" in listed.out and max(map(len, listed.out.splitlines())) <= 80
    shown = shell("connection", "show", "my-batch")
    assert "login" in shown.out and "2222" in shown.out
    for done in (listed, shown, shell("connection", "show", "my-databricks", "--json"), shell("audit")):
        assert CANARY not in done.out + done.err
    gone = shell("connection", "remove", *names(shell))
    assert gone.code == 0 and gone.out.count("is removed.") == 6 and names(shell) == []
    assert shell("connection", "remove", "my-vm").code == 3


def test_a_token_comes_on_standard_input_and_is_never_an_argument(shell: Shell) -> None:
    place = ("connection", "add", "databricks", "stdin", "-g", "rg", "--workspace-name", "w", *HOST)
    assert given(shell, f"{CANARY}\n".encode(), *place, "--token-stdin").code == 0
    again = given(shell, b"other\n", *place, "--token-stdin")
    assert again.code == 6 and "already" in again.err and "--update" in again.err
    assert given(shell, b"other\n", *place, "--token-stdin", "--update").code == 0
    assert shell(*place, "--token", CANARY).code == 2
    assert shell("connection", "remove", "stdin").code == 0


def test_at_a_terminal_a_token_is_asked_for_and_not_shown(shell: Shell, project: Path) -> None:
    place = ("connection", "add", "databricks", "asked", "-g", "rg", "--workspace-name", "w", *HOST)
    terminal = Terminal(shell, *place, cwd=project)
    terminal.wait_for("The access token: ")
    terminal.press(f"{CANARY}\n")
    assert terminal.end() == 0 and CANARY not in terminal.text and "asked" in names(shell)
    assert shell("connection", "remove", "asked").code == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("vm", "bad", "--address", "10.0.0.7"), "Name the resource"),
        (("vm", "bad", "-g", "rg", "--address", "10.0.0.7"), "name"),
        (("vm", "bad", "--resource-id", "/a/b", "--address", "10.0.0.7"), "id of a resource"),
        (("vm", "a/b", "-g", "rg", "--vm-name", "v", "--address", "10.0.0.7"), "connection's name"),
        (("vm", "bad", "-g", "rg", "--vm-name", "v", "--address", "-oX"), "address"),
        (
            ("databricks", "bad", "-g", "rg", "--workspace-name", "w", "--host", "http://a", "--token-file", "t"),
            "https",
        ),
        (("databricks", "bad", "-g", "rg", "--workspace-name", "w", *HOST), "--token-file"),
        (("batch", "bad", "-g", "rg", "--account-name", "a"), "--batch-url"),
        (("batch", "bad", "-g", "rg", "--account-name", "a", "--address", "h"), "--username"),
        (("teapot", "bad"), "no command teapot"),
    ],
)
def test_what_cannot_be_is_said_on_two_lines(shell: Shell, tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    (tmp_path / "t").write_text("x\n")
    done = given(shell, b"", "connection", "add", *(str(tmp_path / "t") if each == "t" else each for each in options))
    assert done.code == 2 and word in done.err and len(done.err.splitlines()) <= 4, done.err
    assert CANARY not in done.err and "bad" not in names(shell)


@pytest.mark.parametrize("kind", ["aks", "kubernetes", "databricks", "adla", "batch", "slurm"])
def test_a_kind_without_a_driver_names_its_connection(shell: Shell, kind: str) -> None:
    done = shell("compute", "attach", kind, "mine")
    assert done.code == 2 and "is not provided in this version" in done.err and "windlass connection add" in done.err
