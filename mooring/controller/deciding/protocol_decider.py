"""A decider that decides nothing itself: machines at the sites propose, and wait for answers.

It holds the mover of the contract in `protocols/moving.py`. At every look it tells the sites what runs where
and what flows, takes in what they propose, and puts together what may be done at once. Guards judge that as
they judge everybody's proposals; what they allow is `Accepted` before it is ordered, what they refuse is
`Refused` with their reason, and when the list has ended the proposers hear how. What was proposed at too few
looks yet goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from mooring.arrays import Ints
from mooring.controller.deciding.decider import Observation, Prediction, Proposal, ProposedMove
from mooring.controller.deciding.picture import Picture
from mooring.deployment.moves import Move
from mooring.problem.problem import Problem
from mooring.protocols.mover import CarriedOut, MoverMachine, MoverMemory
from mooring.protocols.moving import NOWHERE, Proposed, StartedAt, Whereabouts
from mooring.protocols.optimiser_messages import (
    AskFragments,
    KnownFragments,
    MeasuredCapacity,
    MeasuredFlows,
)
from mooring.protocols.optimiser_specs import fragment_specs
from mooring.protocols.protocol import Asked, Data, Event, Persist, Received, Send, Started, TimerDue

NOTHING_PROPOSED = "no site proposes a move"
NO_GAIN = "by what was measured it saves no tuples under way"
NOT_CHOSEN = "it does not go together with what is carried out"
CUT = "a plan is made as a whole, and the guards allow only part of it"
TOLD_AT_ONCE = 1000
"""Fragments in one message: agents refuse messages that are too large."""
SENT_AGAIN = 0.01
"""Share by which a flow has to differ from what a site was last told, to be told again."""


class Peers(Protocol):
    """The way to the machines of all sites. Messages may be lost, doubled and late."""

    def poll(self) -> Sequence[tuple[int, Data]]:
        """What has come since the last call, with the site it came from."""
        ...

    def send(self, site: int, message: Data) -> None: ...


class ProtocolDecider:
    def __init__(
        self,
        name: str,
        problem: Problem,
        peers: Peers,
        keep: Callable[[MoverMemory], None] = lambda memory: None,
        kept: MoverMemory | None = None,
    ) -> None:
        """`keep` makes the mover's memory durable before anything is sent; `kept` is what an earlier run of
        the same project kept.
        """
        self.name = name
        self._problem, self._peers, self._keep = problem, peers, keep
        self._rows = {fragment: f for f, fragment in enumerate(problem.fragment_names)}
        self.mover = MoverMachine(len(problem.sites), self._judge, judge_every_ms=0.0)
        self._verdicts: dict[object, str | None] = {}
        """Per proposal that is judged now: why it is refused; None if it is not."""
        self._chosen: list[Proposed] = []
        """Those that the last proposal consists of."""
        self._told: dict[int, tuple[StartedAt, tuple[float, ...]]] = {}
        """Per fragment: which of its starts was told of what flows."""
        self._capacity: dict[int, float] = {}
        self._feed(Started(0, kept))

    # What Adaptation calls, besides `decide`.

    def observe(self, observation: Observation, *, busy: bool) -> None:
        """A look: what runs where, and what came from the sites. `busy`: a list is being carried out."""
        places = []
        for name, report in observation.measured.fragments.items():
            if report.epoch is not None and name in self._rows:
                # A site that joined later has no machine, and nobody proposes to move from or to it.
                site = self._problem.site_index.get(observation.sites.get(name, ""), NOWHERE)
                places.append(StartedAt(self._rows[name], site, report.epoch))
        self._feed(Asked(Whereabouts(tuple(places), whole=True)))
        if self.mover.memory.accepted and not busy:
            self._feed(Asked(CarriedOut()))
        for sender, message in self._peers.poll():
            if isinstance(message, AskFragments):
                self._tell_fragments(sender)
            else:
                self._feed(Received(sender, message))

    def _tell_fragments(self, site: int) -> None:
        """To a machine that has just begun, and knows nothing of what was measured either."""
        specs = fragment_specs(self._problem)
        for first in range(0, len(specs), TOLD_AT_ONCE):
            self._peers.send(site, KnownFragments(tuple(specs[first : first + TOLD_AT_ONCE])))
        self._capacity.pop(site, None)
        self._told = {f: told for f, told in self._told.items() if told[0].site != site}

    def accepted(self, allowed: Proposal) -> Proposal | None:
        """The guards allow so many of its first moves: those plans that are whole are accepted, and returned
        to be ordered; None if there is none.
        """
        count, whole = len(allowed.moves), list[Proposed]()
        for proposed in self._chosen:
            if count < len(proposed.plan.moves):
                break
            count -= len(proposed.plan.moves)
            whole.append(proposed)
        self._verdicts |= {proposed.id: CUT for proposed in self._chosen}
        self._verdicts |= {proposed.id: None for proposed in whole}
        self._answer(NOT_CHOSEN)
        moves = sum(len(proposed.plan.moves) for proposed in self.mover.memory.accepted)
        return allowed.first(moves) if moves else None

    def refused(self, why: str) -> None:
        self._verdicts |= {proposed.id: why for proposed in self._chosen}
        self._answer(why)

    def not_begun(self, why: str) -> None:
        """What was accepted could not be ordered after all."""
        self._feed(Asked(CarriedOut(why)))

    # Deciding.

    def decide(self, picture: Picture) -> Proposal:
        self._tell_measured(picture)
        self._chosen, self._verdicts = [], {}
        waiting = self.mover.by_promise()
        if not waiting:
            return Proposal(picture.predict(picture.sites), (), NOTHING_PROPOSED)
        now = last = picture.predict(picture.sites, in_full=True)
        sites, moves = picture.sites.copy(), list[ProposedMove]()
        for proposed in waiting:
            if any(not picture.movable[move.fragment] for move in proposed.plan.moves):
                self._verdicts[proposed.id] = "it is not to be moved now"
                continue
            if self.mover.meets(proposed, self._chosen) is not None:
                continue
            steps = self._steps(picture, sites, proposed)
            if not _saves(last, steps[-1].after):
                self._verdicts[proposed.id] = NO_GAIN
                continue
            for move in proposed.plan.moves:
                sites[move.fragment] = move.to_site
            moves, last = [*moves, *steps], steps[-1].after
            self._chosen.append(proposed)
        count = len(self._chosen)
        reason = f"{count} {'site proposes' if count == 1 else 'sites propose'} it" if count else NO_GAIN
        return Proposal(now, tuple(moves), reason)

    def _steps(self, picture: Picture, sites: Ints, proposed: Proposed) -> list[ProposedMove]:
        names, at, steps = picture.problem.fragment_names, sites.copy(), []
        for move in proposed.plan.moves:
            at[move.fragment] = move.to_site
            ends = (self._problem.sites[site].name for site in (move.from_site, move.to_site))
            after = picture.predict(at, in_full=True)
            steps.append(ProposedMove(Move(names[move.fragment], *ends), after))
        return steps

    def _tell_measured(self, picture: Picture) -> None:
        """What flows and what is used, to the site where a fragment is; capacities, to each site."""
        capacity = picture.model.capacity_cores
        for site in np.flatnonzero(~picture.lost[: len(self._problem.sites)]).tolist():
            if self._capacity.get(site) != float(capacity[site]):
                self._capacity[site] = float(capacity[site])
                self._peers.send(site, MeasuredCapacity(float(capacity[site])))
        for spec in fragment_specs(picture.problem, picture.model):
            place = self.mover.where.get(spec.fragment)
            if place is None or place.site == NOWHERE or not spec.movable:
                continue
            rates = tuple(link.rate for link in spec.links)
            known, told = self._told.get(spec.fragment, (None, ()))
            if known != place or any(abs(a - b) > SENT_AGAIN * b for a, b in zip(told, rates, strict=True)):
                self._told[spec.fragment] = place, rates
                self._peers.send(place.site, MeasuredFlows(spec.fragment, rates, spec.cores))

    # The mover.

    def _judge(self, proposed: Proposed) -> str | None:
        return self._verdicts[proposed.id]

    def _answer(self, otherwise: str) -> None:
        """Judge all that wait; those that nothing was said of are refused for the given reason."""
        for proposed in self.mover.by_promise():
            self._verdicts.setdefault(proposed.id, otherwise)
        self._feed(TimerDue())
        self._chosen, self._verdicts = [], {}

    def _feed(self, event: Event) -> None:
        for effect in self.mover.handle(event, 0.0):
            match effect:
                case Persist(state=MoverMemory() as memory):
                    self._keep(memory)
                case Send(to=to, message=message):
                    self._peers.send(to, message)


def _saves(before: Prediction, after: Prediction) -> bool:
    known = before.tuples_under_way, after.tuples_under_way
    return known[0] is not None and known[1] is not None and known[1] < known[0]
