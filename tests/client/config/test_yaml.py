"""YAML files written by users and by other libraries."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import windlass
from tests.sampling import examples
from windlass.client.config import yaml
from windlass.client.config.yaml import YamlError

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
        ('a: "x\n\n  y\n\n  z"\n', {"a": "x\ny\nz"}),
        ('{? "k" : v}', {"k": "v"}),
        ("? a\n: b", {"a": "b"}),
        ("a: !!str 12\n", {"a": "12"}),
    ],
)
def test_what_is_read(text: str, value: Any) -> None:
    assert yaml.loads(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1", "line 1: anchors"),
        ("a: 1\nb: *x", "line 2: anchors and aliases"),
        ("a: !!python/object/apply:os.system [x]", "line 1: tags"),
        ("a: !!binary aGk=", "line 1: tags"),
        ("a: [&x 1]", "line 1: anchors"),
        ("a:\n\tb: 1", "line 2: a tab"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' occurs twice"),
        ("a: {b: 1, b: 2}", "line 1: the key 'b' occurs twice"),
        ("a: [1, 2", "line 1: a quote or bracket is not closed"),
        ("a: 'x\nb: 1", "line 1: a quote or bracket is not closed"),
        ('a: "\\q"', "line 1: found unknown escape"),
        ("a: b: c", "line 1: a map inside a scalar"),
        ("a: 1\n  b: 2", "line 2: a map inside a scalar"),
        ("a:\n  b: 1\n    c: 2", "line 3: "),
        ("- a\nb: 1", "line 2: it fits neither"),
        ("a: 1\n---\nb: 2", "line 2: a second document"),
        ("? [a]\n: b", "line 1: keys"),
        ("a: - b", "line 1: a list"),
        ("a: x\0y", "line 1: a control character"),
        ("a: [1] 2", "line 1: it fits neither"),
        ("a: " + "9" * 5000, "line 1: a number with too many digits"),
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
    body, source = yaml.load_located(str(tmp_path / "x.yml"))
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
            assert source.at(whole, key) == source.line(number)
    assert source.line(11) == f"{tmp_path}/x.yml, line 11: '- x'"
    assert source.beginning() == source.line(2)


@pytest.mark.parametrize("text", ["a: one\n  - two", "- one\n  -\n", "- numpy\n  - scipy\n"])
def test_an_item_that_is_indented_too_far_is_not_joined_to_the_one_before(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(text)
    with pytest.raises(YamlError, match="line 2: indented more than the line before"):
        yaml.load_located(str(tmp_path / "x.yml"))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text("- package\n" * 200_000)
    with pytest.raises(YamlError, match="larger than the 1 MB"):
        yaml.load(str(tmp_path / "x.yml"))


def test_without_ruamel_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text("a: 1")
    program = f"from windlass.client.config import yaml; yaml.load({str(tmp_path / 'x.yml')!r})"
    path = str(Path(windlass.__file__).parent.parent)
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {path!r}); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0 and "pip install ruamel.yaml" in ran.stderr


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(YamlError, match="not UTF-8"):
        yaml.load(str(tmp_path / "x.yml"))


texts = st.text(st.sampled_from("ab:#- '\"\\{}[]&*!|>%@,?~\n\t0.e\u00e9\u2028\x85=<yN"), max_size=8) | st.text(
    max_size=5
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=10)


printable = values.filter(lambda value: "\ud800" not in repr(value))


@settings(max_examples=examples(300))
@given(printable)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert yaml.loads(yaml.dumps(value)) == value


def means_the_same_in_both_versions(value: Any) -> bool:
    """Whether no text in it is a number in YAML 1.2 that PyYAML (1.1) does not quote, or has a line break of 1.1."""
    if isinstance(value, dict):
        return all(map(means_the_same_in_both_versions, [*value, *value.values()]))
    if isinstance(value, list):
        return all(map(means_the_same_in_both_versions, value))
    return not isinstance(value, str) or not re.search(r"\A[-+.]*[0-9][0-9.oxa-fA-FeE+-]*\Z|[\x85\u2028\u2029]", value)


@settings(max_examples=examples(300))
@given(printable.filter(means_the_same_in_both_versions), st.sampled_from([None, '"', "'", "|", ">"]), st.booleans())
def test_what_pyyaml_writes_is_read(value: Any, style: str | None, flow: bool) -> None:
    text = pyyaml.safe_dump(value, default_style=style, default_flow_style=flow, allow_unicode=flow)
    if "!!" not in text:  # with a style for all scalars, PyYAML writes tags for those that are no texts
        assert yaml.loads(text) == value


@settings(max_examples=examples(300))
@given(printable.filter(means_the_same_in_both_versions), st.sampled_from([40, 80, 1000]))
def test_what_ruamel_writes_is_read(value: Any, width: int) -> None:
    text = io.StringIO()
    writer = YAML()
    writer.width = width
    writer.dump(value, text)
    assert yaml.loads(text.getvalue()) == value


@settings(max_examples=examples(300))
@given(printable.filter(means_the_same_in_both_versions))
def test_what_is_written_means_the_same_to_pyyaml(value: Any) -> None:
    assert pyyaml.safe_load(yaml.dumps(value)) == value


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("style", [None, '"', "'"])
def test_a_certificate_that_pyyaml_wrote_is_read_unchanged(style: str | None) -> None:
    text = pyyaml.safe_dump({"ca": CERTIFICATE, "dockerfile": "FROM x\n\nRUN y\n"}, default_style=style)
    assert yaml.loads(text) == {"ca": CERTIFICATE, "dockerfile": "FROM x\n\nRUN y\n"}


@settings(max_examples=examples(300))
@given(printable, printable)
def test_a_file_that_is_written_over_has_the_new_value(old: Any, new: Any) -> None:
    assert yaml.loads(yaml.dumps(new, over=yaml.dumps(old))) == new


def test_a_file_that_is_written_back_keeps_comments_and_order(tmp_path: Path) -> None:
    path = tmp_path / "conda.yml"
    path.write_text(CONDA)
    body = yaml.load(str(path))
    body["dependencies"][1]["pip"].append("scipy")
    body["dependencies"].remove("numpy")
    body["channels"].insert(0, "defaults")
    yaml.write(str(path), body)
    text = path.read_text()
    assert yaml.loads(text) == body
    for comment in ("# The dependencies defined", "# The python interpreter", "# Required packages", "# ours"):
        assert comment in text
    assert text.index("name:") < text.index("dependencies:") < text.index("channels:")


@settings(max_examples=examples(300))
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
    assert yaml.dumps(body) == (
        'name: x\nempty: null\nflag: true\nversion: "1.10"\nlist:\n- a\n- pip:\n  - b\n  - -e .\nm: {}\n'
    )
