"""A company's network: a package index that its own authority vouches for, behind a proxy. Both ask for a password."""

from __future__ import annotations

import base64
import contextlib
import http.server
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.wheels import make_wheel

INDEX_PASSWORD = "c4n4ry-of-the-index"
PROXY_PASSWORD = "c4n4ry-of-the-proxy"


class Company:
    """`address` is where both listen. The index has one package, tiny 1.0."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.certificates = folder / "ca.pem"
        self.fetched: list[str] = []  # paths of the index
        self.connected: list[str] = []  # what the proxy was asked to connect to
        folder.mkdir(parents=True)
        self._certify(address)
        self.wheel = make_wheel(folder, "tiny", "1.0")
        self._servers = [_Server((address, 0), _Index, self), _Server((address, 0), _Proxy, self)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        index, proxy = self._servers
        index.context = context
        self.index = f"https://someone:{INDEX_PASSWORD}@{address}:{index.server_port}/simple"
        self.proxy = f"http://someone:{PROXY_PASSWORD}@{address}:{proxy.server_port}"
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @classmethod
    @contextlib.contextmanager
    def made(cls, folder: Path, address: str) -> Iterator[Company]:
        company = cls(folder, address)
        try:
            yield company
        finally:
            for server in company._servers:
                server.shutdown()
                server.server_close()

    def _certify(self, address: str) -> None:
        key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
        self._openssl("req", "-x509", *key, "-subj", "/CN=Company", "-keyout", "ca.key", "-out", "ca.pem")
        self._openssl("req", *key[:3], "-subj", "/CN=index", "-keyout", "server.key", "-out", "server.csr")
        (self.folder / "names").write_text(f"subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\n")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        self._openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def __init__(self, where: tuple[str, int], handler: Any, company: Company) -> None:
        super().__init__(where, handler)
        self.company = company

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.context is None:
            return super().finish_request(request, client_address)
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who is not trusted hangs up."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *words: Any) -> None:
        pass

    def _is_known(self, header: str, password: str) -> bool:
        wanted = "Basic " + base64.b64encode(f"someone:{password}".encode()).decode()
        return self.headers.get(header) == wanted


class _Index(_Handler):
    def do_GET(self) -> None:
        company = self.server.company
        if not self._is_known("Authorization", INDEX_PASSWORD):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        company.fetched.append(self.path)
        name = company.wheel.name
        body = company.wheel.read_bytes() if self.path.endswith(name) else f'<a href="/{name}">{name}</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if body.startswith(b"<") else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET


class _Proxy(_Handler):
    def do_CONNECT(self) -> None:
        if not self._is_known("Proxy-Authorization", PROXY_PASSWORD):
            self.send_response(407)
            self.end_headers()
            return
        self.server.company.connected.append(self.path)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as there:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            _carry(self.connection, there)


def _carry(one: socket.socket, other: socket.socket) -> None:
    while True:
        for ready in select.select([one, other], [], [], 60)[0]:
            data = ready.recv(1 << 16)
            if not data:
                return
            (other if ready is one else one).sendall(data)
