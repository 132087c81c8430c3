"""A script reads the secrets that its run was granted, in its own process and in child processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass import Run, UserErrorException
from windlass.client.runs import script_secrets, submitted_run
from windlass.client.workspace.keyvault import Keyvault

RUN = "demo_1_ab"
SECRETS = {"key": "the-canary-sings", "other": "é\n"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The script's side of a run that was granted two secrets."""
    folder = tmp_path / "run"
    (folder / "claim").mkdir(parents=True)
    (folder / "claim" / "process.json").write_text(json.dumps({"pid": os.getpid()}))
    fd = os.memfd_create("windlass-secrets")
    os.write(fd, json.dumps({"run": RUN, "secrets": SECRETS}).encode())
    values = {"FOLDER": str(folder), "ID": RUN, "TOKEN": "t"}
    for name, value in values.items():
        monkeypatch.setenv(f"WINDLASS_RUN_{name}", value)
    for name, value in {"WORKSPACE": "default", "EXPERIMENT": "demo", "SECRETS_FD": str(fd)}.items():
        monkeypatch.setenv(f"WINDLASS_{name}", value)
    monkeypatch.setattr(submitted_run, "_current", None)
    yield Run.get_context()
    os.close(fd)


def test_a_run_reads_what_it_was_granted(run: Run) -> None:
    for _ in range(2):
        assert run.get_secret("key") == "the-canary-sings" and run.get_secret(name="other") == "é\n"
    assert run.get_secrets(["key", "nothing"]) == {"key": "the-canary-sings", "nothing": None}


def test_the_key_vault_of_its_workspace_is_the_same_there(run: Run) -> None:
    keyvault = run.experiment.workspace.get_default_keyvault()
    assert isinstance(keyvault, Keyvault)
    assert keyvault.get_secret("key") == "the-canary-sings"
    assert keyvault.get_secrets(["other", "nothing"]) == {"other": "é\n", "nothing": None}
    assert keyvault.list_secrets() == [{"name": "key"}, {"name": "other"}]


def test_what_was_not_granted_is_said_with_what_to_do(run: Run) -> None:
    for read in (run.get_secret, run.experiment.workspace.get_default_keyvault().get_secret):
        with pytest.raises(UserErrorException, match="was not granted a secret nothing") as refused:
            read("nothing")
        assert "--secret nothing" in refused.value.hint


def test_a_run_without_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_SECRETS_FD")
    assert script_secrets.read() == {} and run.get_secrets(["key"]) == {"key": None}
    with pytest.raises(UserErrorException, match="was not granted"):
        run.get_secret("key")


CHILD = "from windlass import Run; print(Run.get_context().get_secret('key'))"


def test_processes_that_the_script_starts_read_it_too(run: Run) -> None:
    """Popen closes what it does not know: the script's own file is found by the script's number."""
    for more in ({}, {"close_fds": False}):
        shown = subprocess.run([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, check=True, text=True, **more)  # type: ignore[call-overload]
        assert shown.stdout == "the-canary-sings\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ranks_read_it_at_once(run: Run, method: str) -> None:
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map(script_secrets.get, ["key"] * 20) == ["the-canary-sings"] * 20


def test_another_file_of_that_number_is_not_taken_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "claim" / "process.json").unlink()
    contents = [b"", b"nonsense", b"[]", b"{}", b'{"run": "other", "secrets": {"key": "x"}}', b'{"run": "demo_1_ab"}']
    for content in contents:
        fd = os.memfd_create("other")
        os.write(fd, content)
        monkeypatch.setenv("WINDLASS_SECRETS_FD", str(fd))
        with pytest.raises(UserErrorException, match="cannot be read in this process"):
            run.get_secret("key")
        os.close(fd)
    for number in ("x", "-1", "99999"):
        monkeypatch.setenv("WINDLASS_SECRETS_FD", number)
        with pytest.raises(UserErrorException, match="cannot be read in this process"):
            run.get_secret("key")


def test_in_a_container_a_file_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_SECRETS_FD")
    path = tmp_path / "secrets"
    path.write_text(json.dumps({"run": RUN, "secrets": {"key": "in a container"}}))
    monkeypatch.setenv("WINDLASS_SECRETS_FILE", str(path))
    assert run.get_secret("key") == "in a container"


def test_large_values(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.memfd_create("windlass-secrets")
    os.write(fd, json.dumps({"run": RUN, "secrets": {str(n): "x" * 65_536 for n in range(50)}}).encode())
    monkeypatch.setenv("WINDLASS_SECRETS_FD", str(fd))
    assert len(script_secrets.read()) == 50
    os.close(fd)


def test_reading_leaves_no_network_and_no_process(run: Run) -> None:
    program = "import sys; from windlass import Run; Run.get_context().get_secret('key'); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    assert not {"socket", "ssl", "subprocess", "windlass.client.http.session"} & set(shown.stdout.split())
