"""The part of YAML that we read and write."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.client import yaml, yaml_writer
from windlass.client.yaml import YamlError

CONDA = """\
# The dependencies defined in this file will be automatically provisioned.

name: project_environment
dependencies:
  # The python interpreter version.
  - python=3.6.2

  - pip:
    # Required packages for AzureML execution
    - azureml-defaults
    - --extra-index-url https://example.org/simple  # ours
  - numpy

channels:
- conda-forge
"""


def test_a_conda_file_with_comments() -> None:
    pip = ["azureml-defaults", "--extra-index-url https://example.org/simple"]
    assert yaml.loads(CONDA) == {
        "name": "project_environment",
        "dependencies": ["python=3.6.2", {"pip": pip}, "numpy"],
        "channels": ["conda-forge"],
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("plain", "plain"),
        ("---\na: 1\n", {"a": 1}),
        ("a: 1\n...\n", {"a": 1}),
        ("\ufeffa: 1\r\nb: two\r\n", {"a": 1, "b": "two"}),
        ("a:\nb: ~\nc: null\nd: ''\n", {"a": None, "b": None, "c": None, "d": ""}),
        ("a: true\nb: False\nc: yes\nd: off\n", {"a": True, "b": False, "c": "yes", "d": "off"}),
        ("a: 10\nb: -3\nc: 0x1F\nd: 0o17\ne: 007\n", {"a": 10, "b": -3, "c": 31, "d": 15, "e": 7}),
        ("a: 1.5\nb: 1e3\nc: .5\nd: -.inf\n", {"a": 1.5, "b": 1000.0, "c": 0.5, "d": -math.inf}),
        ("a: 1.2.3\nb: 2019-01-01\nc: 1_000\n", {"a": "1.2.3", "b": "2019-01-01", "c": "1_000"}),
        ("u: http://h:80/x#y\nv: a#b # c\n", {"u": "http://h:80/x#y", "v": "a#b"}),
        ("a: 'it''s'\nb: \"x\\n\\u00e9\\\"\"\n", {"a": "it's", "b": 'x\né"'}),
        ("'quoted key': 1\n\"other\": 2\n", {"quoted key": 1, "other": 2}),
        ("a: [1, two, 'x, y', {b: c, d: [e]}]\n", {"a": [1, "two", "x, y", {"b": "c", "d": ["e"]}]}),
        ("a: [1,\n    2]\nb: {x: 1,\n    y: 2}\n", {"a": [1, 2], "b": {"x": 1, "y": 2}}),
        ("a: []\nb: {}\n", {"a": [], "b": {}}),
        ("- a\n- - b\n  - c\n- d: 1\n  e: 2\n-\n  f: 3\n", ["a", ["b", "c"], {"d": 1, "e": 2}, {"f": 3}]),
        ("a:\n- 1\n- 2\nb: 3\n", {"a": [1, 2], "b": 3}),
        ("a: one\n  two\n  three\n", {"a": "one two three"}),
        ("a: |\n  x\n   y\n\n  z\nb: 1\n", {"a": "x\n y\n\nz\n", "b": 1}),
        ("a: |-\n  x\nb: |+\n  y\n\n", {"a": "x", "b": "y\n\n"}),
        ("a: >\n  x\n  y\n\n  z\n", {"a": "x y\nz\n"}),
        ("a: |2\n    x\n", {"a": "  x\n"}),
        ("- |\n  x\n- y\n", ["x\n", "y"]),
    ],
)
def test_what_is_read(text: str, value: Any) -> None:
    assert yaml.loads(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1", "line 1: anchors"),
        ("a: 1\nb: *x", "line 2: aliases"),
        ("a: !!python/object/apply:os.system [x]", "line 1: tags"),
        ("a: [&x 1]", "line 1: anchors"),
        ("a:\n\tb: 1", "line 2: a tab"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' occurs twice"),
        ("a: {b: 1, b: 2}", "line 1: the key 'b' occurs twice"),
        ("a: [1, 2", "line 1: a quote or bracket is not closed"),
        ("a: 'x", "line 1: a quote or bracket is not closed"),
        ('a: "\\q"', "line 1: unknown escape"),
        ("a: b: c", "line 1: a map inside a scalar"),
        ("a: 1\n  b: 2", "line 2: a map inside a scalar"),
        ("a:\n  b: 1\n    c: 2", "line 3: "),
        ("a: one\n  - two", "line 2: indented more than the line before"),
        ("- one\n  -\n", "line 2: indented more than the line before"),
        ("- a\nb: 1", "line 2: there is more"),
        ("a: 1\n---\nb: 2", "line 2: "),
        ("? a\n: b", "line 1: keys"),
        ("a: - b", "line 1: a list"),
        ("a: x\0y", "line 1: a control character"),
        ("a: [1] 2", "line 1: unexpected '2'"),
        ("[" * 60 + "]" * 60, "nested more than"),
        ("\n".join(" " * i + "a:" for i in range(60)), "nested more than"),
    ],
)
def test_what_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(YamlError) as caught:
        yaml.loads(text, "conf.yml")
    assert problem in caught.value.message
    assert caught.value.message.startswith("conf.yml, line ")


PLACES = """\
---
a: [x,
  {b: c,

   d: [y]}]
e:
- - x
  - f: 1
    g: |
      - x
- x
"""


def test_where_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(PLACES)
    body, written = yaml.load_written(str(tmp_path / "x.yml"))
    assert body == yaml.loads(PLACES)
    flow, block = body["a"], body["e"]
    lines: dict[int, list[tuple[Any, Any]]] = {
        2: [(body, "a"), (flow, 0)],
        3: [(flow, 1), (flow[1], "b")],
        5: [(flow[1], "d"), (flow[1]["d"], 0)],
        6: [(body, "e")],
        7: [(block, 0), (block[0], 0)],
        8: [(block[0], 1), (block[0][1], "f")],
        9: [(block[0][1], "g")],
        11: [(block, 1)],
    }
    for number, places in lines.items():
        for whole, key in places:
            assert written.at(whole, key) == written.line(number)
    assert written.line(11) == f"{tmp_path}/x.yml, line 11: '- x'"
    assert written.beginning() == written.line(2)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(YamlError, match="not UTF-8"):
        yaml.load(str(tmp_path / "x.yml"))


texts = st.text(st.sampled_from("ab:#- '\"\\{}[]&*!|>%@,?~\n\t0.e\u00e9\u2028\x85=<yN"), max_size=8) | st.text(
    max_size=5
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=10)


@settings(max_examples=300, deadline=None)
@given(values.filter(lambda value: "\ud800" not in repr(value)))
def test_what_is_written_is_read_back(value: Any) -> None:
    assert yaml.loads(yaml_writer.dumps(value)) == value


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab:-#[]{}'\"|> \n,&*!?\t"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        yaml.loads(text)
    except YamlError as e:
        assert "line" in e.message


def test_how_it_is_written() -> None:
    body: Any = {
        "name": "x",
        "empty": None,
        "flag": True,
        "version": "1.10",
        "list": ["a", {"pip": ["b", "-e ."]}],
        "m": {},
    }
    assert yaml_writer.dumps(body) == (
        'name: x\nempty: null\nflag: true\nversion: "1.10"\nlist:\n- a\n- pip:\n  - b\n  - -e .\nm: {}\n'
    )
