"""A service over a simulated run or a problem file, listening on loopback, and a client that tells all."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mooring.service.view.history import History
from mooring.service.view.run_source import RunSource
from mooring.service.view.run_view import RunView
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.listening_place import ListeningPlace
from mooring.service.web.run_service import run_app
from mooring.service.web.server import ServiceServer, listening_socket, rules_for
from mooring.service.web.tls import Tls
from mooring.spark.runs.system_clock import SystemClock

TOKEN = "t" * 40
PATIENCE_S = 300.0
"""Never waited for unless something is wrong: a busy machine may have to compile loops first."""


class Served:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.url = f"http://{host}:{port}/"

    def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and the document."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            sent = {key.replace("_", "-"): value for key, value in headers.items()}
            if token is not None:
                sent["authorization"] = f"Bearer {token}"
            if body is not None:
                sent.setdefault("content-type", "application/json")
            content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.getheader("content-type") or ""
            document = json.loads(text) if "json" in kind and text else text.decode()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, document
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, document = self.ask("GET", path)
        assert status == 200, document
        return document

    def until(self, path: str, fits: Callable[[Any], object]) -> Any:
        """Ask again until the document fits."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, _, document = self.ask("GET", path)
            if status == 200 and fits(document):
                return document
            assert time.monotonic() < deadline, document
            time.sleep(0.05)


@contextlib.contextmanager
def serving(app: Callable[[Rules], Guard], port: int = 0, tls: Tls | None = None) -> Iterator[Served]:
    address = ListeningPlace("127.0.0.1", port)
    listener = listening_socket(address)
    rules = rules_for(address, TOKEN, () if tls is None else tls.names)
    server = ServiceServer(app(rules), tls)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    try:
        yield Served("127.0.0.1", listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()


@contextlib.contextmanager
def serving_run(project: Path, port: int = 0) -> Iterator[Served]:
    view = RunView(RunSource(project, SystemClock()), History(project / ".mooring"))
    with serving(lambda rules: run_app(view, rules), port) as served:
        yield served
