"""Which service is meant; what it needs is loaded when it is asked for: a planning desk needs no Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Listening = Callable[[str, str], None]
"""Called with the address and the token once connections are accepted."""


def serve_run(project: Path, at: str, listening: Listening) -> None:
    """The run of a project, until a signal ends it."""
    from mooring.service.web import run_service
    from mooring.service.web.server import ListeningPlace

    run_service.serve_run(project, ListeningPlace.parse(at), listening)


def serve_desk(file: Path, at: str, listening: Listening) -> None:
    """A problem file, until a signal ends it."""
    from mooring.service.web import desk_service
    from mooring.service.web.server import ListeningPlace

    desk_service.serve_desk(file, ListeningPlace.parse(at), listening)
