"""The service over a problem file: a planning desk, for which Spark need not be installed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from mooring.errors import InputError
from mooring.model.problem.problem import Problem
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.web.app import guarded_app
from mooring.service.web.desk_routes import DeskRoutes
from mooring.service.web.guard import Guard, Rules
from mooring.service.web.listening_place import ListeningPlace
from mooring.service.web.server import serve
from mooring.service.web.tls import TlsFiles


def serve_desk(
    file: Path,
    address: ListeningPlace,
    listening: Callable[[str, str], None],
    tls_files: TlsFiles | None = None,
) -> None:
    """Until a signal ends it; `listening` is called with the address and the token, new each time."""
    desk, token = PlanningDesk(file.stem, Problem.load(file)), secrets.token_urlsafe(32)
    if not desk.problem.streams:
        raise InputError("found no streams, expected at least one", file=file)
    serve(lambda rules: desk_app(desk, rules), address, token, lambda url: listening(url, token), tls_files)


def desk_app(desk: PlanningDesk, rules: Rules) -> Guard:
    return guarded_app(DeskRoutes(desk).routes(), rules, "desk")
