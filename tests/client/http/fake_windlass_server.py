"""A program that behaves like the server's process: one per home, writes server.json, has a version, can be shut down.

FAKE_VERSION is the version that it claims. FAKE_FAILS makes it end at once with that text.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer({"status": "ok", "version": os.environ["FAKE_VERSION"], "api": 1})

    def do_POST(self) -> None:
        assert self.headers["Authorization"] == "Bearer the-token"
        self.answer({})
        threading.Thread(target=self.server.shutdown).start()

    def answer(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def write(path: str, text: str) -> None:
    with open(path + ".aside", "w") as file:
        os.chmod(path + ".aside", 0o600)
        file.write(text)
    os.replace(path + ".aside", path)


def main(home: str) -> int:
    if os.environ.get("FAKE_FAILS"):
        print("a line before\n" + os.environ["FAKE_FAILS"], file=sys.stderr)
        return 125
    with open(f"{home}/starts", "a") as starts:
        starts.write(f"{os.getpid()}\n")
    with open(f"{home}/lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("error: another server has this home", file=sys.stderr)
            return 125
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        write(f"{home}/token", "the-token\n")
        write(
            f"{home}/server.json", json.dumps({"pid": os.getpid(), "url": url, "version": os.environ["FAKE_VERSION"]})
        )
        server.serve_forever()
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[sys.argv.index("--home") + 1]))
