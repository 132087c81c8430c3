"""Names are checked once, at the edge. Each bad one is refused with a sentence that is safe to print anywhere."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core import names
from windlass.core.errors import InvalidRequest

Rule = Callable[[str], str]

# What becomes part of an id, a folder or a command line: letters, digits and little else.
IDENTIFIERS: list[Rule] = [
    names.experiment_name,
    names.target_name,
    names.secret_name,
    names.connection_name,
    names.run_configuration_name,
    names.https_address,
    names.workspace_name,
    names.run_id,
    names.digest,
    names.variable_name,
    names.host_address,
    names.user_name,
    names.member_name,
    names.environment_name,
    names.own_environment_name,
    names.environment_version,
    names.wheel_name,
    names.model_name,
]
# What people write freely and only ever see shown.
LINES: list[Rule] = [names.metric_name, names.tag_key]

RULES = [*IDENTIFIERS, *LINES, names.tag_value, names.relative_path, names.image_reference]

LONG = "x" * 65_536

BAD_NAMES = {
    "empty": "",
    "spaces": "   ",
    "too long": LONG,
    "parent": "..",
    "here": ".",
    "option": "-rf",
    "slash": "a/b",
    "backslash": "a\\b",
    "device with extension": "nul.txt\n",
    "NUL": "a\0b",
    "newline": "a\nb",
    "trailing newline": "ab\n",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "right-to-left override": "gpu\u202etxt",
    "zero width space": "gp\u200bu",
    "byte order mark": "\ufeffgpu",
    "decomposed accent": "cafe\u0301",
    "composed accent": "caf\u00e9",
    "dotted capital": "\u0130d",
    "dotless": "\u0131d",
    "Cyrillic homoglyph": "gp\u0430",
    "emoji": "gpu\U0001f600",
    "lone surrogate": "gpu\ud800",
    "markup": "<script>alert(1)</script>",
    "template": "{{7*7}}",
    "lookup": "${jndi:x}",
    "format": "%s%n",
    "SQL": "'; DROP TABLE runs;--",
    "spreadsheet": "=cmd|' /C calc'!A0",
    "shell": "a;touch pwn",
    "substitution": "$(touch pwn)",
    "backticks": "`id`",
}


@pytest.mark.parametrize("rule", IDENTIFIERS)
@pytest.mark.parametrize("text", BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_no_identifier_is_made_of(rule: Rule, text: str) -> None:
    assert_refused(rule, text)


# Everything else of the list above is ordinary text in a metric's name or a tag: stored as data, shown as data.
UNSHOWABLE = [
    "empty", "spaces", "too long", "NUL", "newline", "trailing newline", "carriage return", "tab",
    "right-to-left override", "zero width space", "byte order mark", "lone surrogate", "device with extension",
]  # fmt: skip


@pytest.mark.parametrize("rule", LINES)
@pytest.mark.parametrize("which", BAD_NAMES)
def test_a_line_is_refused_only_if_it_cannot_be_shown(rule: Rule, which: str) -> None:
    if which in UNSHOWABLE:
        assert_refused(rule, BAD_NAMES[which])
    else:
        assert rule(BAD_NAMES[which]) == BAD_NAMES[which]


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x1b]52;c;aGk=\x07", "\x9b31m", "\x7f", "\x85"])
@pytest.mark.parametrize("rule", RULES)
def test_nothing_that_steers_a_terminal_is_a_name(rule: Rule, text: str) -> None:
    assert_refused(rule, text)


@given(rule=st.sampled_from(RULES), text=st.text(st.characters()))
def test_any_text_is_kept_as_it_is_or_refused_with_a_sentence(rule: Rule, text: str) -> None:
    try:
        assert rule(text) == text
    except InvalidRequest as refusal:
        assert_sentence(refusal)


def assert_refused(rule: Rule, text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        rule(text)
    assert_sentence(refusal.value)


def assert_sentence(refusal: InvalidRequest) -> None:
    assert refusal.message.isascii() and refusal.message.isprintable() and len(refusal.message) < 400


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.experiment_name, ["a", "9", "demo", "My-exp_2", "x" * 255], ["x" * 256, "_a", "-a", "a b", "a.b"]),
        (names.secret_name, ["a", "9", "_", "A_b-9", "x" * 127], ["", "x" * 128, "-a", "a/b", "a.b", "target/a/b"]),
        (names.connection_name, ["a", "9", "my.ws_1-x", "x" * 64], ["", "x" * 65, "-a", "_a", ".a", "a/b", "a b"]),
        (names.run_configuration_name, ["a", "9", "gpu.big_2-x", "x" * 64], ["", "x" * 65, "-a", "_a", "a/b", "a b"]),
        (names.target_name, ["ab", "local", "cpu-cluster", "x" * 16, "x" * 32], ["a", "x" * 33, "9a", "a_b", "-a"]),
        (names.workspace_name, ["ws", "default", "9a_b-c", "x" * 64], ["w", "x" * 65, "_w", "a.b"]),
        (names.run_id, ["a", "demo_1790000000_0123abcd", "a.b-c", "x" * 256], ["x" * 257, "a..b", ".a", "_a"]),
        (names.environment_name, ["a", "train.env_2-x", "AzureML-Minimal", "x" * 255], ["x" * 256, ".a", "_a", "a b"]),
        (names.environment_version, ["1", "2.0", "2024-01-31_a", "x" * 50], ["", ".1", "-1", "a b", "1/2", "x" * 51]),
        (names.own_environment_name, ["train", "my-azureml"], ["AzureML-x", "azureml_x", "Microsoft.x", "a b"]),
        (names.model_name, ["a", "credit.risk_2-x", "9", "x" * 255], ["", "x" * 256, ".a", "-a", "a b", "a/b", "a:1"]),
        (names.wheel_name, ["a-1.0-py3-none-any.whl", "a-1!2+x-py3-none-any.whl"],
         ["a.zip", ".whl", "a b.whl", "a/b.whl"]),
        (names.digest, ["0" * 64, "abcdef0123456789" * 4], ["0" * 63, "0" * 65, "A" * 64, "g" * 64]),
        (names.variable_name, ["A", "_a", "CUDA_VISIBLE_DEVICES", "PATH", "PYTHONHASHSEED", "ENVIRONMENT"],
         ["1X", "A=B", "A B", "BASH_FUNC_x%%", "\u00c4"]),
        (names.host_address,
         ["a", "gpu-box", "gpu-box.lab.example.org", "gpu_box", "gpu.", "10.0.0.7", "::1", "2001:db8::7",
          "::ffff:10.0.0.7", "7a.example.org", "a.b" * 60, "x" * 63],
         ["-oProxyCommand=x", "-a", "a-", "a..b", ".", "a b", "a\nb", "%h", "jane@box", "ssh://box", "[::1]", "box:22",
          "fe80::1%eth0", "x" * 64, "a." * 127, "0", "1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "127.0.0.0x1",
          "1.2.3.4.5", "10.0.0.256", "010.0.0.7", "box.123", "1.2.3.4."]),
        (names.user_name,
         ["root", "jane", "_svc", "j.doe", "jane@example.org", "a-b+c", "1st", "x" * 64],
         ["-l", "root;id", "x" * 65, "x" * 300, "a b", "a:b", "a\\b", "%u", "$USER", "a$", ".a", "@a", "a\n"]),
        (names.member_name,
         ["ann", "ann@example.org", "A.Lee+gpu", "_bot", "1st", "x" * 64],
         ["", "-a", ".a", "@a", "a b", "a/b", "a\n", "\u00e4nn", "x" * 65]),
        (names.metric_name, ["loss", "val loss", "x" * 256, "F\u2081", "\U0001f469\u200d\U0001f52c"], ["x" * 257]),
        (names.tag_key, ["stage", "x" * 100], ["x" * 101]),
        (names.tag_value, ["", "two\nlines\tand a tab", "x" * 1000], ["x" * 1001]),
    ],
)  # fmt: skip
def test_the_limits_are_where_the_rule_says(rule: Rule, good: list[str], bad: list[str]) -> None:
    for text in good:
        assert rule(text) == text
    for text in bad:
        assert_refused(rule, text)


@pytest.mark.parametrize(("text", "word"), [("jane@box", "without a user"), ("127.1", "four decimal numbers")])
def test_for_a_near_miss_of_an_address_it_is_said_what_is_wrong(text: str, word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        names.host_address(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://adb-1.2.azuredatabricks.net", "https://adb-1.2.azuredatabricks.net"),
        ("https://host/", "https://host"),
        ("https://host:8443", "https://host:8443"),
    ],
)
def test_the_address_of_a_service_is_a_host_by_https(text: str, kept: str) -> None:
    assert names.https_address(text) == kept


@pytest.mark.parametrize(
    "text",
    ["http://host", "host", "https://", "https://a@host", "https://host/path", "https://host:0", "https://host:x",
     "https://host:", "https://host?x=1", "https://-host", "https://host:99999"],
)  # fmt: skip
def test_other_addresses_of_services_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        names.https_address(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("gpu.lab", "gpu.lab", None),
        ("gpu.lab:2222", "gpu.lab", 2222),
        ("fd00::7", "fd00::7", None),
        ("[fd00::7]", "fd00::7", None),
        ("[fd00::7]:22", "fd00::7", 22),
        ("[x:22", "[x", 22),
        ("gpu.lab:ssh", "gpu.lab:ssh", None),
        ("gpu.lab:123456", "gpu.lab:123456", None),
        (":22", "", 22),
    ],
)
def test_an_address_is_split_from_its_port(text: str, host: str, port: int | None) -> None:
    assert names.split_address(text) == (host, port)


def test_an_address_and_its_port_are_joined() -> None:
    assert names.join_address("gpu.lab", None) == "gpu.lab"
    assert names.join_address("gpu.lab", 22) == "gpu.lab:22"
    assert names.join_address("fd00::7", 22) == "[fd00::7]:22"


@pytest.mark.parametrize("number", [1, 22, 65535])
def test_a_port_is_a_number_of_sixteen_bits(number: int) -> None:
    assert names.port_number(number) == number


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_no_port_has_that_number(number: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 65535"):
        names.port_number(number)


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "WINDLASS_RUN_TOKEN", "AZUREML_RUN_TOKEN", "BASH_ENV",
     "ENV", "IFS"],
)  # fmt: skip
def test_what_is_obeyed_before_the_script_runs_is_reserved(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is reserved"):
        names.variable_name(name)


BAD_PATHS = {
    "empty": "",
    "climbs": "../x",
    "climbs with backslash": "..\\x",
    "absolute": "/etc/passwd",
    "doubly absolute": "//etc/passwd",
    "URL": "file:///etc/passwd",
    "drive": "C:/x",
    "drive alone": "c:x",
    "share": "\\\\host\\share",
    "climbs later": "x/../../y",
    "climbs to itself": "x/../y",
    "ends by climbing": "x/..",
    "NUL": "x\0.png",
    "newline": "x\ny",
    "escape": "x\x1b[2J",
    "long part": "a" * 256,
    "long part in bytes": "\u00e9" * 128,
    "long path": "/".join(["a" * 255] * 17),
    "deep path": "/".join(["a"] * 256),
    "trailing slash": "x/",
    "trailing dot": "x/.",
    "leading dot": "./x",
    "double slash": "x//y",
    "here": ".",
    "parent": "..",
    "lone surrogate": "x\udc80",
}


@pytest.mark.parametrize("text", BAD_PATHS.values(), ids=BAD_PATHS.keys())
def test_no_path_leaves_its_folder(text: str) -> None:
    assert_refused(names.relative_path, text)


@pytest.mark.parametrize(
    "text",
    ["model.pkl", "outputs/model.pkl", "a/b/c", "...", "..x", ".hidden", "x ", "x.", " x", "a b/c d", "caf\u00e9",
     "a" * 255, "/".join(["a"] * 255), "/".join(["a" * 255] * 16),
     "%2e%2e%2fx", "%252e%252e%252f", "..%c0%af", "-rf", "$(id)", "<script>", "CON"],
)  # fmt: skip
def test_ordinary_and_merely_odd_paths_are_kept(text: str) -> None:
    """Percent signs are plain characters here: the HTTP layer decodes once, before, and nobody does it again."""
    assert names.relative_path(text) == text


@given(
    parts=st.lists(st.sampled_from(["..", ".", "", "a", "b c", "\\", "/", "C:", "x\0", "\u202e", "%2e"]), max_size=6)
)
def test_a_path_that_passes_stays_below_its_folder(parts: list[str]) -> None:
    try:
        path = names.relative_path("/".join(parts))
    except InvalidRequest:
        return
    assert posixpath.normpath(posixpath.join("/root", path)) == "/root/" + path


DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "text",
    ["python", "python:3.11-slim", "a/b/c", "library/x_y__z.1-2", "localhost:5000/x", "Registry.example.org/team/x:v1",
     f"python@{DIGEST}", f"r.io:443/x:1@{DIGEST}", "windlass/env:" + "0" * 64],
)  # fmt: skip
def test_an_image_has_a_name_perhaps_a_tag_and_a_digest(text: str) -> None:
    assert names.image_reference(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "img;id", "--privileged", "-v /:/h", "a b", "$(id)", "`id`", "a|b", "A", "python:", "python:-x", "python@",
     "/x", "x/", "a//b", "a..b", "../x", "python@sha256:abc", "python@md5:" + "0" * 32, f"python@{DIGEST}0",
     f"@{DIGEST}", "python:" + "x" * 129, "host:123456/x", "x\n", "x\0y", "é", "http://x/y", "user@host/x", "a" * 501],
)  # fmt: skip
def test_no_image_is_called(text: str) -> None:
    with pytest.raises(InvalidRequest, match="image"):
        names.image_reference(text)


def test_printable_names_what_was_wrong() -> None:
    with pytest.raises(
        InvalidRequest, match=r"A description has a character that cannot be shown \(U\+202E\): 'a\\u202eb'"
    ):
        names.printable("A description", "a\u202eb")


@given(experiment=st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9_\-]{0,254}", fullmatch=True), now=st.integers(0, 2**40))
def test_a_run_id_is_one(experiment: str, now: int) -> None:
    made = names.make_run_id(experiment, now, "0123456789abcdef")
    assert names.run_id(made) == made
    assert made.endswith(f"_{now}_01234567") and made.startswith(experiment[:200])


@pytest.mark.parametrize(
    ("text", "parts"),
    [("model:3", ("model", 3)), ("model", ("model", None)), ("a:b:12", ("a:b", 12)), ("m:999999999", ("m", 999999999))],
)
def test_a_reference_is_a_name_and_perhaps_a_version(text: str, parts: tuple[str, int | None]) -> None:
    assert names.split_reference(text) == parts


@pytest.mark.parametrize(
    "text", ["model:", "model:x", "model:-1", "model:1.0", "model:\u00b2", "model:\u0663", "m:" + "9" * 5000]
)
def test_a_version_is_a_whole_number(text: str) -> None:
    assert_refused(lambda text: str(names.split_reference(text)), text)


@pytest.mark.parametrize("text", ["python3", "python3.11", "/usr/bin/python3", "~/envs/py35/bin/python", "a/b-c_d+e.f"])
def test_a_program_on_another_machine(text: str) -> None:
    assert names.program_path(text) == text


@pytest.mark.parametrize(
    "text", ["", "-c", "a b", "a;id", "$(id)", "`id`", "'x'", "a\nb", "/", "a//b", "a/", "/-x", "~root/x", "x" * 513]
)
def test_what_is_no_program(text: str) -> None:
    with pytest.raises(InvalidRequest, match="program"):
        names.program_path(text)


@pytest.mark.parametrize("text", ["~/.windlass/ssh", "/data/windlass", "~/my runs", "/größe"])
def test_a_folder_on_another_machine(text: str) -> None:
    assert names.remote_folder(text) == text


@pytest.mark.parametrize("text", ["", "x", "~", "~root/x", "/a/../b", "/a\x1b[31m", "~/\u202ex", "/" + "x" * 1024])
def test_what_is_no_folder_on_another_machine(text: str) -> None:
    with pytest.raises(InvalidRequest, match="folder"):
        names.remote_folder(text)


@pytest.mark.parametrize("text", ["node-loss", "failure", "exit:1", "exit:75", "exit:255"])
def test_ends_after_which_a_run_is_retried(text: str) -> None:
    assert names.retry_condition(text) == text


@pytest.mark.parametrize(
    "text", ["", "exit:0", "exit:256", "exit:", "exit:075", "exit: 75", "Failure", "eviction", "failure\n"]
)
def test_other_ends_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="node-loss, failure or exit:CODE"):
        names.retry_condition(text)
