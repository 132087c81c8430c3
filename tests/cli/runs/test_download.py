"""Files come whole, to the right place, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.fake import FakeSession, W, windlass

RUN = "demo_1763268000_3f9a1c2b"
FILES = f"GET {W}/runs/{RUN}/files"


def with_files(files: dict[str, bytes]) -> FakeSession:
    listed = [{"path": path, "size": len(data), "is_live": False} for path, data in files.items()]
    from urllib.parse import quote

    return FakeSession({FILES: {"files": listed}, **{f"{FILES}/{quote(path)}": data for path, data in files.items()}})


CONTENT = {
    "outputs/model.pkl": b"\x80model",
    "outputs/a b/ü.txt": b"",
    "outputs2/x": b"x",
    "user_logs/std_log.txt": b"hi\n",
}


def test_everything_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert windlass(with_files(CONTENT), "download", RUN) == 0
    assert {path: (tmp_path / RUN / path).read_bytes() for path in CONTENT} == CONTENT
    assert capsys.readouterr().out == f"4 files, 10 B, in {RUN}\n"


@pytest.mark.parametrize("prefix", ["outputs", "outputs/"])
def test_only_what_is_asked_for(tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "here"
    assert windlass(with_files(CONTENT), "download", RUN, "-p", prefix, "-o", str(place), "--json") == 0
    assert sorted(p.name for p in place.rglob("*") if p.is_file()) == ["model.pkl", "ü.txt"]
    assert json.loads(capsys.readouterr().out)["folder"] == str(place)


def test_nothing_is_overwritten_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "model.pkl").write_bytes(b"mine")
    assert windlass(with_files(CONTENT), "download", RUN, "-o", str(tmp_path)) == 2
    assert (tmp_path / "outputs" / "model.pkl").read_bytes() == b"mine"
    assert not (tmp_path / "outputs2").exists()
    assert windlass(with_files(CONTENT), "download", RUN, "-o", str(tmp_path), "--force") == 0
    assert (tmp_path / "outputs" / "model.pkl").read_bytes() == b"\x80model"


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "a\\..\\evil"])
def test_a_path_that_climbs_out_is_refused(tmp_path: Path, path: str) -> None:
    session = FakeSession({FILES: {"files": [{"path": path, "size": 1}]}})
    assert windlass(session, "download", RUN, "-o", str(tmp_path / "in")) == 2
    assert list(tmp_path.iterdir()) == []


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert windlass(with_files(CONTENT), "download", RUN, "-p", "outputs/other", "-o", str(tmp_path)) == 3
    assert "has no file outputs/other" in capsys.readouterr().err
