"""Group D over HTTP: names of files that lead elsewhere, contents that are not what was said, ranges that are none."""

from __future__ import annotations

import hashlib
import json
import os
from urllib.parse import quote

import pytest

from tests.faults.world import wait_for
from tests.inputs.outside import API, ESCAPED, WS, Outside

# As they stand in the address: what is encoded here is decoded once, and only once.
RAW = {
    "D1 up": f"../{ESCAPED}",
    "D1 far up": "../" * 30 + f"tmp/{ESCAPED}",
    "D2 up with a backslash": f"..\\{ESCAPED}",
    "D2 encoded backslash": f"..%5c{ESCAPED}",
    "D3 encoded": f"%2e%2e%2f{ESCAPED}",
    "D3 encoded dots": f"%2e%2e/{ESCAPED}",
    "D3 far up": "%2e%2e%2f" * 30 + f"tmp%2f{ESCAPED}",
    "D5 overlong slash": f"..%c0%af{ESCAPED}",
    "D5 overlong dots": f"%c0%ae%c0%ae/{ESCAPED}",
    "D6 absolute": "/etc/passwd",
    "D6 encoded absolute": "%2fetc%2fpasswd",
    "D7 two slashes": "//etc/passwd",
    "D8 address": "file:///etc/passwd",
    "D8 other address": "http://127.0.0.1/x",
    "D9 drive": f"C:/{ESCAPED}",
    "D9 short drive": f"C:{ESCAPED}",
    "D9 share": f"\\\\host\\share\\{ESCAPED}",
    "D10 up later": f"x/../../{ESCAPED}",
    "D10 encoded up later": f"x/%2e%2e/%2e%2e/{ESCAPED}",
    "D11 NUL": "x%00.png",
    "D11 NUL before up": f"x%00/../../{ESCAPED}",
    "D12 256 bytes": "a" * 256,
    "D12 256 bytes of letters": quote("é" * 128),
    "D12 256 bytes in the middle": f"x/{'a' * 256}/y",
    "D12 4,097 bytes": "/".join(["a" * 240] * 17) + "a",
    "D13 2,000 deep": "a/" * 2000 + "x",
    "D14 slash last": "x/",
    "D14 dot": "x/.",
    "D14 only a dot": ".",
    "D14 nothing": "",
    "D14 nothing between": "x//y",
    "newline": "x%0ay",
    "carriage return": "x%0dy",
    "escape": "x%1b[31my",
    "not UTF-8": "x%ff",
    "broken escape": "%zz/../x",
    "surrogate": "%ed%a0%80",
}


@pytest.mark.parametrize("path", RAW.values(), ids=RAW)
def test_a_path_that_leads_elsewhere_is_refused(server: Outside, path: str) -> None:
    run_id = server.interactive()
    for where in (f"{WS}/runs/{run_id}/files", f"{WS}/runs/{run_id}/snapshot"):
        answer = server.call("GET", f"{where}/{path}")
        assert not answer.raw.startswith(b"root:")
        if answer.status < 400:  # an address without a file's name is the list
            assert path in ("", ".") and answer.json is not None
        else:
            answer.refused(400, 404)
    answer = server.call("PUT", f"{WS}/runs/{run_id}/files/{path}", raw=b"escaped")
    answer.refused(400, 404, 405)
    assert server.call("GET", f"{WS}/runs/{run_id}/files").kept()["files"] == []


@pytest.mark.parametrize("path", RAW.values(), ids=RAW)
def test_a_stream_of_a_log_elsewhere_is_refused(sqlite: Outside, path: str) -> None:
    if path.isalnum() or not path:
        return
    run_id = sqlite.interactive()
    sqlite.call("POST", f"{WS}/runs/{run_id}/end", {"state": "Completed"}).kept()
    target = f"{WS}/runs/{run_id}/stream?log={path.replace('#', '%23')}"
    answer = sqlite.call("GET", target)
    assert b"root:" not in answer.raw
    assert answer.status == 200 or answer.refused(400)


