"""Sessions are closed in bounded time, whatever their server does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.sites.endpoint import Endpoint, close_session, first_line, open_session

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.sites.conftest import WaitsMs


class Proxy:
    """Passes bytes between a client and a server until it is frozen, and then none, without a word."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._flows = threading.Event()
        self._flows.set()
        self.asked = threading.Event()
        """Somebody has sent something."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def freeze(self) -> None:
        self._flows.clear()

    def close(self) -> None:
        self._flows.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._thread.join()
        for each in self._sockets:  # one may have come in meanwhile
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets.append(server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.asked.set()
                self._flows.wait()
                target.sendall(data)


@pytest.fixture
def proxy(site: EmbeddedSite) -> Iterator[Proxy]:
    port = int(site.endpoint.url.split("/;")[0].rstrip("/").rsplit(":", 1)[1])
    made = Proxy(port)
    yield made
    made.close()


def through(proxy: Proxy, site: EmbeddedSite) -> Endpoint:
    head, parameters = site.endpoint.url.split("/;", 1)
    return Endpoint(f"{head.rsplit(':', 1)[0]}:{proxy.port}/;{parameters}")


def test_a_frozen_server_is_let_go_and_keeps_nobody_else_waiting(proxy: Proxy, site: EmbeddedSite) -> None:
    stuck = open_session(through(proxy, site))
    proxy.freeze()
    closing = threading.Thread(target=close_session, args=(stuck, 30.0), daemon=True)
    closing.start()
    other = open_session(site.endpoint)
    assert other.range(3).count() == 3
    assert close_session(other)
    assert closing.is_alive(), "the frozen one still had time: the other did not wait for it"


def test_opening_at_a_frozen_server_keeps_nobody_else_waiting(
    proxy: Proxy, site: EmbeddedSite, waits_ms: WaitsMs
) -> None:
    def open_it() -> None:
        with contextlib.suppress(EngineError):  # once the proxy is closed
            open_session(through(proxy, site))

    proxy.freeze()
    opening = threading.Thread(target=open_it, daemon=True)
    opening.start()
    proxy.asked.wait()
    assert close_session(open_session(site.endpoint))
    assert opening not in waits_ms, "the frozen one had failed before: the other waited for it"


def test_closing_says_whether_the_server_answered(proxy: Proxy, site: EmbeddedSite) -> None:
    stuck = open_session(through(proxy, site))
    proxy.freeze()
    assert not close_session(stuck, patience_s=0.2)
    assert close_session(open_session(site.endpoint))


def test_a_dead_server_is_given_up_after_seconds_not_minutes(
    proxy: Proxy, site: EmbeddedSite, waits_ms: WaitsMs
) -> None:
    """By what the client would wait between its tries: how long they take themselves is up to the machine."""
    session = open_session(through(proxy, site))
    proxy.close()
    with pytest.raises(Exception):  # noqa: B017, PT011 - gRPC's own kinds
        session.range(1).count()
    close_session(session)
    assert 0 < sum(waits_ms[threading.current_thread()]) < 30_000


class Said(Exception):
    def details(self) -> str:
        return "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.\nline 1"


def test_what_went_wrong_is_said_though_its_first_line_is_empty() -> None:
    assert first_line(Said()) == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."
    assert first_line(ValueError()) == "ValueError"
