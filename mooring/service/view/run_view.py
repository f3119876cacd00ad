"""A run as it is shown now: the newest picture, its history, and the proposal that can be applied."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from mooring.errors import InputError, MooringError
from mooring.model.deployment.moves import MoveList
from mooring.model.problem.problem import Problem
from mooring.service.view.errors import NotYetError
from mooring.service.view.history import History
from mooring.service.view.run_document import Document, RunPicture, sites_of
from mooring.service.view.run_source import RunSource


class RunView:
    """`look` brings it up to date; the rest may be asked from any thread."""

    def __init__(self, source: RunSource, history: History) -> None:
        self.source, self.history = source, history
        self.document: Document = {"version": 1, "runs": False, "waiting": "the project has not run yet"}
        self.changes = 0
        """How often the document has changed: its version for those who follow it."""
        self._picture: RunPicture | None = None
        self._proposed: tuple[object, MoveList | None] = (None, None)
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Whether there is something new."""
        with self._lock:
            if not self.source.look():
                return False
            if (made := self._made()) is not None:
                self.document = made
                self.history.add(made)
            elif self.source.runs:
                self.document = {"version": 1, "runs": True, "waiting": "the run is starting"}
            self.changes += 1
            return True

    @property
    def status(self) -> Mapping[str, Any]:
        if self.source.status is None:
            raise NotYetError("the run has no measurement yet", remedy="repeat the request in some seconds")
        return self.source.status

    @property
    def problem(self) -> Problem:
        if self.source.problem is None:
            raise NotYetError("the project has not run yet", remedy="start it with `mooring run`")
        return self.source.problem

    @property
    def picture(self) -> RunPicture:
        if self._picture is None or self._picture.problem is not self.problem:
            self._picture = RunPicture(self.problem)
        return self._picture

    def proposal(self) -> MoveList | None:
        """What the run proposes, with what it does; None if nothing."""
        return self._proposed[1]

    def slice(self, first: str | None, second: str | None) -> Document:
        """Through two streams; the two nearest to the edge where none are given."""
        status, picture = self.status, self.picture
        if first is None or second is None:
            chosen = picture.first_slice(status)
            if chosen is None:
                raise InputError(
                    "found fewer than two streams, expected two",
                    remedy="a slice of the feasible set needs two streams",
                )
            first, second = chosen
        for field, name in (("first", first), ("second", second)):
            if name not in self.problem.stream_index:
                raise InputError(
                    f"found no stream {name!r}, expected one of {', '.join(self.problem.stream_index)}",
                    field=field,
                )
        if first == second:
            raise InputError(f"found {first!r} twice, expected two streams", field="second")
        return picture.slice(status, first, second)

    def _made(self) -> Document | None:
        status = self.source.status
        if status is None or self.source.problem is None:
            return None
        proposal = self._described(status)
        return self.picture.document(status, self.source.records, proposal, runs=self.source.runs)

    def _described(self, status: Mapping[str, Any]) -> Document | None:
        """The proposal with its fingerprint and effect, worked out once per look."""
        proposed = status.get("proposal")
        if not proposed or not proposed["moves"] or not self.source.runs:
            self._proposed = (None, None)
            return None
        key = json.dumps([proposed["moves"], sorted(sites_of(status).items()), status["at_s"]])
        if self._proposed[0] != key:
            try:
                asker = self.source.asker("")
                self._proposed = (key, asker.proposed(sites_of(status)))
            except MooringError:  # things have moved on: the next look proposes anew
                self._proposed = (key, None)
        described = self._proposed[1]
        if described is None:
            return None
        keys = ("reason", "statistics", "headroom", "bottleneck", "site_loads_cores", "predicted")
        return {**described.as_json(), **{key: proposed.get(key) for key in keys}}