# Decoded, as they stand in a manifest.
PATHS = [
    f"../{ESCAPED}",
    f"..\\{ESCAPED}",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    f"C:/{ESCAPED}",
    "\\\\host\\share",
    f"x/../../{ESCAPED}",
    "x\0.png",
    "a" * 256,
    "/".join(["a" * 240] * 17) + "a",
    "a/" * 2000 + "x",
    "x/",
    "x/.",
    "./x",
    ".",
    "..",
    "",
    "x//y",
    "x\ny",
    "x\x1by",
    "a\udc80",
    f"{ESCAPED}/../../../x",
]


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_a_manifest_that_leads_elsewhere_is_refused(server: Outside, path: str) -> None:
    body = server.submission()
    body["files"].append({**body["files"][0], "path": path})
    run_id = server.interactive()
    with server.unchanged():
        for target, sent in (
            (f"{WS}/runs", body),
            (f"{WS}/plan", body),
            (f"{WS}/runs/{run_id}/snapshot", {"files": body["files"]}),
        ):
            server.call("POST", target, sent).refused(400)
    server.call("GET", f"{WS}/runs/{run_id}/snapshot").refused(404)


@pytest.mark.parametrize(
    "paths", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("main.py/x",)], ids=" ".join
)
def test_d15_a_file_that_is_also_a_folder_is_refused(server: Outside, paths: tuple[str, ...]) -> None:
    body = server.submission()
    body["files"] += [{**body["files"][0], "path": path} for path in paths]
    with server.unchanged():
        server.call("POST", f"{WS}/runs", body).refused(400)


def test_d15_a_file_of_a_run_that_is_also_a_folder_is_refused(server: Outside) -> None:
    """Whoever downloads them could not have both."""
    run_id = server.interactive()
    files = f"{WS}/runs/{run_id}/files"
    server.call("PUT", f"{files}/a/b", raw=b"1").kept()
    for path in ("a", "a/b/c", "a/b/c/d"):
        server.call("PUT", f"{files}/{path}", raw=b"2").refused(409)
    for path in ("a/c", "ab", "a.txt", "a-b/c"):
        server.call("PUT", f"{files}/{path}", raw=b"3").kept()


# What a file may well be called, strange as it is.
ODD = [
    "a",
    "-rf",
    "~",
    "$(id)",
    "`id`",
    "a b",
    " a",
    "a ",
    "a'b",
    'a"b',
    "é",
    "e\u0301",
    "漢字",
    "\U0001f600",
    "%41",
    "a%2fb",
    "...",
    "..a",
    "a..",
    "..;",
    ".hidden",
    "CON",
    "nul.txt",
    "ab:c",
    "a;b",
    "a&b",
    "a?b",
    "a#b",
    "<script>",
    "a\u202egpj",
    "x" * 255,
    "{0}",
    "%2e%2e%2fx",
    "a=b&c=d",
    "*",
    "a|b",
    "+",
    "a+b",
    "a,b",
]


def test_odd_names_are_kept_to_the_letter(server: Outside) -> None:
    """D4: what is encoded twice is decoded once, so it is only a strange name."""
    run_id = server.interactive()
    for number, path in enumerate(ODD):
        target = f"{WS}/runs/{run_id}/files/{quote(path, safe='')}"
        server.call("PUT", target, raw=str(number).encode()).kept()
        answer = server.call("GET", target)
        assert (answer.status, answer.raw) == (200, str(number).encode())
        assert answer.headers["content-type"] == "application/octet-stream"
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("attachment; ") and disposition.isascii() and "\n" not in disposition
    found = server.call("GET", f"{WS}/runs/{run_id}/files").kept()["files"]
    assert sorted(file["path"] for file in found) == sorted(ODD)


def test_odd_names_in_a_snapshot_run_where_they_are(sqlite: Outside) -> None:
    text = "import json, os; print(json.dumps(sorted(os.listdir('.'))))"
    names = sorted({"main.py", *ODD})
    body = sqlite.submission(files={name: text.encode() if name == "main.py" else b"" for name in names})
    run = sqlite.world.wait_final(sqlite.call("POST", f"{WS}/runs", body).kept()["id"])
    assert run["state"] == "Completed", run
    listed = set(json.loads(sqlite.file(run["id"])))
    assert set(names) <= listed


