"""Ignore rules are git's, to the letter: git itself is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.client.exceptions import SnapshotException
from windlass.client.submit.gitignore import ALWAYS, Rules

PIECES = [
    "a", "b", "/", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "\\", "!", "#", " ", "[", "]", "-", "[[:alpha:]]",
    "[[:digit:]b]", "[]a]", "[!]a]", "***", "**/", "/**", "/**/", "\\*", "\\a", "\\ ", "\u00e9", "[a\\]b]", "[[:x:]]",
    "[b-a]", "[a-]", "[\\a-c]", ".", "$", "\\!", "\\#",
]  # fmt: skip
NAMES = ["a", "b", "ab", "c", "abc", "-", "]", "[", "*", "\u00e9", "1", "a b", "#", "!", "aa", "bab", "$", ".x"]
PATHS = [f"{x}/{y}" for x in NAMES for y in NAMES[:6]] + ["b/aa/b/c", "a/bab/ab/abc", "ab/$/a/b", "x.txt", "y.txt "]
patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for path in PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def files_of(root: Path) -> list[str]:
    found = [os.path.relpath(os.path.join(place, name), root) for place, _, names in os.walk(root) for name in names]
    return [path for path in found if not path.startswith(".git")]


def ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    asked = subprocess.run(
        ["git", "-C", str(root), "check-ignore", "-z", "--stdin", "--no-index"],
        input="\0".join(paths).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    return {path.decode() for path in asked.stdout.split(b"\0") if path}


def ignored_by_us(rules: Rules, paths: list[str]) -> set[str]:
    """As the walk asks: each folder on the way, then the file."""
    found = set()
    for path in paths:
        parts = path.split("/")
        ends = range(1, len(parts) + 1)
        if any(rules.ignores("/".join(parts[:end]), parts[end - 1], end < len(parts)) for end in ends):
            found.add(path)
    return found


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(patterns, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_rules_mean_what_git_says(repository: Path, lines: list[str], end: str, is_ended: bool) -> None:
    text = end.join(lines) + (end if is_ended else "")
    (repository / ".gitignore").write_text(text, "utf-8", newline="")
    paths = files_of(repository)
    rules = Rules((line[:-1] if line.endswith("\r") else line for line in text.split("\n")), always=())
    assert ignored_by_us(rules, paths) == ignored_by_git(repository, paths)


@pytest.mark.parametrize(
    ("rule", "path", "is_folder", "is_ignored"),
    [
        ("*.pyc", "a/b/c.pyc", False, True),
        ("/data", "data", True, True),
        ("/data", "x/data", True, False),
        ("build/", "build", False, False),
        ("build/", "build", True, True),
        ("doc/*.txt", "doc/x.txt", False, True),
        ("doc/*.txt", "doc/a/x.txt", False, False),
        ("**/logs", "a/b/logs", True, True),
        ("a/**/b", "a/b", False, True),
        ("trailing\\ ", "trailing ", False, True),
        ("[unclosed", "[unclosed", False, False),
    ],
)
def test_the_usual_rules(rule: str, path: str, is_folder: bool, is_ignored: bool) -> None:
    assert Rules([rule]).ignores(path, path.rpartition("/")[2], is_folder) is is_ignored


def test_a_later_rule_takes_back() -> None:
    rules = Rules(["*.csv", "!keep.csv"])
    assert rules.ignores("x.csv", "x.csv", False)
    assert not rules.ignores("keep.csv", "keep.csv", False)


def test_amlignore_counts_before_gitignore(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a\n")
    assert Rules.of_folder(str(tmp_path)).ignores("a", "a", False)
    (tmp_path / ".amlignore").write_text("\ufeffb\r\n")
    rules = Rules.of_folder(str(tmp_path))
    assert not rules.ignores("a", "a", False)
    assert rules.ignores("b", "b", False)


def test_rules_that_powershell_wrote_count(tmp_path: Path) -> None:
    (tmp_path / ".amlignore").write_bytes("b\r\n".encode("utf-16"))
    assert Rules.of_folder(str(tmp_path)).ignores("b", "b", False)
    (tmp_path / ".amlignore").write_bytes("b\n".encode("utf-16-le"))
    with pytest.raises(SnapshotException, match=r"\.amlignore is not text"):
        Rules.of_folder(str(tmp_path))


def test_what_never_travels_unless_asked_for() -> None:
    assert ALWAYS
    assert Rules([]).ignores(".git", ".git", True)
    assert Rules([]).ignores("outputs", "outputs", True)
    assert not Rules([]).ignores("model/outputs", "outputs", True)
    assert not Rules(["!/outputs/"]).ignores("outputs", "outputs", True)
