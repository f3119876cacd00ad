"""Listening: where, with which token, and until when."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mooring.errors import EngineError, InputError
from mooring.service.web.guard import Guard, Rules
from mooring.whole_files import write_whole

TOKEN_FILE_NAME = "token"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
MOST_CONNECTIONS = 512
HEADER_PATIENCE_S = 10.0


@dataclass(frozen=True)
class ListeningPlace:
    host: str
    port: int
    """0: any that is free."""

    @classmethod
    def parse(cls, text: str) -> ListeningPlace:
        """`PORT`, `HOST:PORT` or `[IPV6]:PORT`.

        >>> ListeningPlace.parse("8080"), ListeningPlace.parse("[::1]:0")
        (ListeningPlace(host='127.0.0.1', port=8080), ListeningPlace(host='::1', port=0))
        """
        host, _, port = text.rpartition(":")
        host = (host or "127.0.0.1").strip("[]")
        if not (port.isascii() and port.isdigit() and int(port) < 65536):
            raise InputError(f"found {text!r}, expected PORT or HOST:PORT", field="the address to listen at")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def rules_for(address: ListeningPlace, token: str) -> Rules:
    """On loopback reading is open. Beyond, everything needs the token, and the service is known by the name
    or address it was given, and by the machine's.
    """
    hosts = {*_LOCAL_NAMES, address.host.lower()}
    if not address.is_loopback:
        hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Rules(token, sorted(hosts), reading_is_open=address.is_loopback)


def project_token(folder: Path) -> str:
    """The token of a project, made when it is first asked for: only its user can read it."""
    path = folder / TOKEN_FILE_NAME
    with contextlib.suppress(OSError):
        known = path.read_text().strip()
        if len(known) >= 32:
            return known
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    old = os.umask(0o077)
    try:
        write_whole(path, token)
    finally:
        os.umask(old)
    path.chmod(0o600)
    return token


def serve(
    app: Callable[[Rules], Guard], address: ListeningPlace, token: str, listening: Callable[[str], None]
) -> None:
    """Until a signal ends it; `listening` is called with the address once connections are accepted."""
    with contextlib.closing(listening_socket(address)) as listener:
        listening(f"http://{address.shown_host}:{listener.getsockname()[1]}/")
        ServiceServer(app(rules_for(address, token))).run(sockets=[listener])


class PatientProtocol(H11Protocol):
    """Closes a connection on which no whole request has come within a while."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(HEADER_PATIENCE_S, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class ServiceServer(uvicorn.Server):
    def __init__(self, app: Guard) -> None:
        super().__init__(_config(app))
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams of events last until they are ended."""
        await self._guard.close()
        await super().shutdown(sockets)


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


def _config(app: Guard) -> uvicorn.Config:
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
    )
