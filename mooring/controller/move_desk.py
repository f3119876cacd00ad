"""The desk of a run: takes requests out of the mailbox, has lists of moves carried out, answers how far they
are.

A request names the placement its asker saw and the moves it wants. It is refused unless that is what runs
now, and unless every move is allowed by what the runner itself knows of the problem. One list at a time is
carried out, beside the run's turns; it can be aborted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from mooring.controller.apply import Ending, MoveListRun, inverse_of_last
from mooring.controller.carrying import AtOnce, Carrier
from mooring.controller.journal import Journal
from mooring.controller.run_state import MovesUnderWay, RunState
from mooring.deployment.engine import Engine, MoveReport
from mooring.deployment.moves import Move, check_moves
from mooring.deployment.parts import Parts
from mooring.deployment.requests import (
    AbortRequest,
    DismissRequest,
    LeaveRequest,
    Mailbox,
    MoveRequest,
    Request,
    ReturnRequest,
    SiteRequest,
    StopNotice,
    shown_asker,
)
from mooring.errors import MooringError, OvertakenError, described
from mooring.placement.placement import FragmentSites

_FROM_WITHIN = "from within"
"""The name of every request that the run makes of itself."""
_MOST_AT_ONCE = 100
"""Requests served in one turn; those that flood the box do not keep the run from its other work."""


@dataclass
class UnderWay:
    """A list that is being carried out, and who waits for it."""

    request: MoveRequest
    run: MoveListRun
    over: Future[None] | None = None
    ending: Ending = "failed"
    aborts: list[AbortRequest] = field(default_factory=list)
    ended: Callable[[Ending], None] | None = None
    """Called with how it ended, before those who wait are told."""


@dataclass
class MoveDesk:
    state: RunState
    engine: Engine
    journal: Journal
    mailbox: Mailbox
    carrier: Carrier = field(default_factory=AtOnce)
    now_s: Callable[[], float] = lambda: 0.0
    """Asked when a stage is reached, for the status."""
    moved: Callable[[FragmentSites], None] = field(default=lambda sites: None)
    """Called with where every fragment runs after each list, done or taken back."""
    done: Callable[[Sequence[MoveReport], str], None] = field(default=lambda reports, asked_by: None)
    """Called with the moves of each list that was carried out to its end, and who asked for it."""
    begun: Callable[[Sequence[Move], str], None] = field(default=lambda moves, asked_by: None)
    """Called with a list that somebody asked for as it begins, and who that was."""
    on_dismiss: Callable[[DismissRequest], None] = field(default=lambda request: None)
    """Called with requests not to be proposed some moves."""
    on_site: Callable[[SiteRequest], None] = field(default=lambda request: None)
    """Called with requests to empty a site, or to use one again."""
    parts: Parts = field(default_factory=Parts)
    """Of the run: where what goes wrong beside the moves themselves is reported."""
    stopped_by: str = ""
    """Who said that the run is about to be ended."""
    _ending: bool = False
    _under_way: UnderWay | None = None
    _unwritten: MoveListRun | None = None
    """A list that has ended, while the journal does not know."""

    def serve(self) -> bool:
        """Serve what is asked for; whether anything may have moved since the last call."""
        self._write_what_is_owed()
        moved, served = self._look_after_list(), False
        for _ in range(_MOST_AT_ONCE):
            if (request := self.mailbox.take()) is None:
                break
            served = True
            try:
                self._serve_one(request)
            except OvertakenError:
                raise
            except Exception as failure:  # it is taken out of the box, so nobody else answers it
                self._refuse(request.id, f"it cannot be carried out: {described(failure)}")
                self.parts.failed("data plane", "carrying out a request", failure)
            moved |= self._look_after_list()
        if served:
            self.parts.do("publishing", "removing old answers", self.mailbox.sweep)
        return moved

    def _serve_one(self, request: Request) -> None:
        match request:
            case MoveRequest():
                self._begin(request, self.engine.homes())
            case AbortRequest():
                self._abort(request)
            case LeaveRequest() | ReturnRequest():
                self.on_site(request)
            case DismissRequest():
                self.on_dismiss(request)
            case StopNotice():
                self.stopped_by = shown_asker(request.asked_by)

    @property
    def busy(self) -> bool:
        """Whether a list is being carried out."""
        return self._under_way is not None

    def reopen(self) -> None:
        """The run goes on after all: take lists again."""
        self._ending = False

    def halt(self) -> None:
        """The run ends: begin no other list, and no further move of the one under way."""
        self._ending = True
        if self._under_way is not None:
            self._under_way.run.halt()

    def abandon(self) -> None:
        """The run is over: nothing more is heard of the list under way, nor written by it."""
        if self._under_way is not None:
            self._under_way.run.abandon()

    def order(
        self,
        moves: Sequence[Move],
        asked_by: str,
        *,
        answer_to: str = _FROM_WITHIN,
        within_limits: bool = True,
        ended: Callable[[Ending], None] | None = None,
    ) -> str | None:
        """A list from within the run, from where everything is now; returns why it is refused, if it is.

        `answer_to` names the request that it answers, if one does; `within_limits=False`: even if a site has
        too little memory, or too few cores at rate zero, for what it gets.
        """
        steps = [(move.fragment, move.from_site, move.to_site) for move in moves]
        old = self.state.placement(self.engine.homes())
        request = MoveRequest(answer_to, self.now_s(), 0, dict(old), steps, asked_by)
        return self._begin(request, old, within_limits=within_limits, ended=ended)

    def answer(self, name: str, state: str, **fields: object) -> None:
        """Answer a request that needs no list."""
        self._reply(name, {"state": state, "placement": dict(self.engine.homes()), "steps": [], **fields})

    # A list

    def _begin(
        self,
        request: MoveRequest,
        running: FragmentSites,
        *,
        within_limits: bool = True,
        ended: Callable[[Ending], None] | None = None,
    ) -> str | None:
        """Have a list carried out; returns why it is refused, if it is."""
        moves = [Move(*step) for step in request.moves]
        refusal = self._refusal(request, moves, running, within_limits)
        if refusal is not None:
            return self._refuse(request.id, refusal)
        asked_by = shown_asker(request.asked_by)
        shown = MovesUnderWay(asked_by, len(moves), reached_at_s=self.now_s())
        try:
            old, progress = FragmentSites(request.old), self._progress(request)
            run = MoveListRun(self.engine, self.journal, old, moves, progress, asked_by)
        except MooringError as failure:  # the journal cannot be written: nothing has begun
            return self._refuse(request.id, str(failure))
        listed = UnderWay(request, run, ended=ended)

        def carry_out() -> None:
            listed.ending = run.carry_out()

        self._under_way, self.state.moves = listed, shown
        if request.id != _FROM_WITHIN:
            self.parts.do("advice", "keeping the ledger", lambda: self.begun(moves, asked_by))
        try:
            listed.over = self.carrier.begin(carry_out)
        except Exception as failure:  # no thread to be had, say
            listed.over = Future()
            listed.over.set_exception(failure)
        return None

    def _reply(self, name: str, answer: Mapping[str, Any]) -> None:
        """Nobody waits at the mailbox for what was asked from within. The last word on a request is the
        owner's: one that was overtaken does not know what has become of it.
        """
        if answer["state"] != "running":
            self.parts.refuse_overtaken()
        if name != _FROM_WITHIN:
            self.mailbox.reply(name, answer)

    def _progress(self, request: MoveRequest) -> Callable[[int, Move, str, MoveReport | None], None]:
        def progress(step: int, move: Move, reached: str, report: MoveReport | None) -> None:
            told = {"fragment": move.fragment, "from": move.from_site, "to": move.to_site}
            figures = {} if report is None else {"pause_s": report.pause_s, "state_bytes": report.state_bytes}
            shown = self.state.moves
            assert shown is not None
            before = shown.steps[step] if step < len(shown.steps) else {}
            now = {**before, **told, "reached": reached, **figures}
            steps = (*shown.steps[:step], now, *shown.steps[step + 1 :])
            self.state.moves = replace(shown, steps=steps, at=step, reached_at_s=self.now_s())
            with contextlib.suppress(OSError):  # a full disk is no reason to break off a move
                self._reply(request.id, {"state": "running", "steps": list(steps)})

        return progress

    def _look_after_list(self) -> bool:
        """Answer those who wait for a list that is over; whether one is."""
        listed = self._under_way
        if listed is None or listed.over is None or not listed.over.done():
            return False
        assert self.state.moves is not None
        shown, self._under_way, self.state.moves = self.state.moves, None, None
        self.parts.refuse_overtaken()  # how the list ends is then for somebody else to say
        run = listed.run
        why = "" if run.failure is None else str(run.failure)
        if (raised := listed.over.exception()) is not None:
            why = f"it broke off, and the next run decides by the journal: {described(raised)}"
            self.parts.failed("data plane", "carrying out a list of moves", raised)
        elif run.unshown:
            self.parts.failed("publishing", "answering how far a list is", run.unshown)
        self._unwritten = run if run.owed else None
        self.moved(self.engine.homes())
        if listed.ending == "done":
            self.done(run.reports, shown.asked_by)
        if (ended := listed.ended) is not None:
            self.parts.do("data plane", "ending a list of moves", lambda: ended(listed.ending))
        where = {"placement": dict(self.engine.homes()), "steps": list(shown.steps)}
        if listed.aborts and listed.ending == "aborted":
            why += f" (asked for by {shown_asker(listed.aborts[0].asked_by) or 'somebody'})"
        state = {"done": "done", "aborted": "aborted"}.get(listed.ending, "failed")
        answers = {listed.request.id: state, **dict.fromkeys((a.id for a in listed.aborts), state)}
        for name, said in answers.items():
            answer = {"state": said, **where, **({"why": why} if why else {})}
            with contextlib.suppress(OSError):
                self._reply(name, answer)
        return True

    def _write_what_is_owed(self) -> None:
        """That a list has ended, which the journal could not take then."""
        if (run := self._unwritten) is not None and run.owed:
            run.close(run.owed)
            self._unwritten = run if run.owed else None

    # Refusing and aborting

    def _abort(self, request: AbortRequest) -> None:
        listed = self._under_way
        if listed is None or self.state.moves is None:
            self._refuse(request.id, "no list of moves is being carried out")
        elif not listed.run.abort(shown_asker(request.asked_by)):
            self._refuse(request.id, "every move of the list is done; --rollback undoes it")
        else:
            listed.aborts.append(request)
            self.state.moves = replace(self.state.moves, aborting=True)
            self.mailbox.reply(request.id, {"state": "running", "steps": list(self.state.moves.steps)})

    def _refuse(self, name: str, why: str) -> str:
        answer = {"state": "refused", "why": why, "placement": dict(self.engine.homes()), "steps": []}
        self._reply(name, answer)
        return why

    def _refusal(
        self, request: MoveRequest, moves: list[Move], running: FragmentSites, within_limits: bool
    ) -> str | None:
        if not moves:
            return "there is nothing to move"
        if self._ending:
            return "the run is about to end"
        if (under_way := self.state.moves) is not None:
            by = f", asked for by {under_way.asked_by}" if under_way.asked_by else ""
            return f"a list of {under_way.count} moves is being carried out{by}"
        if self._unwritten is not None:
            return "the journal cannot be written, and does not know yet how the last list ended"
        if request.old != running:
            return "the placement has changed since the list was made"
        closed = self.state.closed
        for move in moves:
            if move.to_site in closed:
                return f"the site {move.to_site} cannot be used: {closed[move.to_site]}"
        try:
            back = moves == inverse_of_last(self.journal)
            check_moves(self.state.problem, running, moves, within_limits=within_limits and not back)
        except MooringError as failure:
            return str(failure)
        return None
