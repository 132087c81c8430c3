"""The quick reader of a submit's options agrees with click, and leaves to it what it should."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.cli.call import Call
from windlass.cli.submit import submit
from windlass.cli.submit_options import OPTIONS, parse, read_duration

WORDS = st.sampled_from(
    [name for option in OPTIONS for name in option.names]
    + ["--json", "--home", "--url", "--debug", "--workspace", "--help", "--", "-", "", "x", "a=b", "train.py", "15m"]
    + ["3", "--name=x", "--pip=", "--detach=1", "-n1", "-dq", "--exp", "--experiment=", "-e=x", "--priority=7", "--no"]
)


def by_click(words: list[str]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    call = Call()
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
