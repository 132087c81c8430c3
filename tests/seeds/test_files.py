"""The conda_dependencies.yml of the second document: packages of every origin, built once and again when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.channels import Channel, small_channel
from tests.seeds.items import ITEMS
from tests.wheels import make_wheel
from windlass import Environment, Experiment, Run, ScriptRunConfig, UserErrorException, Workspace

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
LOOK = """\
from importlib import import_module
print([import_module(name).version for name in ("scikit-learn", "cryptography", "azure_storage", "cntk", "mine")])
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a folder, served/, as a public endpoint has it."""
    (tmp_path / "served").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "served")))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    made = small_channel(tmp_path / "channel")
    made.add_module("scikit-learn", "0.19")
    made.add_module("cryptography", "2.1")
    return made


def submit(ws: Workspace, text: str, script: str = "pass\n") -> Run:
    Path("conda_dependencies.yml").write_text(text)
    Path("myscript.py").write_text(script)
    environment = Environment.from_conda_specification("project_environment", "conda_dependencies.yml")
    return Experiment(ws, "packages").submit(ScriptRunConfig(".", "myscript.py", environment=environment))


def reached(text: str, channel: Channel, packages: Path) -> str:
    """The same file where neither conda's channels nor PyPI are reached: a channel and an index in folders."""
    nearby = f"  - pip:\n     - --no-index\n     - --find-links={packages}\n"
    assert "  - pip:\n" in text
    return f"channels: [{channel.url}]\n" + text.replace("  - pip:\n", nearby)


def test_a_conda_file(ws: Workspace, site: str, channel: Channel, tmp_path: Path) -> None:
    make_wheel(tmp_path / "served", "cntk", "2.1")
    make_wheel(tmp_path / "packages", "azure_storage", "0.36")
    mine = make_wheel(tmp_path / "disk", "mine", "1.0")
    given = ITEMS["2:308"].text(url_wheel=f"{site}/cntk-2.1-py3-none-any.whl", local_wheel=str(mine))
    text = reached(given, channel, tmp_path / "packages")
    first = submit(ws, text, LOOK)
    first.wait_for_completion()
    assert first._read_file("user_logs/std_log.txt").decode() == "['0.19', '2.1', '0.36', '2.1', '1.0']\n"
    built = first._read_file(BUILD_LOG).decode()
    assert "python 3.5.2 → " in built and "(the SDK needs 3.8 or newer)" in built
    again = submit(ws, text, LOOK)
    again.wait_for_completion()
    assert BUILD_LOG not in again.get_file_names(), "the file is the same"
    changed = submit(ws, text.replace("  - cryptography\n", ""))
    changed.wait_for_completion()
    assert BUILD_LOG in changed.get_file_names(), "the file has changed"


def test_wheels_of_windows_are_refused(ws: Workspace) -> None:
    text = ITEMS["2:308"].file
    with pytest.raises(UserErrorException, match="is a wheel for Windows, and runs are on Linux") as caught:
        submit(ws, text)
    assert "wheel for Linux" in caught.value.hint
    without_address = "".join(line for line in text.splitlines(keepends=True) if "cntk" not in line)
    with pytest.raises(UserErrorException, match="is a path of Windows") as caught:
        submit(ws, without_address)
    assert "Put the wheel beside the script" in caught.value.hint
