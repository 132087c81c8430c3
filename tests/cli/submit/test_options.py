"""The quick reader of a submit's options agrees with click, and leaves to it what it should."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.cli.context import CommandContext
from windlass.cli.submit.command import submit
from windlass.cli.submit.options import (
    OPTIONS,
    parse,
    read_count,
    read_cpus,
    read_duration,
    read_framework,
    read_gpus,
    read_memory,
)

WORDS = st.sampled_from(
    [name for option in OPTIONS for name in option.names]
    + ["--json", "--home", "--url", "--debug", "--workspace", "--help", "--", "-", "", "x", "a=b", "train.py", "15m"]
    + ["3", "--name=x", "--pip=", "--detach=1", "-n1", "-dq", "--exp", "--experiment=", "-e=x", "--priority=7", "--no"]
    + ["2", "8G", "mpi", "-mx", "--module=a.b"]
)


def by_click(words: list[str]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    call = CommandContext()
    try:
        with submit.make_context("submit", list(words), obj=call) as ctx:
            return ctx.params, vars(call)
    except (click.UsageError, click.exceptions.Exit):
        return None


@given(st.lists(WORDS, max_size=8))
@example(["--home", "", "-"])
@example(["--home", "x", "--home", "", "train.py"])
def test_what_it_reads_is_what_click_reads(words: list[str]) -> None:
    parsed = parse(words)
    if parsed is not None:
        assert (parsed.values, parsed.shared) == by_click(words)


@pytest.mark.parametrize(
    "line",
    ["train.py", "train.py --help", "-e x -c y --pip a --pip b -d -q train.py -d", "--json --timeout=2h -- -x.py a b"],
)
def test_it_reads_ordinary_lines(line: str) -> None:
    assert parse(line.split()) is not None


@pytest.mark.parametrize(
    "line", ["", "-d", "--help train.py", "-dq train.py", "--timeout soon train.py", "--nme x t.py"]
)
def test_it_leaves_the_others_to_click(line: str) -> None:
    assert parse(line.split()) is None


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2H", 7200), ("1d", 86400)])
def test_durations(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5h", "m", "1w", "٣", "1 h 2"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        read_duration(text)


@pytest.mark.parametrize(
    ("text", "megabytes"), [("512M", 512), ("8G", 8192), ("1.5g", 1536), ("2GB", 2048), ("4GiB", 4096), ("1T", 1 << 20)]
)
def test_amounts_of_memory(text: str, megabytes: int) -> None:
    assert read_memory(text) == megabytes


@pytest.mark.parametrize("text", ["", "8", "G", "-1G", "8K", "nan G", "0M", "1e20G", "8 gigs"])
def test_no_amounts_of_memory(text: str) -> None:
    with pytest.raises(ValueError, match="memory like 512M or 8G"):
        read_memory(text)


def test_a_number_without_a_unit_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="Did you mean 16M or 16G"):
        read_memory("16")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [(read_count, "4", 4), (read_gpus, "0", 0), (read_cpus, "0.5", 0.5), (read_framework, "PyTorch", "pytorch")],
)
def test_counts(read: Any, text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_count, "0"), (read_count, "1.5"), (read_count, "100001"), (read_gpus, "-1"), (read_cpus, "0"),
     (read_cpus, "inf"), (read_cpus, "nan"), (read_cpus, "two"), (read_framework, "horovod")],
)  # fmt: skip
def test_no_counts(read: Any, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        read(text)


@pytest.mark.parametrize(
    ("line", "module", "is_command", "words"),
    [
        ("train.py -m x", None, False, ("train.py", "-m", "x")),
        ("-d -m a.b --alpha -d", "a.b", False, ("--alpha", "-d")),
        ("--module=a.b", "a.b", False, ()),
        ("-q -- torchrun train.py -- x", None, True, ("torchrun", "train.py", "--", "x")),
    ],
)
def test_what_is_run(line: str, module: str | None, is_command: bool, words: tuple[str, ...]) -> None:
    parsed = parse(line.split())
    assert parsed is not None
    values = parsed.values
    assert (values["module"], values["is_command"]) == (module, is_command)
    assert (*([values["script"]] if values["script"] is not None else []), *values["arguments"]) == words
