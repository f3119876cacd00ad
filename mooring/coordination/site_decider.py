"""A decider for machines at the sites: they propose, and it relays their proposals and the answers.

It holds the mover of the contract in `coordination/move_messages.py`. At every look it sends the sites the
placement and the measurements, receives their proposals, and combines those that may be carried out together.
Guards judge these like the proposals of any decider. What they allow is `Accepted` before it is ordered, what
they refuse is `Refused` with their reason, and when the list has ended the proposers receive the outcome.
What was proposed at too few looks yet goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from mooring.arrays import Ints
from mooring.contracts.decider import Observation, Proposal, ProposedMove
from mooring.contracts.picture import Picture
from mooring.contracts.site_machine import Asked, Data, Event, Persist, Received, Send, Started
from mooring.coordination.briefing import Brief
from mooring.coordination.move_messages import NOWHERE, ProposalId, Proposed, StartedAt, Whereabouts
from mooring.coordination.mover import CarriedOut, MoverMachine, MoverMemory, Verdicts
from mooring.model.deployment.moves import Move
from mooring.model.problem.problem import Problem

NOTHING_PROPOSED = "no site proposes a move"
NOT_CHOSEN = "it conflicts with the moves being carried out"
TOO_MUCH = "the guards allow no more moves at once than those being carried out"


class Peers(Protocol):
    """The way to the machines of all sites. Messages may be lost, doubled and late."""

    def poll(self) -> Sequence[tuple[int, Data]]:
        """What has come since the last call, with the site it came from: messages, and what machines have put
        out for their user.
        """
        ...

    def send(self, site: int, message: Data) -> None:
        """As one machine to another."""
        ...

    def ask(self, site: int, request: Data) -> None:
        """As the site's own user: its measurements."""
        ...

    def out_of_reach(self) -> Sequence[int]:
        """Sites whose machines cannot be told anything now."""
        ...


