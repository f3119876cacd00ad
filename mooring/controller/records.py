"""Where a run is written down: the journal, which the next run goes by, and for people report and status.

What a full disk refuses the journal is owed, and written with a later turn. What report and status refuse is
lost: the next look shows how things are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Protocol

from mooring.contracts.clock import Clock
from mooring.contracts.engine import Engine
from mooring.controller.cycle import Book
from mooring.controller.events import (
    Event,
    FragmentsStarted,
    FragmentStarts,
    Incident,
    ListMeasured,
    MovesEnded,
    StartsTried,
)
from mooring.controller.journal import Journal
from mooring.controller.parts import Parts
from mooring.controller.run_state import MovesUnderWay, RunState
from mooring.errors import OvertakenError, described
from mooring.model.placement.placement import FragmentSites

STARTED_AGAIN = "started again after a fault"
MOST_RECENT = 50
"""Incidents that the status tells of; the report has more."""


class Records:
    """The journal: where what was started again is now, and what came of lists of moves."""

    def __init__(self, state: RunState, engine: Engine, journal: Journal) -> None:
        self._state, self._engine, self._journal = state, engine, journal
        self._owed: dict[str, str] = {}
        """Fragments that were started elsewhere, while the journal does not know."""
        self.restarts: dict[str, int] = {}
        """Per fragment, how often it was started again in this run, moves aside."""
        self._first_at: dict[str, str] = {}
        """Fragments that have not been started yet -> where the journal has them."""

    def begin(self, sites: FragmentSites, why: str, idle: Collection[str]) -> None:
        self._journal.note_placement(sites, why)
        self._first_at = {name: sites[name] for name in idle}

    def on(self, event: Event) -> None:
        match event:
            case FragmentsStarted(sites=sites):
                for name, at in sites.items():
                    first_at = self._first_at.pop(name, None)
                    self.restarts[name] = self.restarts.get(name, 0) + (first_at is None)
                    if first_at != at:
                        self._owed[name] = at
                self.write_owed()
            case ListMeasured(entry=entry):
                self._journal.append("ledger", **entry.as_json())

    def write_owed(self) -> None:
        """A full disk keeps the journal behind; it is written as soon as there is room."""
        if self._owed:
            placement = self._state.placement(self._engine.homes())
            self._journal.note_relocated(self._owed, placement, STARTED_AGAIN)
            self._owed = {}

    @property
    def are_behind(self) -> bool:
        return bool(self._owed)


class Report:
    """What happens, as it happens."""

    def __init__(self, book: Book, clock: Clock) -> None:
        self._book, self._clock = book, clock
        self.recent: deque[tuple[float, str]] = deque(maxlen=MOST_RECENT)
        """What happened last: seconds since 1970, and words."""
        self._made_s = clock.monotonic_s()  # what happens is dated from here on, as the engine's looks are
        self.untold = ""
        """Why the last thing that happened could not be reported."""

    def on(self, event: Event) -> None:
        match event:
            case Incident(what=what):
                self.note(what)
            case MovesEnded(order=order, ending="done", reports=reports):
                self._book.moved(self.at_s(), reports, order.asked_by)

    def note(self, what: str) -> None:
        """Dated now: the turn may have begun long ago, where a site did not answer."""
        self.recent.append((self._clock.now_s(), what))
        try:
            self._book.incident(self.at_s(), what)
        except OvertakenError:
            raise
        except Exception as failure:
            self.untold = described(failure)
        else:
            self.untold = ""

    def at_s(self) -> float:
        """Seconds of the run."""
        return self._clock.monotonic_s() - self._made_s


class Refusing(Protocol):
    def refusals(self) -> dict[str, str]: ...


class Status:
    """What runs where, what is wrong, and how far a list of moves is, between two looks."""

    def __init__(
        self, state: RunState, engine: Engine, book: Book, reviver: Refusing, parts: Parts, report: Report
    ) -> None:
        self._state, self._engine, self._book = state, engine, book
        self._reviver, self._parts, self._report = reviver, parts, report
        self._shown: MovesUnderWay | None = None

    def on(self, event: Event) -> None:
        match event:
            case FragmentStarts() | StartsTried():
                self.amend()
            case FragmentsStarted():
                self._book.placed(self._state.placement(self._engine.homes()))
            case MovesEnded(sites=sites):
                self._book.placed(sites)

    @property
    def is_behind(self) -> bool:
        """Whether the list under way has come further since it was shown."""
        return self._state.moves != self._shown

    def amend(self) -> None:
        self._shown = self._state.moves
        self._book.noticed(self._engine.homes(), {**self.troubles(), **self._state.stalls}, self.moves())

    def moves(self) -> dict[str, object] | None:
        """The list of moves that is being carried out."""
        return None if self._state.moves is None else self._state.moves.as_json()

    def troubles(self) -> dict[str, str]:
        """What is not as it should be, by the fragment, site, channel or part concerned."""
        state = self._state
        found = {f"site {name}": f"lost: {why}" for name, why in state.lost.items()}
        found |= {f"site {name}": f"lost: {said}" for name, said in self._reviver.refusals().items()}
        found |= {f"channel {name}": why for name, why in state.lost_channels.items()}
        found |= state.fragment_troubles()
        found |= self._parts.troubles()
        if self._report.untold:
            found["publishing: reporting what happens"] = self._report.untold
        return {what: why for what, why in found.items() if what not in state.resting}
