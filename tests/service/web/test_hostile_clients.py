"""Clients that are slow, or many: held or refused, while everybody else is answered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.service.web import guard, server
from mooring.service.web.run_service import MOST_FOLLOWERS
from tests.service.served import TOKEN, Served, serving_run
from tests.service.simulated_project import SimulatedProject


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(guard, "BODY_PATIENCE_S", 0.3)
    monkeypatch.setattr(server, "HEADER_PATIENCE_S", 0.3)
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as service:
        service.until("/api/v1/picture", lambda picture: "headroom" in picture)
        yield service


def connected(served: Served, sent: bytes) -> socket.socket:
    line = socket.create_connection((served.host, served.port), timeout=60)
    line.sendall(sent)
    return line


def read_all(line: socket.socket) -> bytes:
    text = b""
    while part := line.recv(65536):
        text += part
    return text


def test_a_body_that_does_not_come_is_not_waited_for(served: Served) -> None:
    head = f"POST /api/v1/moves HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    with contextlib.closing(
        connected(served, f"{head}content-type: application/json\r\ncontent-length: 40\r\n\r\n{{".encode())
    ) as line:
        assert served.get("/api/v1/picture")["runs"]
        assert read_all(line).startswith(b"HTTP/1.1 408")


def test_half_a_header_is_not_waited_for(served: Served) -> None:
    with contextlib.closing(connected(served, b"GET /api/v1/pic")) as line:
        assert served.get("/api/v1/picture")["runs"]
        assert read_all(line) == b""


def test_half_a_second_header_is_not_waited_for_either(served: Served) -> None:
    """On a connection that was kept after an answer, where every byte might count as a sign of life."""
    with contextlib.closing(connected(served, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")) as line:
        while b'"up"' not in line.recv(65536):
            pass
        line.sendall(b"GET /api/v1/pic")
        assert read_all(line) == b""
        assert served.get("/api/v1/picture")["runs"]


def test_a_body_that_nobody_reads_is_not_waited_for(served: Served) -> None:
    """It was refused by its header: what is left of it does not hold the connection."""
    head = b"POST /api/v1/moves HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40\r\n\r\n{"
    with contextlib.closing(connected(served, head)) as line:
        assert read_all(line).startswith(b"HTTP/1.1 401")


def test_a_body_that_nobody_asked_for_is_not_read(served: Served) -> None:
    """Whoever looks sends none: the answer does not wait for it, and nothing of it is kept."""
    head = f"GET /api/v1/picture HTTP/1.1\r\nhost: localhost\r\ncontent-length: {10**9}\r\n\r\n"
    with contextlib.closing(connected(served, head.encode() + b"x" * 1000)) as line:
        assert read_all(line).startswith(b"HTTP/1.1 200")


def test_as_many_follow_as_may_and_no_more(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(MOST_FOLLOWERS):
            line = connected(served, b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            lines.append(stack.enter_context(contextlib.closing(line)))
            assert line.recv(15) == b"HTTP/1.1 200 OK"
        assert served.ask("GET", "/api/v1/events")[0] == 429
        assert served.get("/api/v1/picture")["runs"]
    served.until("/healthz", lambda _: True)