class ProtocolDecider:
    def __init__(
        self,
        name: str,
        problem: Problem,
        peers: Peers,
        brief: Brief,
        keep: Callable[[MoverMemory], None] = lambda memory: None,
        kept: MoverMemory | None = None,
    ) -> None:
        """`brief`: what the machines are told. `keep` makes the mover's memory durable before anything is
        sent; `kept` is what an earlier run of the same project kept.
        """
        self.name = name
        self._problem, self._peers, self._keep = problem, peers, keep
        self._kept = kept
        """What is known to be durable of the mover's memory."""
        self._not_kept: str | None = None
        self._brief = brief
        self._briefing = brief(problem)
        self._rows = {fragment: f for f, fragment in enumerate(problem.fragment_names)}
        self.mover = MoverMachine(len(problem.sites), self._briefing.belonging)
        self._verdicts: dict[ProposalId, str | None] = {}
        """Per proposal that is judged now: why it is refused; None if it is not."""
        self._chosen: list[Proposed] = []
        """Those that the last proposal consists of."""
        self._seen: Observation | None = None
        """At the last look."""
        self._feed(Started(0, kept))

    # What Adaptation calls, besides `decide`.

    def observe(self, observation: Observation, *, busy: bool) -> None:
        """A look: what runs where, and what came from the sites. `busy`: a list is being carried out."""
        self._seen = observation
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
            answers = self._briefing.answers(sender, message)
            if answers is None:
                self._feed(Received(sender, message))
            for answer in answers or ():
                self._peers.send(sender, answer)

    def accepted(self, allowed: Proposal) -> Proposal | None:
        """The guards allow its first plans: these are accepted, and returned to be ordered; None if none of
        them holds any more.
        """
        count = len(allowed.plans)
        self._verdicts |= {proposed.id: None for proposed in self._chosen[:count]}
        self._verdicts |= {proposed.id: TOO_MUCH for proposed in self._chosen[count:]}
        self._answer(NOT_CHOSEN)
        moves = sum(len(proposed.plan.moves) for proposed in self.mover.memory.accepted)
        return allowed.first(moves) if moves else None

    def refused(self, why: str) -> None:
        self._verdicts |= {proposed.id: why for proposed in self._chosen}
        self._answer(why)

    def brief_anew(self, problem: Problem) -> None:
        """The same fragments and sites, but some are read by others than before."""
        self._problem = problem
        self._briefing = self._brief(problem)
        self.mover.belong(self._briefing.belonging)
        for site in range(len(problem.sites)):
            for message in self._briefing.basics(site):
                self._peers.send(site, message)

    def not_begun(self, why: str) -> None:
        """What was accepted could not be ordered after all."""
        self._feed(Asked(CarriedOut(why)))

    # Deciding.

    def decide(self, picture: Picture) -> Proposal:
        picture = replace(picture, trigger_s=self._briefing.trigger_s)
        if self._seen is not None:
            for site, request in self._briefing.requests(self._seen, picture, self.mover.where):
                self._peers.ask(site, request)
        self._chosen, self._verdicts = [], {}
        waiting = self.mover.by_promise()
        if not waiting:
            return Proposal(picture.predict(picture.sites), (), self._why_nothing())
        violation = waiting[0].violation
        if violation:  # it need not wait as long as others, and goes without them
            waiting = [proposed for proposed in waiting if proposed.violation]
        now = last = picture.predict(picture.sites, in_full=True)
        sites, moves = picture.sites.copy(), list[ProposedMove]()
        for proposed in waiting:
            if any(not picture.movable[move.fragment] for move in proposed.plan.moves):
                self._verdicts[proposed.id] = "the fragment is not to be moved now"
                continue
            if gone := [move.to_site for move in proposed.plan.moves if picture.lost[move.to_site]]:
                self._verdicts[proposed.id] = (
                    f"the site {self._problem.sites[gone[0]].name} is lost or kept empty"
                )
                continue
            if self.mover.meets(proposed, self._chosen) is not None:
                continue
            steps = self._steps(picture, sites, proposed)
            objection = self._briefing.objection(proposed, last, steps[-1].after)
            if objection is not None:
                self._verdicts[proposed.id] = objection
                continue
            for move in proposed.plan.moves:
                sites[move.fragment] = move.to_site
            moves, last = [*moves, *steps], steps[-1].after
            self._chosen.append(proposed)
        count = len(self._chosen)
        refusals = [why for why in self._verdicts.values() if why is not None]
        reason = f"{count} {'site proposes' if count == 1 else 'sites propose'} it"
        if not count:
            reason = refusals[0]
        plans = tuple(len(proposed.plan.moves) for proposed in self._chosen)
        drawn = self._briefing.draws
        return Proposal(now, tuple(moves), reason, plans=plans, violation=violation, drawn=drawn)

    def _why_nothing(self) -> str:
        silent = [self._problem.sites[site].name for site in self._peers.out_of_reach()]
        agents = f"{'the agent' if len(silent) == 1 else 'agents'} of {', '.join(silent)} cannot be reached"
        reasons = [NOTHING_PROPOSED, self._not_kept, self._briefing.remark(), agents if silent else None]
        return "; ".join(reason for reason in reasons if reason)

    def _steps(self, picture: Picture, sites: Ints, proposed: Proposed) -> list[ProposedMove]:
        names, at, steps = picture.problem.fragment_names, sites.copy(), []
        for move in proposed.plan.moves:
            at[move.fragment] = move.to_site
            ends = (self._problem.sites[site].name for site in (move.from_site, move.to_site))
            after = picture.predict(at, in_full=True)
            steps.append(ProposedMove(Move(names[move.fragment], *ends), after))
        return steps

    # The mover.

    def _answer(self, otherwise: str) -> None:
        """Judge all that wait; those that nothing was said of are refused for the given reason."""
        waiting = [proposed.id for proposed in self.mover.by_promise()]
        self._feed(Asked(Verdicts(tuple((id, self._verdicts.get(id, otherwise)) for id in waiting))))
        self._chosen, self._verdicts = [], {}

    def _feed(self, event: Event) -> None:
        """What cannot be kept was not answered: nothing of it is sent, and the mover begins anew from what is
        kept. Proposals and questions come again.
        """
        for effect in self.mover.handle(event, 0.0):
            match effect:
                case Persist(state=MoverMemory() as memory):
                    try:
                        self._keep(memory)
                    except OSError as error:
                        self._not_kept = f"answers to sites cannot be written: {error.strerror or error}"
                        self._begin_anew()
                        return
                    self._kept, self._not_kept = memory, None
                case Send(to=to, message=message):
                    self._peers.send(to, message)

    def _begin_anew(self) -> None:
        where = Whereabouts(tuple(self.mover.where.values()))
        self.mover = MoverMachine(len(self._problem.sites), self._briefing.belonging)
        self.mover.handle(Started(0, self._kept), 0.0)
        self.mover.handle(Asked(where), 0.0)
