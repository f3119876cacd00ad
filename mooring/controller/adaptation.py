"""Adapting: from what was seen to moves that are ordered, or to the reason why none are.

The surveyor says what is known, the decider what it would move, the guards whether that may be done. With
`act="propose"` it ends there; with `act="apply"` it orders them, and the move desk carries them out like any
other list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.arrays import Bools
from mooring.contracts.clock import Clock
from mooring.contracts.decider import AnsweringDecider, Decider, Observation, Proposal, Sends
from mooring.contracts.engine import FragmentReport, MoveReport
from mooring.contracts.picture import Picture
from mooring.controller.events import (
    Dismissed,
    Event,
    FragmentsStarted,
    Incident,
    ListMeasured,
    MovesBegun,
    MovesEnded,
    MovesRefused,
    Order,
    ProblemChanged,
)
from mooring.controller.guards import GuardOptions, Guards
from mooring.controller.journal import Journal
from mooring.controller.known_model import KnownModel, known_model
from mooring.controller.ledger import Ledger, LedgerEntry
from mooring.controller.parts import Parts
from mooring.controller.run_headroom import RunHeadroom, run_headroom
from mooring.controller.run_state import RunState
from mooring.controller.safety_net import NET, SafetyNet
from mooring.controller.state_estimator import SurveyOptions, Surveyor
from mooring.model.deployment.move_times import MoveTimes, Pause
from mooring.model.deployment.moves import Move
from mooring.model.problem.problem import Problem

Act = Literal["propose", "apply"]
DISMISSED_S = 3600.0
"""Seconds for which moves that somebody dismissed are not proposed again."""
_SHOWN = 10
"""Entries of the ledger in a status file."""
_REMEMBERED = 20
"""Proposals that somebody may still ask for."""


@dataclass(frozen=True)
class Considered:
    """What came of one look."""

    proposal: Proposal | None
    """None where too little is known to decide anything."""
    ordered: tuple[Move, ...]
    why: str
    """Why nothing was done, or why something was."""


@dataclass
class _Ordered:
    order: Order
    promise: Callable[[], None]
    """What is to be kept of it as it begins."""
    refusal: str | None = "it could not begin"
    """Until the desk says that it has begun, or why not."""


@dataclass
class Adaptation:
    state: RunState
    decider: Decider
    journal: Journal
    """Of moves made so far, to predict pauses from."""
    clock: Clock
    act: Act = "propose"
    options: GuardOptions = field(default_factory=GuardOptions)
    survey: SurveyOptions = field(default_factory=SurveyOptions)
    parts: Parts = field(default_factory=Parts)
    """Of the run: a ledger that fails keeps nobody from deciding."""

    def __post_init__(self) -> None:
        self.guards = Guards(self.options)
        self.net = SafetyNet(self.options.net_looks)
        self.surveyor = Surveyor(self.state.problem, self.survey)
        self.ledger = Ledger(self.state.problem)
        self._proposed: deque[tuple[Proposal, Picture]] = deque(maxlen=_REMEMBERED)
        """Since something was last moved, with what was known: who asks for a proposal may have seen it some
        looks ago."""
        self._dismissed: dict[tuple[Move, ...], tuple[float, str]] = {}
        """Moves that are not to be proposed -> until when, and who said so."""
        self._worse: LedgerEntry | None = None
        """A list that has to be undone as soon as nothing is in the way."""
        self._ordered: _Ordered | None = None
        """What the desk has not answered yet."""
        self._fragments: Mapping[str, FragmentReport] = {}
        """As last measured."""
        self.headroom = RunHeadroom()
        """As of the last look."""
        self.model: KnownModel | None = None
        """What it was worked out with."""

    def consider(self, observation: Observation) -> Generator[Event, None, Considered]:
        self._fragments = {**self._fragments, **observation.measured.fragments}
        measured = self.parts.do("advice", "keeping the ledger", lambda: self.ledger.take(observation))
        if measured is not None:
            yield from self._measured(measured)
        answering = self.decider if isinstance(self.decider, AnsweringDecider) else None
        if answering is not None:
            answering.observe(observation, busy=self.state.moves is not None)
        considered, waits = yield from self._considered(observation, self.state.busy, answering)
        if answering is not None and not considered.ordered and not waits:
            answering.refused(considered.why)
        return considered

    def _considered(
        self, observation: Observation, busy: str, answering: AnsweringDecider | None
    ) -> Generator[Event, None, tuple[Considered, bool]]:
        """What comes of a look, and whether those who proposed go on waiting for an answer."""
        self.headroom, self.model = RunHeadroom("the last look failed"), None
        picture = self.surveyor.survey(observation)
        if isinstance(picture, str):
            self.headroom = RunHeadroom(picture)
            return Considered(None, (), picture), True
        self.state.picture = picture
        self.headroom = self._headroom(picture, observation)
        self.model = known_model(picture, self.surveyor.calibration)
        if self._worse is not None and not busy:
            return (yield from self._undo(self._worse, picture)), True
        picture = replace(picture, held=self._held(picture, observation.at_s))
        proposal = replace(self.decider.decide(picture), statistics=picture.statistics)
        caught = self.parts.do("advice", "keeping the safety net", lambda: self._caught(proposal, picture))
        if by_net := caught is not None:
            proposal = replace(caught, statistics=picture.statistics)
        if (dismissed := self._dismissal(proposal, observation.at_s)) is not None:
            return Considered(replace(proposal, moves=()), (), dismissed), False
        if proposal.moves:
            self._proposed.append((proposal, picture))
        times = self._times() if proposal.moves else MoveTimes()
        verdict = self.guards.judge(proposal, picture, observation.at_s, times, busy)
        if verdict.accepted is None:
            return Considered(proposal, (), verdict.why), verdict.wait
        if self.act == "propose":
            why = "the run only proposes moves (--act propose)"
            return Considered(proposal, (), why), False
        allowed: Proposal | None = verdict.accepted
        if answering is not None and by_net:
            answering.refused("the safety net relieves a site that is too full")
        elif answering is not None:
            allowed = answering.accepted(verdict.accepted)
        if allowed is None:
            return Considered(proposal, (), "the sites' proposal is no longer valid"), False
        moves = tuple(each.move for each in allowed.moves)
        loads_at = partial(_loads_at, picture, moves)
        by = f"{NET} under {self.decider.name}" if by_net else self.decider.name
        promise = partial(self.ledger.promise, allowed, by, observation.at_s, loads_at)
        refusal = yield from self._order(Order(moves, f"adapting: {by}"), promise)
        if refusal is not None:
            if answering is not None and not by_net:
                answering.not_begun(refusal)
            return Considered(proposal, (), refusal), False
        return Considered(proposal, moves, verdict.why), False

    def _caught(self, proposal: Proposal, picture: Picture) -> Proposal | None:
        return None if isinstance(self.decider, NoneDecider) else self.net.catch(proposal, picture)

    def _headroom(self, picture: Picture, observation: Observation) -> RunHeadroom:
        if assumes := self.surveyor.assumes:
            return RunHeadroom(assumes)
        names = zip(picture.problem.fragment_names, picture.running, strict=True)
        if down := [name for name, runs in names if not runs and name not in observation.resting]:
            more = f" and {len(down) - 3} more" if len(down) > 3 else ""
            verb = "does" if len(down) == 1 else "do"
            return RunHeadroom(f"{', '.join(down[:3])}{more} {verb} not run")
        if self.surveyor.starting and not picture.rates.any():
            return RunHeadroom("no rows have come since the start")
        found = self.parts.do("advice", "working out the headroom", lambda: run_headroom(picture))
        return found or RunHeadroom("it could not be worked out")

    def _order(
        self, order: Order, promise: Callable[[], None] = lambda: None
    ) -> Generator[Event, None, str | None]:
        """Why it is refused, if it is; what it promised is kept as it begins."""
        self._ordered = ordered = _Ordered(order, promise)
        yield order
        self._ordered = None
        return ordered.refusal

    def _asked_for(self, moves: Sequence[Move], asked_by: str, at_s: float) -> None:
        """Somebody's list begins: where it is what was proposed, what that promised is held against what
        comes of it.
        """
        wanted = tuple(moves)
        for proposal, picture in reversed(self._proposed):
            if wanted and tuple(each.move for each in proposal.moves[: len(wanted)]) == wanted:
                promised, decider = proposal.first(len(wanted)), f"{self.decider.name}, {asked_by}"
                self.ledger.promise(promised, decider, at_s, partial(_loads_at, picture, wanted))
                return

    def _dismiss(self, moves: Sequence[Move], asked_by: str, at_s: float) -> None:
        """Do not propose exactly these moves for a while."""
        self._dismissed[tuple(moves)] = (at_s + DISMISSED_S, asked_by)

    def _dismissal(self, proposal: Proposal, at_s: float) -> str | None:
        """Why a proposal is not shown, if it was dismissed."""
        self._dismissed = {key: each for key, each in self._dismissed.items() if each[0] > at_s}
        found = self._dismissed.get(tuple(each.move for each in proposal.moves)) if proposal.moves else None
        if found is None:
            return None
        return f"the proposed moves are dismissed for {(found[0] - at_s) / 60:.0f} min more ({found[1]})"

    def _times(self) -> MoveTimes:
        """How long moves take, by the moves that were made and by the batches and state of now."""
        seen = self._fragments.items()
        batch_s = {name: each.batch_s for name, each in seen if each.batch_s is not None}
        state_bytes = {name: each.state_bytes for name, each in seen if each.state_bytes is not None}
        return MoveTimes(batch_s=batch_s, state_bytes=state_bytes).fitted(self.journal.past_moves())

    def _pauses(self, moves: Sequence[Move]) -> dict[str, Pause]:
        problem, times = self.state.problem, self._times()
        row = {name: f for f, name in enumerate(problem.fragment_names)}
        return {move.fragment: times.of_fragment(problem, row[move.fragment], move.to_site) for move in moves}

    def on(self, event: Event) -> Iterable[Event] | None:
        at_s = self.clock.now_s()
        match event:
            case MovesBegun(order=order):
                self._begun(order, at_s)
            case MovesRefused(order=order, why=why):
                if self._ordered is not None and order is self._ordered.order:
                    self._ordered.refusal = why
            case MovesEnded(ending="done", reports=reports):
                return self._moved(reports, at_s)
            case Dismissed(moves=moves, asked_by=asked_by):
                self._dismiss(moves, asked_by, at_s)
            case FragmentsStarted():
                self._recovered(at_s)
            case ProblemChanged():
                self._adopt(self.state.problem)
        return None

    def _adopt(self, problem: Problem) -> None:
        """Further sites, or another network; what was learnt of rates and costs stays."""
        self.state.picture = None
        self._proposed.clear()
        self.surveyor.adopt(problem)
        self.ledger.problem = problem

    def _begun(self, order: Order, at_s: float) -> None:
        if self._ordered is not None and order is self._ordered.order:
            self._ordered.refusal = None
            self._ordered.promise()
        elif order.answer_to:
            self._asked_for(order.moves, order.asked_by, at_s)
        predicted = self.parts.do("advice", "predicting pauses", lambda: self._pauses(order.moves))
        self.ledger.begins(predicted or {})

    def _moved(self, reports: Sequence[MoveReport], at_s: float) -> list[Event]:
        """A list of moves was carried out, whoever asked for it. A pause that was not predicted is said."""
        fragments = [report.fragment for report in reports]
        self._proposed.clear()
        self.guards.moved(fragments, at_s)
        self.net.moved()
        paused = self.ledger.paused(reports)
        self.ledger.done(fragments, at_s)
        return [Incident(each.words()) for each in paused if not each.held]

    def _recovered(self, at_s: float) -> None:
        """Recovery has started something somewhere."""
        self._proposed.clear()
        self.guards.recovered(at_s)
        self.ledger.disturbed("recovery started a fragment meanwhile")

    # What became of it

    def _measured(self, entry: LedgerEntry) -> Iterator[Event]:
        """A list was measured: one that made things worse is undone, once, and not tried again soon."""
        yield ListMeasured(entry)
        what = ", ".join(move.fragment for move in entry.moves)
        yield Incident(f"after moving {what}: {entry.verdict}")
        if entry.worse:
            for move in entry.moves:
                self.guards.bar(move.fragment, entry.at_s)
            if self.act == "apply":
                self._worse = entry

    def _undo(self, entry: LedgerEntry, picture: Picture) -> Generator[Event, None, Considered]:
        self._worse = None
        back = tuple(move.inverse() for move in reversed(entry.moves))
        if harm := self.guards.harm(back, picture):
            entry.verdict += f"; not undone: {harm}"
            return Considered(None, (), entry.verdict)
        refusal = yield from self._order(Order(back, "adapting: undone after a worse measurement"))
        if refusal is not None:
            return Considered(None, (), f"moves with a worse measurement cannot be undone: {refusal}")
        entry.verdict += "; undone"
        return Considered(None, back, entry.verdict)

    def as_json(self, considered: Considered) -> dict[str, object]:
        """For a status file."""
        return {
            "decider": self.decider.name,
            "act": self.act,
            "ordered": [move.fragment for move in considered.ordered],
            "why": considered.why,
            "statistics": self.surveyor.calibration.in_words(),
            "calibration": self.surveyor.calibration.as_json(),
            "estimated_capacity_cores": dict(self.surveyor.estimated),
            "control": self._control(),
            "ledger": [entry.as_json() for entry in list(self.ledger.entries)[-_SHOWN:]],
            "pauses": [each.as_json() for each in list(self.ledger.pauses)[-_SHOWN:]],
        }

    def _control(self) -> dict[str, object] | None:
        """What the parts at the sites that the decider stands in for would have sent one another."""
        if not isinstance(self.decider, Sends):
            return None
        return {"messages": dict(self.decider.sent_messages), "bytes": round(self.decider.sent_bytes)}

    def _held(self, picture: Picture, at_s: float) -> Bools:
        held = self.guards.held(at_s)
        return np.array([name in held for name in picture.problem.fragment_names])


def _loads_at(picture: Picture, moves: Sequence[Move], rates: Mapping[str, float]) -> dict[str, float]:
    """Of the sites once the moves are made, at rates that may not be the picture's."""
    problem, sites = picture.problem, picture.sites.copy()
    rows = {name: f for f, name in enumerate(problem.fragment_names)}
    for move in moves:
        sites[rows[move.fragment]] = problem.site_index[move.to_site]
    known = [
        rates.get(stream.name, rate) for stream, rate in zip(problem.streams, picture.rates, strict=True)
    ]
    loads = picture.model.site_loads(sites, np.array(known))
    return {site.name: float(load) for site, load in zip(problem.sites, loads, strict=True)}
