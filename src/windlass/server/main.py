"""The server process: `python -m windlass.server --home FOLDER`. Opens the store, takes over the runs, serves HTTP.

One line on standard error and exit code 125 when it cannot start; the runs of an earlier server go on in any case.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import uvicorn

from windlass import _version, drivers
from windlass.core import vm_sizes
from windlass.core.codec import format_time
from windlass.core.errors import Conflict, InvalidRequest, WindlassError
from windlass.drivers.base import ServerAddress
from windlass.server.api.workspaces import ensure_default
from windlass.server.app import build_app
from windlass.server.context import Context
from windlass.server.execution.dispatcher import Dispatcher
from windlass.server.execution.driver_context import DriverContexts
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.http.connection_limits import BoundedProtocol
from windlass.server.http.connection_table import ConnectionTable, Limits
from windlass.server.http.listener import HttpServer
from windlass.server.log_file import start_logging
from windlass.server.security import private_file
from windlass.server.security.key_file import KeyFile
from windlass.server.security.run_secrets import RunSecrets
from windlass.server.security.run_tokens import load_key, server_id
from windlass.server.security.secret_store import SecretStore
from windlass.server.settings import Settings
from windlass.server.streaming.channels import ChannelTable
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Store, open_store
from windlass.store.files.durability import reporting_full_disk

log = logging.getLogger(__name__)

FAILED = 125
# Seconds between switches of Python threads: with the default of 5 ms, hand-overs between threads would be most of the
# time of a short run.
SWITCH_SECONDS = 0.0005
CLOSE_SECONDS = 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="windlass server run", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--home", type=Path, help="where everything is kept (default: ~/.windlass)")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: the one of last time, or a free one)")
    parser.add_argument("--database", help="postgresql://… for a shared server (default: SQLite in the home)")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    logged = start_logging()
    # uvicorn shuts down on SIGTERM and then raises it again: as an exit, so that the rest is closed too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        settings = Settings.load(**given)
        logged.rotate(settings.home / "server.log", settings.server_log_bytes)
        with reporting_full_disk(settings.home):
            serve(settings)
    except WindlassError as e:
        print(f"error: {e}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:  # the shutdown is complete by then
        return 0
    return 0


def serve(settings: Settings) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(_open(settings))
        settings = settings.tuned(store)
        vm_sizes.declare(settings.own_vm_sizes())
        listening = stack.enter_context(_listen(settings))
        url = f"{'https' if settings.tls_certificate else 'http'}://{_authority(listening)}"
        url = settings.public_url or url
        key = load_key(settings.files / "run-token.key")
        connections = drivers.open_pool(_address(listening, url, server_id(key), settings.tls_certificate))
        stack.callback(connections.close)
        _write_token(store, settings.home / "token")
        ensure_default(store, settings)
        event_bus = EventBus()
        secret_store = SecretStore(store, KeyFile(settings.key_file))
        secret_store.start()
        run_secrets = RunSecrets(store, secret_store)
        run_secrets.forget_ended()
        jobs = JobBuilder(store, connections, settings, url, key, run_secrets, DriverContexts(settings, store))
        owner = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        dispatcher = Dispatcher(store, event_bus, jobs, owner, settings)
        reconciler = Reconciler(store, event_bus, jobs, dispatcher, owner, settings)
        targets = TargetService(store, jobs, dispatcher)
        server: list[HttpServer] = []
        now = datetime.now(UTC)
        context = Context(
            settings,
            store,
            event_bus,
            reconciler,
            targets,
            key,
            url,
            now,
            lambda: _request_exit(server[0]),
            secret_store,
            ChannelTable(store, event_bus),
        )
        server.append(http_server(context))
        reconciler.start()
        stack.callback(reconciler.stop)
        stack.enter_context(_published(settings.home / "server.json", url))
        log.info("listening url=%s home=%s version=%s", url, settings.home, _version.__version__)
        gc.freeze()  # what exists now stays; without this each full collection takes 30 ms for it
        gc.enable()
        server[0].run(sockets=[listening])


def http_server(context: Context) -> HttpServer:
    settings = context.settings
    config = uvicorn.Config(
        build_app(context),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=settings.behind_proxy,
        timeout_graceful_shutdown=CLOSE_SECONDS,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    limits = Limits.of_process(settings.max_connections, settings.behind_proxy)
    return HttpServer(config, ConnectionTable(limits))


def _request_exit(server: HttpServer) -> None:
    server.should_exit = True


@contextmanager
def _open(settings: Settings) -> Iterator[Store]:
    store = open_store(settings.database, settings.files)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    """Listen on the requested port, the one of the last start (running scripts know it), or any free one."""
    remembered = settings.home / "port"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Head and body of a response are two writes: without this the second waits 40 ms for the client's ACK.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for port in [settings.port] if settings.port else [_remembered(remembered), 0]:
            try:
                listening.bind((settings.host, port))
                break
            except PermissionError as e:
                raise InvalidRequest(f"Not allowed to listen on port {port}.", "Choose one above 1023: --port") from e
            except OSError as e:
                if settings.port:
                    raise Conflict(
                        f"Port {port} of {settings.host} is taken or the address is not this machine's: {e.strerror}.",
                        "Choose another with --port, or leave it out.",
                    ) from e
        listening.listen(1024)
        if not settings.port:
            remembered.write_text(str(listening.getsockname()[1]), encoding="ascii")
        yield listening


def _remembered(path: Path) -> int:
    try:
        port = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65536 else 0


def _authority(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(listening: socket.socket, url: str, id: str, certificate: Path | None) -> ServerAddress:
    """The address at which processes on this machine reach the server."""
    host, port = listening.getsockname()[:2]
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        # Such files may have comments in other encodings beside the certificates.
        pem = certificate.read_text(encoding="ascii", errors="ignore") if certificate else ""
    except OSError as e:
        raise InvalidRequest(
            f"The certificate {certificate} cannot be read: {e.strerror}.", "Correct it: tls_certificate."
        ) from e
    return ServerAddress(id, url, near, port, pem)


def _write_token(store: Store, path: Path) -> None:
    """Create the owner's token at first start, in a file that only the owner can read."""
    try:
        known = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        known = ""
    if known and store.tokens.find(known) is not None:
        return
    _, secret = store.tokens.create("owner", "owner", None, None)
    private_file.replace(path, secret)


@contextmanager
def _published(path: Path, url: str) -> Iterator[None]:
    """Keep server.json, from which clients learn the address, while the server runs."""
    document = {
        "pid": os.getpid(),
        "url": url,
        "version": _version.__version__,
        "started_at": format_time(datetime.now(UTC)),
    }
    private_file.replace(path, json.dumps(document))
    try:
        yield
    finally:
        try:
            if json.loads(path.read_text(encoding="utf-8")).get("pid") == os.getpid():
                path.unlink()
        except (OSError, ValueError) as e:
            log.warning("could not remove %s: %s", path, e)
