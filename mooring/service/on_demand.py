"""Which service is meant; what it needs is loaded when it is asked for: a planning desk needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

Listening = Callable[[str, str], None]
"""Called with the address and the token once connections are accepted."""


def serve_run(project: Path, at: str, listening: Listening, tls: Sequence[Path] | None = None) -> None:
    """The run of a project, until a signal ends it; `tls` are a certificate and its key."""
    from mooring.service.web import run_service
    from mooring.service.web.listening_place import ListeningPlace
    from mooring.service.web.tls import TlsFiles

    files = None if tls is None else TlsFiles(*tls)
    run_service.serve_run(project, ListeningPlace.parse(at), listening, files)


def serve_desk(file: Path, at: str, listening: Listening, tls: Sequence[Path] | None = None) -> None:
    """A problem file, until a signal ends it."""
    from mooring.service.web import desk_service
    from mooring.service.web.listening_place import ListeningPlace
    from mooring.service.web.tls import TlsFiles

    files = None if tls is None else TlsFiles(*tls)
    desk_service.serve_desk(file, ListeningPlace.parse(at), listening, files)


def check_page(at: str, tls: Sequence[Path] | None) -> None:
    """What is wrong with how a page is asked for, before anything is started that it is to show."""
    from mooring.service.web.listening_place import ListeningPlace
    from mooring.service.web.tls import TlsFiles, load_tls

    ListeningPlace.parse(at)
    if tls is not None:
        load_tls(TlsFiles(*tls))
