"""No value of a secret survives in a log, however the log is cut into pieces; everything else does."""

from __future__ import annotations

import base64
import html
import json
import shlex
import subprocess
import urllib.parse
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.server.security.log_redaction import (
    RedactEverything,
    RedactionProgress,
    Redactor,
    SecretVariants,
    is_redactable,
)

CANARY = 'p4ss/w"rd é\\+\n='


def forms_of(values: list[str]) -> list[bytes]:
    return sorted(SecretVariants(values).all)


def expected(data: bytes, values: list[str]) -> bytes:
    """Every byte of every occurrence of every form, found without any cleverness."""
    masked = bytearray(data)
    for form in forms_of(values):
        for at in range(len(data) - len(form) + 1):
            if data[at : at + len(form)] == form:
                masked[at : at + len(form)] = b"*" * len(form)
    return bytes(masked)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


# Few letters, so that values overlap themselves, each other, and what is around them.
letters = st.text("ab", min_size=1, max_size=9)
any_value = letters | st.text(min_size=1, max_size=12)
printable = any_value.filter(lambda text: text.isprintable())
lines = st.lists(printable, min_size=2, max_size=4).map("\n".join)
values = st.lists(printable | lines, min_size=1, max_size=3)
places = st.lists(st.integers(0, 10_000), max_size=12)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str], bytes]:
    chosen = draw(values)
    forms = forms_of(chosen) or [b"aa"]
    piece = st.sampled_from(forms) | st.binary(max_size=5) | st.sampled_from([b"a", b"ab", b"b", b"\n"])
    piece = piece | st.sampled_from(forms).map(lambda form: form[: len(form) // 2])
    return chosen, b"".join(draw(st.lists(piece, max_size=12)))


@given(logs(), places)
def test_a_stream_shows_nothing_in_any_chunking(log: tuple[list[str], bytes], where: list[int]) -> None:
    chosen, data = log
    followed = RedactionProgress()
    shown = b"".join(Redactor(SecretVariants(chosen)).redact_stream(cut(data, where), followed))
    assert shown == expected(data, chosen)
    assert not any(form in shown for form in forms_of(chosen) if form.strip(b"*"))
    assert followed.size == len(data)


@given(logs(), places, st.integers(1, 40), st.booleans())
def test_a_growing_file_shows_nothing_at_any_moment(
    log: tuple[list[str], bytes], where: list[int], limit: int, is_restarted: bool
) -> None:
    """Each piece is read by a server that knows nothing of the pieces before, if it was restarted."""
    chosen, data = log
    wanted, shown, redactor = expected(data, chosen), b"", Redactor(SecretVariants(chosen))
    for size in [*accumulate(map(len, cut(data, where))), len(data)]:
        there, end = data[:size], size if size == len(data) else None
        while True:
            redactor = Redactor(SecretVariants(chosen)) if is_restarted else redactor
            piece = redactor.redact_piece(lambda at, n, there=there: there[at : at + n], len(shown), limit, end)  # type: ignore[misc]
            if not piece:
                break
            assert len(piece) <= limit
            shown += piece
        assert shown == wanted[: len(shown)]
        assert len(shown) > size - max(map(len, forms_of(chosen)), default=1), "more is held back than needed"
    assert shown == wanted


@given(logs(), st.integers(0, 200), st.integers(0, 200))
def test_what_is_cut_off_is_not_given_away_by_what_is_left(log: tuple[list[str], bytes], a: int, b: int) -> None:
    """The middle of a log beyond its cap is gone from the machine, and with it halves of values."""
    chosen, data = log
    head, tail = sorted((a % (len(data) + 1), b % (len(data) + 1)))
    there = data[:head] + bytes(tail - head) + data[tail:]
    redactor = Redactor(SecretVariants(chosen))

    def read(at: int, n: int) -> bytes:
        return there[at : at + n]

    shown = redactor.redact_piece(read, 0, head, len(data), cut=head) if head else b""
    rest = redactor.redact_piece(read, tail, len(data) - tail, len(data), floor=tail) if tail < len(data) else b""
    assert len(shown) == head and len(rest) == len(data) - tail
    wanted = expected(data, chosen)
    for part, whole in ((shown, wanted[:head]), (rest, wanted[tail:])):
        for at, byte in enumerate(part):
            assert byte in (whole[at], ord("*")), "something was shown that should not be"
        assert all(part[at] == ord("*") for at, byte in enumerate(whole) if byte == ord("*"))


def written_by_programs(value: str) -> list[str]:
    raw = value.encode()
    found = [value, raw.hex(), raw.hex().upper(), repr(value), json.dumps(value), json.dumps({"k": [value]})]
    found += [json.dumps(value, ensure_ascii=False), urllib.parse.quote(value), urllib.parse.quote(value, safe="")]
    found += [urllib.parse.quote_plus(value), urllib.parse.urlencode({"password": value})]
    found += [repr(raw), json.dumps(json.dumps({"k": value})), json.dumps(json.dumps(value, ensure_ascii=False))]
    found += [urllib.parse.quote(value, safe="!~*'()"), urllib.parse.quote(value, safe="!~*'();,/?:@&=+$#")]
    found += [html.escape(value), html.escape(value, quote=False), shlex.quote(value)]
    found += [raw.hex(separator) for separator in ": -"] + [raw.hex(":").upper()]
    found += [base64.b32encode(around + raw).decode() for around in (b"", b"x", b"xy", b"xyz", b"wxyz")]
    found += [base64.b32encode(raw).decode().lower()]
    for around in (b"", b"x", b"xy", b"xyz", b"user:"):
        for after in (b"", b"1", b"12"):
            found += [base64.b64encode(around + raw + after).decode()]
            found += [base64.urlsafe_b64encode(around + raw + after).decode()]
    return found


@pytest.mark.parametrize(
    "value", ["correct horse battery", CANARY, "ünïcödé-pass", 'it\'s <a> & "b" (c)!', "a" * 40, "0123456789abcdef"]
)
def test_values_are_found_as_programs_write_them(value: str) -> None:
    redactor = Redactor(SecretVariants([value]))
    for text in written_by_programs(value):
        masked, starts = redactor.redact(f"[{text}]".encode())
        assert starts and len(masked) == len(f"[{text}]".encode())
        left = masked.decode().strip("[]").replace("*", "")
        assert len(left) <= max(16, len(text) - len(value)), (text, masked)
        assert value not in masked.decode() and value.encode().hex() not in masked.decode().lower()


PEM = "-----BEGIN KEY-----\n" + "\n".join(f"MIIEvQ{n:026}IBADANBgkqhkiG9w0BAQEFAASC" for n in range(300)) + "\n"
OF_FILES = ["hunter2-hunter2\n", " hunter2-hunter2\r\n", "user: jane\npassword: hunter2\n", PEM]


@pytest.mark.parametrize("value", OF_FILES)
def test_values_that_were_read_from_files_are_found_as_they_are_printed(value: str) -> None:
    """Stripped, indented, line by line, with a terminal's line ends, in somebody's log lines."""
    redactor, lines = Redactor(SecretVariants([value])), value.split("\n")
    printed = [value, value.strip(), "\r\n".join(lines), "\n".join(f"    {line}" for line in lines), repr(lines)]
    printed += ["\n".join(f"12:00:01 INFO {line}" for line in reversed(lines)), json.dumps({"key": value.strip()})]
    for text in printed:
        masked, starts = redactor.redact(text.encode())
        assert starts and len(masked) == len(text.encode())
        assert not any(line.strip() in masked.decode() for line in lines if line.strip()), (text, masked)


@pytest.mark.parametrize("value", OF_FILES)
def test_so_are_they_in_a_header_that_was_made_of_them(value: str) -> None:
    redactor = Redactor(SecretVariants([value]))
    for part in (value.strip(), *(line.strip() for line in value.splitlines())):
        masked, _ = redactor.redact(base64.b64encode(f"user:{part}".encode()))
        assert masked.count(b"*") >= len(part) * 8 // 6 - 2


def test_short_lines_of_a_value_are_no_values() -> None:
    redactor = Redactor(SecretVariants(["{\n  port: 1\n}\n"]))
    assert redactor.redact(b"port: 1 {}") == (b"port: 1 {}", [])
    assert redactor.redact(b"{\n  port: 1\n}")[0] == b"*" * 13


@pytest.mark.parametrize("command", [["base64"], ["base64", "-w", "64"]])
@pytest.mark.parametrize("end", ["", "\n"])
def test_what_base64_prints_in_lines_is_masked(command: list[str], end: str) -> None:
    value = "".join(chr(33 + number * 7 % 90) for number in range(200))
    printed = subprocess.run(command, input=(value + end).encode(), capture_output=True, check=True).stdout
    assert printed.count(b"\n") > 3
    shown, _ = Redactor(SecretVariants([value])).redact(b"before\n" + printed + b"after\n")
    assert set(shown) - set(b"before\nafter\n") == set(b"*")


def test_base64_shows_at_most_the_edges() -> None:
    """Of what stands around a value in base64, only signs that belong to both stay."""
    value = b"correct horse battery"
    for before in range(6):
        text = base64.b64encode(b"x" * before + value + b"y" * 5)
        masked, _ = Redactor(SecretVariants([value.decode()])).redact(text)
        start = before * 8 // 6
        end = -(-(before + len(value)) * 8 // 6)
        assert masked.count(b"*") >= end - start - 2
        assert set(masked[start + 1 : end - 1]) == {ord("*")}


@pytest.mark.parametrize(
    "value, text", [("aaaa", "b" + "a" * 7 + "b"), ("abab", "xababab"), ("abcdabcd", "abcdabcdabcd")]
)
def test_what_overlaps_itself_is_masked_to_its_end(value: str, text: str) -> None:
    data = text.encode()
    masked, starts = Redactor(SecretVariants([value])).redact(data)
    assert masked == expected(data, [value]) and masked.endswith((b"*", b"*b")) and len(starts) == 1
    for at in range(len(data)):
        assert (
            b"".join(Redactor(SecretVariants([value])).redact_stream([data[:at], data[at:]], RedactionProgress()))
            == masked
        )


def test_short_values_are_left_alone() -> None:
    assert not is_redactable("abc") and is_redactable("abcd") and is_redactable("éé") and not is_redactable("abc\n")
    assert Redactor(SecretVariants(["abc", "x"])).redact(b"abc x abc") == (b"abc x abc", [])
    assert Redactor(SecretVariants([])).redact_piece(lambda at, n: b"text"[at : at + n], 0, 10, None) == b"text"


def test_nothing_is_held_back_that_cannot_be_a_value() -> None:
    redactor = Redactor(SecretVariants(["secret-value"]))
    for text in (b"a line\n", b"secret-valuX", b"secret value", b"progress 50%\r"):
        assert redactor.redact_piece(lambda at, n, text=text: text[at : at + n], 0, 100, None) == text  # type: ignore[misc]
    assert redactor.redact_piece(lambda at, n: b"loss 1 secret-v"[at : at + n], 0, 100, None) == b"loss 1 "
    assert redactor.redact_piece(lambda at, n: b"loss 1 secret-v"[at : at + n], 0, 100, 15) == b"loss 1 secret-v"


def test_it_is_counted_how_often() -> None:
    redactor = Redactor(SecretVariants(["secret-value"]))
    data = b"secret-value\nand secret-valuesecret-value\n"
    redactor.redact_piece(lambda at, n: data[at : at + n], 0, 20, None, redactor.progress_of("log"))
    redactor.redact_piece(lambda at, n: data[at : at + n], 20, 100, len(data), redactor.progress_of("log"))
    assert redactor.progress_of("log").count == 3 and redactor.progress_of("log").size == len(data)


def test_a_log_is_known_only_if_it_was_followed_from_its_beginning() -> None:
    redactor, data = Redactor(SecretVariants(["secret-value"])), b"one two three"
    followed = redactor.progress_of("log")
    redactor.redact_piece(lambda at, n: data[at : at + n], 4, 100, len(data), followed)
    assert followed.size == 0
    redactor.redact_piece(lambda at, n: data[at : at + n], 0, 100, len(data), followed)
    assert redactor.has_redacted("log", len(data), followed.digest)
    assert not redactor.has_redacted("log", len(data), "0" * 64) and not redactor.has_redacted(
        "log", 1, followed.digest
    )
    assert not redactor.has_redacted("other", 0, None)


def test_large_values_in_large_logs() -> None:
    value = "".join(f"{n:05}" for n in range(5000))
    data = b"x" * 300_000 + value.encode() + b"y" * 300_000 + base64.b64encode(value.encode())
    shown = b"".join(
        Redactor(SecretVariants([value])).redact_stream(
            (data[i : i + 4096] for i in range(0, len(data), 4096)), RedactionProgress()
        )
    )
    assert shown.count(b"*") == len(value) + len(base64.b64encode(value.encode()))


def test_where_nobody_knows_any_more_all_is_hidden() -> None:
    assert RedactEverything().redact(b"a secret\nin two lines")[0] == b"********\n************"
    assert RedactEverything().redact_piece(lambda at, n: b"abc"[at : at + n], 0, 10, None) == b"***"