def test_d20_names_that_differ_in_case_are_two_files(server: Outside) -> None:
    run_id = server.interactive()
    for path in ("Model.pkl", "model.pkl", "MODEL.PKL", "caf\u00e9", "cafe\u0301"):
        server.call("PUT", f"{WS}/runs/{run_id}/files/{quote(path)}", raw=path.encode()).kept()
    for path in ("Model.pkl", "model.pkl", "MODEL.PKL", "caf\u00e9", "cafe\u0301"):
        assert server.file(run_id, path) == path.encode()


RANGES = {
    "bytes=-1": (206, b"9"),
    "bytes=-0": (416, b""),
    "bytes=5-2": (200, None),
    "bytes=0-": (200, None),
    "bytes=3-5": (206, b"345"),
    "bytes=10-": (416, b""),
    "bytes=9-99": (206, b"9"),
    "bytes=-99": (200, None),
    "bytes=99999999999999999999-": (200, None),
    "bytes=0-0,2-2": (200, None),
    "bytes=" + ",".join(f"{i}-{i}" for i in range(1000)): (400, None),
    "bytes=a-b": (200, None),
    "bytes": (200, None),
    "bytes=": (200, None),
    "bytes=-": (200, None),
    "lines=0-5": (200, None),
    "bytes=--1": (200, None),
    "bytes=0x1-": (200, None),
    "bytes= 1-2": (200, None),
    "bytes=\u0661-": (200, None),
}


@pytest.mark.parametrize("wanted", RANGES, ids=lambda text: text[:30])
def test_d21_ranges(sqlite: Outside, wanted: str) -> None:
    run_id = sqlite.interactive()
    sqlite.call("PUT", f"{WS}/runs/{run_id}/files/x", raw=b"0123456789").kept()
    answer = sqlite.call("GET", f"{WS}/runs/{run_id}/files/x", headers={"Range": wanted})
    status, content = RANGES[wanted]
    if answer.status >= 400:
        answer.refused(status)
    else:
        assert answer.status in (status, 206)
        assert answer.raw == (b"0123456789" if content is None else content)


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1",
        "offset=1e3",
        "offset=x",
        "limit=-1",
        "limit=1.5",
        "offset=99999999999999999999",
        "offset=",
        "offset=%00",
        "where=x",
        "offset=1&offset=2",
    ],
)
def test_d21_offsets_that_are_none(sqlite: Outside, query: str) -> None:
    run_id = sqlite.interactive()
    sqlite.call("PUT", f"{WS}/runs/{run_id}/files/x", raw=b"0123456789").kept()
    sqlite.call("GET", f"{WS}/runs/{run_id}/files/x?{query}").refused(400)
    assert sqlite.call("GET", f"{WS}/runs/{run_id}/files/x?offset=999&limit=5").raw == b""


def check_nothing_aside(server: Outside) -> None:
    """Also what others have begun to send and broken off goes, a moment after they have."""
    aside = server.home / "files" / "blobs" / "aside"
    wait_for("what is half there to go", lambda: not list(aside.iterdir()))


def test_d22_bytes_that_are_not_their_digest_are_not_kept(server: Outside) -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    assert digest in server.call("PUT", f"{WS}/blobs/{digest}", raw=b"wrong").refused(400)
    framed = digest.encode() + (5).to_bytes(8, "big") + b"wrong"
    assert digest in server.call("POST", f"{WS}/blobs", raw=framed).refused(400)
    assert server.call("POST", f"{WS}/blobs/missing", {"digests": [digest]}).kept() == {"missing": [digest]}
    check_nothing_aside(server)


