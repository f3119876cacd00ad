"""The desk of a run: takes requests out of the mailbox, has lists of moves carried out, answers how far they
are.

A request names the placement that its sender saw, and the moves. It is refused unless that is what runs now,
and unless every move is allowed by the runner's own problem. One list at a time is carried out, beside the
run's turns; it can be aborted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from mooring.contracts.engine import Engine, MoveReport
from mooring.contracts.mailbox import (
    AbortRequest,
    DismissRequest,
    Mailbox,
    MoveRequest,
    Request,
    StopNotice,
    shown_asker,
)
from mooring.controller.events import (
    Dismissed,
    Event,
    FragmentStarts,
    MovesBegun,
    MovesEnded,
    MovesRefused,
    Order,
    RequestAnswer,
    StartsTried,
)
from mooring.controller.journal import Journal
from mooring.controller.move_list import AtOnce, Carrier, Ending, MoveListRun, inverse_of_last
from mooring.controller.parts import Parts
from mooring.controller.run_state import MovesUnderWay, RunState
from mooring.errors import MooringError, described
from mooring.model.deployment.moves import Move, check_moves
from mooring.model.placement.placement import FragmentSites

_MOST_AT_ONCE = 100
"""Requests served in one turn; those that flood the box do not keep the run from its other work."""


@dataclass
class UnderWay:
    """A list that is being carried out, and who waits for it."""

    order: Order
    run: MoveListRun
    over: Future[None] | None = None
    ending: Ending = "failed"
    aborts: list[AbortRequest] = field(default_factory=list)


@dataclass
class MoveDesk:
    state: RunState
    engine: Engine
    journal: Journal
    mailbox: Mailbox
    carrier: Carrier = field(default_factory=AtOnce)
    now_s: Callable[[], float] = lambda: 0.0
    """Asked when a stage is reached, for the status."""
    parts: Parts = field(default_factory=Parts)
    """Of the run: where what goes wrong beside the moves themselves is reported."""
    stopped_by: str = ""
    """Who said that the run is about to be ended."""
    _ending: bool = False
    _reached: SimpleQueue[tuple[int, float, dict[str, Any]]] = field(default_factory=SimpleQueue)
    """How far the list under way has come since the last turn: step, when, and what to show of it."""
    _under_way: UnderWay | None = None
    _unwritten: MoveListRun | None = None
    """A list that has ended, while the journal does not know."""

    def requests(self) -> Iterator[Request]:
        """What is asked for, taken out of the box."""
        for _ in range(_MOST_AT_ONCE):
            if (request := self.mailbox.take()) is None:
                return
            yield request

    def serve(self, request: Request) -> Iterator[Event]:
        match request:
            case MoveRequest():
                moves, asked_by = tuple(Move(*step) for step in request.moves), shown_asker(request.asked_by)
                order = Order(moves, asked_by, request.id)
                yield from self._begin(order, FragmentSites(request.old), self.engine.homes())
            case AbortRequest():
                self._abort(request)
            case DismissRequest():
                yield from self._dismiss(request)
            case StopNotice():
                self.stopped_by = shown_asker(request.asked_by)

    def on(self, event: Event) -> Iterator[Event]:
        match event:
            case Order():
                old = self.state.placement(self.engine.homes())
                yield from self._begin(event, old, old)
            case RequestAnswer(request=name, state=state, why=why):
                self._answer(name, state, why)
            case FragmentStarts() | StartsTried():  # which take long: show how far the list came meanwhile
                self._show_progress()

    def poll(self) -> Iterator[Event]:
        """How far the list under way is by now, or how it ended."""
        if self._under_way is not None and self._under_way.over is not None and self._under_way.over.done():
            yield from self._end(self._under_way, self._under_way.over)
        else:
            self._show_progress()

    def refuse(self, name: str, why: str) -> None:
        self._answer(name, "refused", why)

    def _answer(self, name: str, state: str, why: str = "") -> None:
        """Answer a request that needs no list. What came before may have taken long, as stopping a fragment
        does.
        """
        self.parts.refuse_overtaken()
        said = {"why": why} if why else {}
        self._reply(name, {"state": state, **said, "placement": dict(self.engine.homes()), "steps": []})

    def _dismiss(self, request: DismissRequest) -> Iterator[Event]:
        asked_by = shown_asker(request.asked_by)
        self.journal.append("dismissed", moves=[list(move) for move in request.moves], asked_by=asked_by)
        yield Dismissed(tuple(Move(*move) for move in request.moves), asked_by)
        self._answer(request.id, "done")

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
        """The run is over: the list under way reports and writes nothing more."""
        if self._under_way is not None:
            self._under_way.run.abandon()

    # A list

    def _begin(self, order: Order, old: FragmentSites, running: FragmentSites) -> Iterator[Event]:
        """Have a list carried out. `old`: where everything was as the list was made."""
        refusal = self._refusal(order, old, running)
        if refusal is None:
            try:
                run = MoveListRun(self.engine, self.journal, old, order.moves, self._progress, order.asked_by)
            except MooringError as failure:  # the journal cannot be written: nothing has begun
                refusal = str(failure)
        if refusal is not None:
            self.refuse(order.answer_to, refusal)
            yield MovesRefused(order, refusal)
            return
        listed = UnderWay(order, run)

        def carry_out() -> None:
            listed.ending = run.carry_out()

        self._under_way = listed
        self.state.moves = MovesUnderWay(order.asked_by, len(order.moves), reached_at_s=self.now_s())
        self._show_list()
        yield MovesBegun(order)
        try:
            listed.over = self.carrier.begin(carry_out)
        except Exception as failure:  # no thread to be had, say
            listed.over = Future()
            listed.over.set_exception(failure)

    def _reply(self, name: str, answer: Mapping[str, Any]) -> None:
        """Nobody waits at the mailbox for what the run orders by itself. The last word on a request is the
        owner's: one that was overtaken does not know what has become of it.
        """
        if answer["state"] != "running":
            self.parts.refuse_overtaken()
        if name:
            self.mailbox.reply(name, answer)

    def _progress(self, step: int, move: Move, reached: str, report: MoveReport | None) -> None:
        """The thread that carries a list out changes nothing of the run but its journal: how far it is waits
        here for the run's own thread.
        """
        told = {"fragment": move.fragment, "from": move.from_site, "to": move.to_site}
        figures = {} if report is None else {"pause_s": report.pause_s, "state_bytes": report.state_bytes}
        self._reached.put((step, self.now_s(), {**told, "reached": reached, **figures}))

    def _take_in_progress(self) -> bool:
        """Whether the list has come further."""
        shown = self.state.moves
        while shown is not None and not self._reached.empty():
            step, at_s, now = self._reached.get()
            before = shown.steps[step] if step < len(shown.steps) else {}
            steps = (*shown.steps[:step], {**before, **now}, *shown.steps[step + 1 :])
            shown = replace(shown, steps=steps, at=step, reached_at_s=at_s)
        further = shown is not self.state.moves
        self.state.moves = shown
        return further

    def _show_progress(self) -> None:
        if self._take_in_progress():
            self._show_list()

    def _show_list(self) -> None:
        self.parts.do("publishing", "answering how far a list is", self._answer_running)

    def _answer_running(self) -> None:
        if self._under_way is not None and self.state.moves is not None:
            answer = {"state": "running", "steps": list(self.state.moves.steps)}
            with contextlib.suppress(OSError):  # a full disk is no reason to break off a move
                self._reply(self._under_way.order.answer_to, answer)

    def _end(self, listed: UnderWay, over: Future[None]) -> Iterator[Event]:
        """Say how a list ended, and answer those who wait for it."""
        self._take_in_progress()
        assert self.state.moves is not None
        shown, self._under_way, self.state.moves = self.state.moves, None, None
        self.parts.refuse_overtaken()  # how the list ends is then for somebody else to say
        run = listed.run
        why = "" if run.failure is None else str(run.failure)
        if (raised := over.exception()) is not None:
            why = (
                "the list broke off; the next run finishes it or takes it back by the journal: "
                f"{described(raised)}"
            )
            self.parts.failed("data plane", "carrying out a list of moves", raised)
        elif run.unshown:
            self.parts.failed("publishing", "answering how far a list is", run.unshown)
        self._unwritten = run if run.owed else None
        yield MovesEnded(listed.order, listed.ending, tuple(run.reports), self.engine.homes())
        self.parts.refuse_overtaken()  # what those who received it did may have taken long
        where = {"placement": dict(self.engine.homes()), "steps": list(shown.steps)}
        if listed.aborts and listed.ending == "aborted":
            why += f" (requested by {shown_asker(listed.aborts[0].asked_by) or 'an unknown user'})"
        state = {"done": "done", "aborted": "aborted"}.get(listed.ending, "failed")
        answers = {listed.order.answer_to: state, **dict.fromkeys((a.id for a in listed.aborts), state)}
        for name, said in answers.items():
            answer = {"state": said, **where, **({"why": why} if why else {})}
            with contextlib.suppress(OSError):
                self._reply(name, answer)

    @property
    def owes(self) -> bool:
        """Whether the journal does not know yet how the last list ended."""
        return self._unwritten is not None

    def write_owed(self) -> None:
        """That a list has ended, which the journal could not take then."""
        if (run := self._unwritten) is not None and run.owed:
            run.close(run.owed)
            self._unwritten = run if run.owed else None

    # Refusing and aborting

    def _abort(self, request: AbortRequest) -> None:
        listed = self._under_way
        if listed is None or self.state.moves is None:
            self.refuse(request.id, "no list of moves is being carried out")
        elif not listed.run.abort(shown_asker(request.asked_by)):
            self.refuse(request.id, "every move of the list is done; --rollback undoes it")
        else:
            listed.aborts.append(request)
            self.state.moves = replace(self.state.moves, aborting=True)
            self.mailbox.reply(request.id, {"state": "running", "steps": list(self.state.moves.steps)})

    def _refusal(self, order: Order, old: FragmentSites, running: FragmentSites) -> str | None:
        moves = list(order.moves)
        if not moves:
            return "there is nothing to move"
        if self._ending:
            return "the run is about to end"
        if (under_way := self.state.moves) is not None:
            by = f", requested by {under_way.asked_by}" if under_way.asked_by else ""
            return f"a list of {under_way.count} moves is being carried out{by}"
        if self._unwritten is not None:
            return "the journal cannot be written and lacks the end of the last list"
        if old != running:
            return "the placement has changed since the list was made; request a new list"
        closed = self.state.closed
        for move in moves:
            if move.to_site in closed:
                return f"the site {move.to_site} cannot be used: {closed[move.to_site]}"
        try:
            back = moves == inverse_of_last(self.journal)
            check_moves(self.state.problem, running, moves, within_limits=order.within_limits and not back)
        except MooringError as failure:
            return str(failure)
        return None
