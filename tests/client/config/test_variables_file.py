"""Files of environment variables: which lines there may be, and what the errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.client.config.variables_file import load_variables
from windlass.client.exceptions import UserErrorException


def load(folder: Path, text: str) -> dict[str, str]:
    file = folder / "vars.env"
    file.write_text(text, encoding="utf-8")
    return load_variables(file)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=value", "value"),
        ("export KEY=value", "value"),
        ("  KEY = two words  ", "two words"),
        ("KEY=", ""),
        ("KEY=a=b", "a=b"),
        ("KEY=value # comment", "value"),
        ("KEY=a#b", "a#b"),
        ("KEY='a # b'  # comment", "a # b"),
        ('KEY="a \\"b\\" \\n\\t\\\\ \\$c"', 'a "b" \n\t\\ $c'),
        ("KEY='\\n $HOME'", "\\n $HOME"),
        ("KEY=$HOME", "$HOME"),
        ("KEY=ü", "ü"),
        ("KEY=value\r", "value"),
        ("\ufeffKEY=value", "value"),
        ("KEY=1\nKEY=2", "2"),
        ("# comment\n\n  # another\nKEY=value\n", "value"),
    ],
)
def test_a_line_has_a_value(tmp_path: Path, line: str, value: str) -> None:
    assert load(tmp_path, line) == {"KEY": value}


def test_a_key_alone_takes_the_value_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "from here")
    assert load(tmp_path, "KEY") == {"KEY": "from here"}
    monkeypatch.delenv("KEY")
    with pytest.raises(UserErrorException, match="line 1: KEY takes its value from the environment here"):
        load(tmp_path, "KEY")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nKEY='s3cret\nrest'", "line 2: the quote around the value of KEY is not closed"),
        ("KEY='s3cret' more", "line 1: something follows the quoted value of KEY"),
        ("A=1\n\nsome s3cret text", "line 3: this is not KEY=VALUE"),
        ("1A=s3cret", "line 1: this is not KEY=VALUE"),
        ("=s3cret", "line 1: this is not KEY=VALUE"),
        ("LD_PRELOAD=s3cret", "line 1: .*LD_PRELOAD"),
        ("KEY=s3cret\0", "line 1: the value of KEY has a NUL character"),
    ],
)
def test_an_error_names_the_line_and_never_the_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserErrorException, match=message) as caught:
        load(tmp_path, text)
    assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="There is no file"):
        load_variables(tmp_path / "missing.env")
    (tmp_path / "binary.env").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserErrorException, match="not UTF-8"):
        load_variables(tmp_path / "binary.env")
    with pytest.raises(UserErrorException, match="too large"):
        load(tmp_path, "KEY=" + "x" * (1 << 20))
