"""What the docs show works: each page's runnable blocks, top to bottom, in a new folder with a server of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, Block, blocks, name_of

RUNNABLE = [path for path in PAGES if any(block.is_run for block in blocks(path))]
SECONDS = 300


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """As a user has it who just installed the package: the command on the path, no home yet; and no display, so that no
    browser opens.
    """
    bin_folder = Path(sys.executable).parent
    left_out = ("WINDLASS_", "AZUREML_", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = {**kept, "WINDLASS_HOME": str(tmp_path / "home"), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    yield environment
    subprocess.run(["windlass", "server", "stop"], env=environment, capture_output=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("path", RUNNABLE, ids=name_of)
def test_a_page_does_what_it_shows(path: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    project = tmp_path / "project"
    project.mkdir()
    story = tmp_path / "story.py"
    story.write_text(program(blocks(path)), "utf-8")
    assert_works([sys.executable, str(story)], project, environment)


def program(blocks: list[Block]) -> str:
    """One Python program that does what the page says; its Python blocks share their variables."""
    lines = ["import pathlib, subprocess", "shared = {'__name__': '__main__'}"]
    for block in blocks:
        if block.file:
            lines.append(f"pathlib.Path({block.file!r}).write_text({block.text!r}, 'utf-8')")
        elif block.is_run and block.language == "python":
            # Empty lines before it, so that a traceback names the line of the page.
            lines.append(f"exec(compile({chr(10) * (block.line - 1) + block.text!r}, 'page', 'exec'), shared)")
        elif block.is_run:
            lines.append(f"subprocess.run(['bash', '-euo', 'pipefail', '-xc', {block.text!r}], check=True)")
    return "\n".join(lines) + "\n"


EXAMPLES = [
    ["windlass", "submit", "--source-directory", "hello", "train.py"],
    ["windlass", "submit", "--source-directory", "metrics", "train.py"],
    ["python", "alphas/submit.py"],
    ["python", "hello/train.py"],
    ["python", "sklearn-digits/submit.py"],
    ["python", "distributed/train.py"],
]


@pytest.mark.parametrize("command", EXAMPLES, ids=" ".join)
def test_an_example_works(command: list[str], tmp_path: Path, environment: dict[str, str]) -> None:
    project = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", project)
    assert_works(command, project, environment)


def test_the_first_minute_of_the_readme_works(tmp_path: Path, environment: dict[str, str]) -> None:
    """From a clone, as it is written; but for the installation, which these tests have."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "examples", clone / "examples")
    page = blocks(ROOT / "README.md")
    shell = next(block for block in page if "pip install" in block.text)
    python = next(block for block in page if block.language == "python")
    _, *lines = shell.text.splitlines()
    (tmp_path / "story.sh").write_text("\n".join([*lines, f"python {tmp_path / 'story.py'}"]), "utf-8")
    (tmp_path / "story.py").write_text(python.text, "utf-8")
    assert_works(["bash", "-euo", "pipefail", "-x", str(tmp_path / "story.sh")], clone, environment)


def test_a_shared_server_serves_who_has_the_token(
    tmp_path: Path, environment: dict[str, str], postgres_url: str
) -> None:
    """As docs/how-to/shared-server.md says: a server on PostgreSQL, and a client that knows its address and token."""
    home = tmp_path / "shared"
    server = subprocess.Popen(
        ["windlass", "server", "run"],
        env={**environment, "WINDLASS_HOME": str(home), "WINDLASS_DATABASE": postgres_url},
    )
    try:
        client = {**environment, **address(home), "WINDLASS_HOME": str(tmp_path / "client")}
        assert_works(["windlass", "submit", "--source-directory", "hello", "train.py"], ROOT / "examples", client)
        assert not (tmp_path / "client" / "server.json").exists()
        assert_works(["windlass", "metrics", "@last", "loss"], tmp_path, client)
        assert_refused(["windlass", "runs"], tmp_path, {**client, "WINDLASS_TOKEN": "wrong"})
        create = ["windlass", "token", "create", "ann", "--role", "reader", "--days", "90"]
        token = subprocess.run(create, env=client, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
        ann = {**client, "WINDLASS_TOKEN": token.strip()}
        assert_works(["windlass", "show", "@last"], tmp_path, ann)
        assert_refused(["windlass", "submit", "train.py"], ROOT / "examples" / "hello", ann, 125)
        assert_works(["windlass", "token", "revoke", "ann"], tmp_path, client)
        assert_refused(["windlass", "runs"], tmp_path, ann)
    finally:
        server.terminate()
        assert server.wait(SECONDS) == 0
    assert not (home / "server.json").exists()


def address(home: Path) -> dict[str, str]:
    """Where the server of that home is and what opens it, as soon as it is ready."""
    deadline = time.monotonic() + SECONDS
    while not (home / "server.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    url = json.loads((home / "server.json").read_text())["url"]
    return {"WINDLASS_URL": url, "WINDLASS_TOKEN": (home / "token").read_text().strip()}


def assert_works(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    pipe = subprocess.PIPE
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def assert_refused(command: list[str], folder: Path, environment: dict[str, str], code: int = 4) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == code and "token" in done.stderr, done.stderr
