"""A query that was left at an endpoint which fell silent is remembered until it is known to have ended."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.doctor.examination import examine
from mooring.errors import EngineError
from mooring.spark.engine import lifecycle
from mooring.spark.engine.engine import EngineOptions
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs import left_sessions
from mooring.spark.runs.left_sessions import LeftSessions, read_entries
from mooring.spark.runs.project_run import prepared_on
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from mooring.spark.storage.owned_folder import newest_owned

if TYPE_CHECKING:
    from tests.spark.conftest import ProjectMaker

SETTINGS = """\
sites: {here: {capacity: 2}, far: {capacity: 2, connect: "FAR"}}
streams: {numbers: {site: here, rate: 100}}
tables: {numbers: {keep: all}}
trigger_s: 0.3
"""


class Line:
    """To a server, under an address of its own; it can be cut, and mended again, without a word to either."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target, self._open = target, threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.mend()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(self.target)
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def line(site: EmbeddedSite) -> Iterator[Line]:
    address = urlsplit(site.endpoint.url)
    made = Line((str(address.hostname), int(address.port or 0)))
    yield made
    made.close()


def test_a_query_left_at_a_silent_endpoint_keeps_a_fresh_start_waiting_until_it_was_ended(
    make_project: ProjectMaker, site: EmbeddedSite, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = site.endpoint.url.replace(f":{line.target[1]}", f":{line.port}")
    project = load_project(make_project(settings=SETTINGS.replace("FAR", url)))
    (project.folder / "input" / "1.json").write_text(json.dumps({"n": 1, "at": "2020-01-01T00:00:00Z"}))
    monkeypatch.setattr(lifecycle, "LAST_PATIENCE_S", 0.5)
    here, far = SiteHandle("here", 2.0, site.endpoint, site), SiteHandle("far", 2.0, Endpoint(url), None)
    with (
        prepared_on(project, SiteHandles([here, far])) as prepared,
        prepared.engine(EngineOptions(silence_s=1.0)) as engine,
    ):
        engine.start("numbers", "far")
        (session,) = noted(prepared.sessions)
        line.cut()
        engine.forget("numbers")  # as recovery does
        engine.start("numbers", "here")
        assert noted(prepared.sessions) == [session]
    owned = newest_owned(project.settings.storage)
    assert owned is not None
    assert noted(LeftSessions(owned.folder)) == [session], "after the run, too"
    where = f"far \\(sc://.*:{line.port}\\)"
    (told,) = [each for each in examine(project.folder).findings if each.part == "sessions"]
    assert "numbers may still run there" in told.what

    refusal = (
        f"may still write data that this command would delete: numbers \\(session {session}\\) at {where}"
    )
    another = SiteHandle("far", 2.0, site.endpoint, None)
    for sites in ([here], [here, another]):  # without the site, and with another endpoint under its name
        with (
            pytest.raises(EngineError, match=refusal),
            prepared_on(project, SiteHandles(sites), fresh=True),
        ):
            pass
    monkeypatch.setattr(left_sessions, "FIRST_PATIENCE_S", 0.5)
    with (
        pytest.raises(EngineError, match=refusal),
        prepared_on(project, SiteHandles([here, far]), fresh=True),
    ):
        pass
    line.mend()
    monkeypatch.undo()
    renamed = SiteHandle("back", 2.0, Endpoint(url), None)
    with prepared_on(project, SiteHandles([here, renamed]), fresh=True) as prepared:
        # What was asked while the line was cut may have arrived in the meantime, and ended it.
        assert prepared.ended_leftovers in ([], ["numbers"])
        assert noted(prepared.sessions) == []


def noted(sessions: LeftSessions) -> list[str]:
    return [entry["session"] for entry in read_entries(sessions.file.read_bytes())]


def test_entries_of_an_older_mooring_are_known_by_the_name_of_their_site(tmp_path: Path) -> None:
    """And stay for as long as there is none of that name."""
    entry = {"site": "gone", "fragment": "f", "session": str(uuid.uuid4())}
    left = LeftSessions(tmp_path)
    left.file.write_text(json.dumps([entry]))
    assert left.end_all({}) == []
    left.note([], {})
    assert left.left() == [f"f (session {entry['session']}) at gone"]