GOOD = hashlib.sha256(b"good").hexdigest().encode() + (4).to_bytes(8, "big") + b"good"
FRAMES = {
    "cut head": b"0" * 10,
    "no digest": b"z" * 64 + (1).to_bytes(8, "big") + b"x",
    "too long": b"0" * 64 + (1 << 63).to_bytes(8, "big") + b"x",
    "longest": b"0" * 64 + b"\xff" * 8,
    "cut bytes": b"0" * 64 + (5).to_bytes(8, "big") + b"abc",
    "good, then cut": GOOD + b"0" * 71,
    "good, then more": GOOD + b"\0",
    "capital digits": b"A" * 64 + (0).to_bytes(8, "big"),
    "not ASCII": b"\xff" * 72,
}


@pytest.mark.parametrize("body", FRAMES.values(), ids=FRAMES)
def test_d22_many_at_once_that_are_not_whole(server: Outside, body: bytes) -> None:
    server.call("POST", f"{WS}/blobs", raw=body).refused(400)
    check_nothing_aside(server)


def test_d22_the_same_again_in_any_order(server: Outside) -> None:
    pieces = [os.urandom(20_000) for _ in range(5)]
    frames = [hashlib.sha256(p).hexdigest().encode() + len(p).to_bytes(8, "big") + p for p in pieces]
    for order in (frames, frames[::-1], frames + frames, frames[:1] * 10):
        assert server.call("POST", f"{WS}/blobs", raw=b"".join(order)).kept()["stored"] == len(order)
    digests = [hashlib.sha256(p).hexdigest() for p in pieces]
    assert server.call("POST", f"{WS}/blobs/missing", {"digests": digests}).kept() == {"missing": []}


def test_d22_an_upload_that_breaks_off_can_be_sent_again(sqlite: Outside) -> None:
    data = os.urandom(3_000_000)
    digest = hashlib.sha256(data).hexdigest()
    head = (
        f"PUT {WS}/blobs/{digest} HTTP/1.1\r\nHost: 127.0.0.1:{sqlite.port}\r\n"
        f"Authorization: Bearer {sqlite.token}\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode()
    for length in (0, 1, 500_000, len(data) - 1):
        with sqlite.connect() as connection:
            connection.sendall(head + data[:length])
    assert sqlite.call("POST", f"{WS}/blobs/missing", {"digests": [digest]}).kept() == {"missing": [digest]}
    assert sqlite.call("PUT", f"{WS}/blobs/{digest}", raw=data).kept() == {"digest": digest, "size": len(data)}


def test_a_name_is_written_once(server: Outside) -> None:
    run_id = server.interactive()
    target = f"{WS}/runs/{run_id}/files/outputs/x"
    server.call("PUT", target, raw=b"first").kept()
    server.call("PUT", target, raw=b"first").kept()
    server.call("PUT", target, raw=b"second").refused(409)
    assert server.file(run_id, "outputs/x") == b"first"


def test_what_a_run_made_is_never_a_page(sqlite: Outside) -> None:
    run_id = sqlite.interactive()
    for name in ("page.html", "image.svg", "script.js", "x.pdf"):
        sqlite.call("PUT", f"{WS}/runs/{run_id}/files/{name}", raw=b"<script>alert(1)</script>").kept()
        headers = sqlite.call("GET", f"{WS}/runs/{run_id}/files/{name}").headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-disposition"].startswith("attachment")
        assert "sandbox" in headers["content-security-policy"]


def test_nothing_of_the_disk_can_be_read(sqlite: Outside) -> None:
    """The names of files that are there, in every address that takes one."""
    secret = sqlite.home / "token"
    assert secret.exists()
    up = "../" * 12
    for name in (str(secret), up + str(secret).lstrip("/"), "token", "../token", "server.json", "windlass.sqlite"):
        for template in (
            "/NAME",
            f"{API}/NAME",
            f"{WS}/runs/x/files/NAME",
            f"{WS}/blobs/NAME",
            "/static/NAME",
            f"{API}/../NAME",
            f"{API}//NAME",
        ):
            for spelled in (name, quote(name, safe="")):
                answer = sqlite.call("GET", template.replace("NAME", spelled))
                # Another path than the API's is a page of the studio, the same for all.
                assert answer.status >= 400 or answer.raw.startswith(b"<!doctype html>")
                assert sqlite.token.encode() not in answer.raw
