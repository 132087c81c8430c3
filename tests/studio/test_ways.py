"""The studio by other ways than its own address: through a tunnel, below a path of a proxy, beside another server; and
from the page of another origin, which gets nothing.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.studio.browser import Studio, Watch, using
from tests.studio.conftest import OpenPage
from tests.studio.proxy import below, forwarding


def port_of(studio: Studio) -> int:
    return urlsplit(studio.url).port or 0


def test_through_a_tunnel_at_another_port(open_page: OpenPage, studio: Studio, watch: Watch) -> None:
    with forwarding(port_of(studio)) as port:
        page = open_page(None)
        code = studio.call("POST", "/session-codes")["code"]
        page.goto(f"http://127.0.0.1:{port}/signin#code={code}&next=/workspaces/default/models")
        page.wait_for_url(f"http://127.0.0.1:{port}/workspaces/default/models")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Models")
        watch.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("keeps_path", [True, False], ids=["path kept", "path removed"])
def test_below_a_path_of_a_proxy(open_page: OpenPage, tmp_path: Path, watch: Watch, keeps_path: bool) -> None:
    with using(tmp_path / "home") as server:
        inside = free_port()
        with forwarding(inside, below("/team/lab", keeps_path)) as outside:
            public = f"http://127.0.0.1:{outside}/team/lab"
            server.start_server(WINDLASS_PUBLIC_URL=public, WINDLASS_PORT=str(inside))
            assert server.url == public
            page = open_page(None)
            page.goto(f"{public}/workspaces/default/models")
            expect(page.get_by_text(f"windlass --url {public} studio", exact=True)).to_be_visible()
            page.get_by_label("Token").fill(server.token)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{public}/workspaces/default/models")
            expect(page.get_by_role("heading", level=1)).to_contain_text("Models")
            assert [cookie["path"] for cookie in page.context.cookies()] == ["/team/lab"]
            page.reload()
            page.get_by_role("link", name="Settings").click()
            page.wait_for_url(f"{public}/workspaces/default/settings")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            watch.close()


def test_two_servers_on_one_host(open_page: OpenPage, studio: Studio, own_studio: Studio) -> None:
    """A browser sends the cookies of both servers to both."""
    page = open_page("/workspaces/default/models")
    own_studio.sign_in(page, "/workspaces/default/models")
    for server in (studio, own_studio):
        page.goto(f"{server.url}/workspaces/default/models")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Models")
    assert len(page.context.cookies()) == 2


@contextmanager
def other_origin() -> Iterator[str]:
    """A page of somebody else on this host, which the browser sends the studio's cookie to as well."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# Each tries to read or to change something with the user's cookie, and says what it learnt.
ATTACKS = """async (server) => {
  const found = [];
  const attempt = async (name, action) => found.push([name, await action().catch(() => null)]);
  const json = {"Content-Type": "application/json"};
  const make = (body) => ({method: "POST", body, credentials: "include"});
  const path = server + "/api/v1/workspaces/default/experiments";
  const read = (options) => async () => (await fetch(path, options)).text();
  await attempt("read", read({credentials: "include"}));
  await attempt("simple post", read({...make('{"name": "forged"}'), headers: {"Content-Type": "text/plain"}}));
  await attempt("json post", read({...make('{"name": "forged"}'), headers: json}));
  await attempt("opaque post", async () => {
    await fetch(path, {...make('{"name": "forged"}'), mode: "no-cors"});
    return null;
  });
  const guess = {"X-Windlass-Session": "x".repeat(43)};
  await attempt("guessed token", read({credentials: "include", headers: guess}));
  await attempt("beacon", async () => {
    navigator.sendBeacon(path, '{"name": "forged"}');
    return null;
  });
  await attempt("form", async () => {
    const form = document.createElement("form");
    const frame = document.createElement("iframe");
    frame.name = "sink";
    document.body.append(frame);
    Object.assign(form, {method: "POST", action: path, target: "sink", enctype: "text/plain"});
    const field = document.createElement("input");
    Object.assign(field, {name: '{"name": "forged", "x": "', value: '"}'});
    form.append(field);
    document.body.append(form);
    form.submit();
    await new Promise((done) => { frame.onload = done; setTimeout(done, 500); });
    return null;
  });
  await attempt("frame", async () => {
    const frame = document.createElement("iframe");
    frame.src = server + "/workspaces/default";
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; setTimeout(done, 500); });
    return frame.contentDocument && frame.contentDocument.body.innerText || null;
  });
  await attempt("script", () => new Promise((done) => {
    const script = document.createElement("script");
    script.src = path;
    script.onload = () => done("loaded");
    script.onerror = () => done(null);
    document.body.append(script);
  }));
  return found;
}"""


def test_a_page_of_another_origin_cannot_use_the_session(open_page: OpenPage, studio: Studio, watch: Watch) -> None:
    page = open_page("/workspaces/default/models")
    cookie = page.context.cookies()[0]
    with other_origin() as other:
        page.goto(other)
        watch.problems.clear()
        before = studio.call("GET", "/workspaces/default/experiments")
        learnt = dict(page.evaluate(ATTACKS, studio.url))
        watch.problems.clear()  # the browser says of each attempt that it was refused
        assert len(learnt) == 9 and not [name for name, found in learnt.items() if found], json.dumps(learnt)
        assert cookie["name"] in {each["name"] for each in page.context.cookies(other)}, "the attacks had the cookie"
        assert "windlass" not in str(page.evaluate("document.cookie + JSON.stringify(localStorage)"))
        page.goto("about:blank")
        watch.problems.clear()
    assert studio.call("GET", "/workspaces/default/experiments") == before
