"""`windlass studio` and `windlass open`: an address that signs in, in a browser or printed."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cli.shell import Shell

NO_DISPLAY: dict[str, str | None] = {
    **dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION"), None),
}


def sign_in(address: str) -> dict[str, Any]:
    """Redeem the code of an address, as the page does."""
    parts = urlsplit(address)
    body = json.dumps({"code": parse_qs(parts.fragment)["code"][0]}).encode()
    url = f"{parts.scheme}://{parts.netloc}/api/v1/session"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def test_the_printed_address_signs_in_and_leads_to_the_page(shell: Shell, project: Path) -> None:
    run = shell.submit(project, "print(1)")
    printed = shell("open", run["id"], "--print", env=NO_DISPLAY)
    address = printed.out.strip()
    assert address.startswith(f"{shell.status()['url']}/signin#code=")
    assert parse_qs(urlsplit(address).fragment)["next"] == [f"/workspaces/default/runs/{run['id']}"]
    assert sign_in(address)["role"] == "owner"
    assert "#code" not in run["url"], "what submit prints has no secret"


def test_without_a_display_it_prints_the_line_for_a_tunnel(shell: Shell) -> None:
    port = urlsplit(shell.status()["url"]).port
    far = {**NO_DISPLAY, "DISPLAY": ":0", "SSH_CONNECTION": "192.0.2.1 5000 192.0.2.2 2222"}
    for environment, options in ((NO_DISPLAY, ""), (far, "-p 2222 ")):
        said = shell("studio", env=environment)
        assert said.code == 0 and "/signin#code=" in said.out
        assert f"ssh -N {options}-L {port}:127.0.0.1:{port} " in said.err


def test_with_a_browser_the_code_is_on_no_command_line(shell: Shell, tmp_path: Path) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.part\ncat "${{1#file://}}" >> {seen}.part\n'
                       f"mv {seen}.part {seen}\n")  # fmt: skip
    browser.chmod(0o755)
    said = shell("open", env={**NO_DISPLAY, "BROWSER": str(browser)})
    assert said.code == 0 and "#code" not in said.out + said.err
    deadline = time.monotonic() + 60
    while not seen.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    argument, *page = seen.read_text().splitlines()
    file = Path(argument.removeprefix("file://"))
    assert "code" not in argument and any("/signin#code=" in line for line in page)
    assert file.stat().st_mode & 0o077 == 0, "only its user can read it"


def test_json_has_the_address(shell: Shell) -> None:
    assert sign_in(shell("studio", "--json").json["url"])["name"] == "owner"
