"""Leaving a site: everything there goes elsewhere, in good order, and the site is kept empty.

A site is left before its machine is taken down, say. From then on nothing is placed there: recovery,
deciders, moves by hand and new plans avoid it, also in later runs, until a user returns it. What may run
nowhere else is a reason not to leave; with force it is stopped and waits for its site. So is too little room
elsewhere at the rates that are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mooring.contracts.engine import Engine
from mooring.contracts.mailbox import LeaveRequest, ReturnRequest, SiteRequest, shown_asker
from mooring.contracts.picture import Picture, picture_of, without_fragments
from mooring.controller.events import (
    Event,
    Incident,
    MovesEnded,
    MovesRefused,
    Order,
    RequestAnswer,
    StandStill,
)
from mooring.controller.journal import Journal
from mooring.controller.move_list import Ending
from mooring.controller.run_state import RunState
from mooring.errors import EngineError, InfeasibleError, InputError, MooringError, OvertakenError
from mooring.model.deployment.moves import Move, ordered_moves
from mooring.model.placement.closed_sites import bound_fragments, replace_lost, shares_with
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem

Replan = Callable[[Problem], Placement]


@dataclass(frozen=True)
class Emptying:
    """What it takes to empty a site."""

    moves: tuple[Move, ...]
    staying: tuple[str, ...]
    """Fragments that may run nowhere else: they have to stand still."""
    headroom: float
    """At the measured rates, once it is done."""


def emptying(
    picture: Picture,
    where: FragmentSites,
    site: str,
    closed: Collection[str],
    replan: Replan,
    *,
    force: bool = False,
) -> Emptying:
    """How to empty a site; `InfeasibleError` with the reason if the other sites cannot hold what is there and
    it is not forced. `closed`: further sites that cannot take anything.
    """
    problem, shut = picture.problem, {site, *closed}
    if not set(problem.site_index) - shut:
        raise InfeasibleError(f"{site!r} is the only site in use, so no other can take its fragments")
    here = [name for name, at in where.items() if at == site]
    staying = tuple(name for name in here if name in bound_fragments(problem))
    if staying and not force:
        stay = "stays" if len(staying) == 1 else "stay"
        raise InfeasibleError(
            f"{', '.join(staying)} can run at {site!r} only",
            remedy=f"with --force it {stay} there, stopped, until the site is used again",
        )
    goal = _goal(problem, where, site, shut, staying, replan, force=force)
    model = without_fragments(
        picture.model, picture.running & ~np.isin(np.array(problem.fragment_names), staying)
    )
    after = replace(picture, model=model).predict(Placement.from_fragments(problem, goal).site_of_fragment)
    if after.headroom < 1.0 and not force:
        raise InfeasibleError(
            f"without {site!r} the other sites are overloaded at the measured rates: {after.bottleneck} "
            f"has headroom x {after.headroom:.2f}",
            remedy="wait for lower rates, add a site, or use --force",
        )
    return Emptying(_ordered(problem, where, goal, force=force), staying, after.headroom)


def _goal(
    problem: Problem,
    where: FragmentSites,
    site: str,
    shut: Collection[str],
    staying: Collection[str],
    replan: Replan,
    *,
    force: bool,
) -> FragmentSites:
    chosen, goal = replace_lost(problem, where, shut, replan), dict(where)
    for name, at in where.items():
        if at != site or name in staying:
            continue
        to = chosen[name]
        if to in shut:
            shares = shares_with(problem, goal, shut, name)
            if not force or not shares:
                raise InfeasibleError(f"without {site!r} no other site has room for {name!r}")
            to = min(shares, key=shares.__getitem__)
        goal[name] = to
    return FragmentSites(goal)


def _ordered(problem: Problem, where: FragmentSites, goal: FragmentSites, *, force: bool) -> tuple[Move, ...]:
    try:
        return ordered_moves(problem, where, goal).moves
    except InfeasibleError:
        if not force:
            raise
        return tuple(Move(name, at, goal[name]) for name, at in where.items() if goal[name] != at)


class DrainedSites:
    """The sites of a run that are kept empty, and requests to change that."""

    def __init__(self, state: RunState, engine: Engine, journal: Journal, replan: Replan) -> None:
        self.state, self._engine, self._journal, self._replan = state, engine, journal, replan
        state.drained = journal.left_sites()
        self._emptying: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Request whose moves were ordered -> the site, and what has to stand still there."""

    def serve(self, request: SiteRequest) -> Iterator[Event]:
        """Carry out what is asked, or answer why not."""
        try:
            if request.site not in self.state.problem.site_index:
                raise InputError(
                    f"there is no site {request.site!r}; there are {', '.join(self.state.problem.site_index)}"
                )
            match request:
                case LeaveRequest():
                    yield from self._leave(request)
                case ReturnRequest():
                    yield from self._return(request)
        except OvertakenError:
            raise
        except MooringError as refusal:
            yield RequestAnswer(request.id, "refused", str(refusal))

    def on(self, event: Event) -> Iterator[Event]:
        match event:
            case MovesRefused(order=order, why=why) if order.answer_to in self._emptying:
                site, _ = self._emptying.pop(order.answer_to)
                self._open(site, f"not emptied: {why}")
            case MovesEnded(order=order, ending=ending) if order.answer_to in self._emptying:
                site, staying = self._emptying.pop(order.answer_to)
                yield from self._emptied(site, staying, ending)

    def _leave(self, request: LeaveRequest) -> Iterator[Event]:
        site, asked_by = request.site, shown_asker(request.asked_by)
        if self.state.moves is not None:
            raise InfeasibleError(
                "a list of moves is being carried out", remedy="repeat the request when it is done"
            )
        where, problem = self.state.placement(self._engine.homes()), self.state.problem
        picture = self.state.picture or picture_of(problem, Placement.from_fragments(problem, where))
        closed = {*self.state.lost, *self.state.drained}
        needed = emptying(picture, where, site, closed - {site}, self._replan, force=request.force)
        self._close(site, asked_by)
        if not needed.moves:
            yield from self._emptied(site, needed.staying, "done")
            yield RequestAnswer(request.id, "done")
            return
        self._emptying[request.id] = site, needed.staying
        yield Order(needed.moves, asked_by, request.id, within_limits=not request.force)
        if request.id in self._emptying and self.state.moves is None:  # neither begun nor refused
            del self._emptying[request.id]
            self._open(site, "not emptied: its moves could not begin")
            raise EngineError("its moves could not begin", remedy="see the run's troubles")

    def _return(self, request: ReturnRequest) -> Iterator[Event]:
        if request.site not in self.state.drained:
            raise InputError(f"the site {request.site!r} is not kept empty")
        self._open(request.site, shown_asker(request.asked_by))
        yield Incident(f"the site {request.site} is used again")
        yield RequestAnswer(request.id, "done")

    def _emptied(self, site: str, staying: Collection[str], ending: Ending) -> Iterator[Event]:
        """The moves have ended. Where they were not made the site is not left either; those that the end of
        the run cuts short are made up for by the next one.
        """
        if ending == "done":
            yield StandStill(site, staying)
            if running := [name for name in staying if self.state.status[name].state == "running"]:
                raise EngineError(f"{', '.join(running)} could not be stopped at {site}")
            waits = f"; {', '.join(staying)} stay stopped until it is used again" if staying else ""
            yield Incident(f"the site {site} was emptied and is kept empty{waits}")
        elif ending != "left":
            self._open(site, "the moves were not made")
            yield Incident(f"the site {site} is not emptied: the moves were not made")

    def _close(self, site: str, asked_by: str) -> None:
        self._journal.note_left(site, asked_by)
        self.state.drained = {**self.state.drained, site: asked_by}

    def _open(self, site: str, why: str) -> None:
        self._journal.note_returned(site, why)
        self.state.drained = {name: by for name, by in self.state.drained.items() if name != site}
