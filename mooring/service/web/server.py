"""Listening: where, with which token, and until when."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mooring.atomic_files import read_private, write_whole
from mooring.errors import EngineError
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.listening_place import ListeningPlace
from mooring.service.web.tls import Tls, TlsFiles, load_tls

TOKEN_FILE_NAME = "token"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
MOST_CONNECTIONS = 512
HEADER_PATIENCE_S = 10.0


def rules_for(address: ListeningPlace, token: str, names: Sequence[str] = ()) -> Rules:
    """On loopback reading is open. Beyond, everything needs the token, and the service is known by the name
    or address it was given, and by the machine's. `names` are those of its certificate.
    """
    hosts = {*_LOCAL_NAMES, address.host.lower(), *names}
    if not address.is_loopback:
        hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Rules(token, sorted(hosts), reading_is_open=address.is_loopback)


def project_token(folder: Path) -> str:
    """The token of a project, made when it is first asked for. One that others could read, or that is a link,
    may be known to whoever made the folder (it came with a repository, say), so another is made.
    """
    path = folder / TOKEN_FILE_NAME
    with contextlib.suppress(OSError):
        known = (read_private(path) or b"").decode(errors="replace").strip()
        if len(known) >= 32:
            return known
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    write_whole(path, token, mode=0o600)
    return token


def serve(
    app: Callable[[Rules], Guard],
    address: ListeningPlace,
    token: str,
    listening: Callable[[str], None],
    tls_files: TlsFiles | None = None,
    *,
    preferred_port: int | None = None,
) -> None:
    """Until a signal ends it; `listening` is called with the address once connections are accepted. Where any
    port will do, the preferred one is taken if it is free.
    """
    tls = None if tls_files is None else load_tls(tls_files)
    with contextlib.closing(_listener(address, preferred_port)) as listener:
        scheme, names = ("http", ()) if tls is None else ("https", tls.names)
        listening(f"{scheme}://{called(address, names)}:{listener.getsockname()[1]}/")
        ServiceServer(app(rules_for(address, token, names)), tls).run(sockets=[listener])


def called(address: ListeningPlace, names: Sequence[str]) -> str:
    """The host of the address that is shown: where it listens at every one of this machine, a name that leads
    there from elsewhere, which is the certificate's if it has one.
    """
    if not address.is_everywhere:
        return address.shown_host
    own = (socket.getfqdn(), socket.gethostname())
    known = (*(name for name in names if not name.startswith("*") and ":" not in name), *own)
    return next((name for name in known if not name.startswith("localhost")), "localhost")


class PatientProtocol(H11Protocol):
    """Closes a connection that has been waited for: for its first request, or, after an answer, for the next
    whole one. A byte now and then ends the server's own patience with kept connections, but not this.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._patience is not None:
            self._patience.cancel()

    def _wait_for_request(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self.loop.call_later(HEADER_PATIENCE_S, self._give_up)

    def _give_up(self) -> None:
        """Unless a request is being answered: then its end is where waiting begins anew."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class ServiceServer(uvicorn.Server):
    def __init__(self, app: Guard, tls: Tls | None = None) -> None:
        super().__init__(_config(app, tls))
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams of events last until they are ended."""
        await self._guard.close()
        await super().shutdown(sockets)


def _listener(address: ListeningPlace, preferred_port: int | None) -> socket.socket:
    if address.port == 0 and preferred_port is not None:
        with contextlib.suppress(EngineError):
            return listening_socket(ListeningPlace(address.host, preferred_port))
    return listening_socket(address)


def listening_socket(address: ListeningPlace) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(128)
    except OSError as failure:
        listener.close()
        raise EngineError(
            f"cannot listen at {address.shown_host}:{address.port}: {failure.strerror or failure}",
            remedy="give another address",
        ) from failure
    return listener


def _config(app: Guard, tls: Tls | None) -> uvicorn.Config:
    """Bounded in connections, in what is read of a header, and in how long its end takes; it logs nothing,
    since what is asked for may hold the token.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=PatientProtocol,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=16_384,
        ssl_context_factory=None if tls is None else lambda config, default: tls.context,
    )
