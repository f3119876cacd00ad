"""The machine of one site while queries run: ants walk as ever, and leaders propose what they find.

Nothing is placed here: what runs where is learnt from the mover, and enforcement ends in a proposal that it
answers (`coordination/move_messages.py`). What a site holds for one stays until that answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from mooring.algorithms.ants.machines.backoff import capacity_changed, is_stirred
from mooring.algorithms.ants.machines.colony_params import ENDLESS, ColonyParams, SiteFacts, UpdatingParams
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.messages import (
    Discouraging,
    RoutingAnt,
    RoutingReturn,
    ScoutAnt,
    ScoutReturn,
)
from mooring.algorithms.ants.machines.running_messages import (
    AllHeld,
    AntEnded,
    AskColony,
    ColonyMemory,
    DeployedAnt,
    HeldSegment,
    HoldingAnt,
    KnownColony,
    NotAllHeld,
    Stirred,
)
from mooring.algorithms.ants.machines.scout_encoding import ReturningScout, WalkingScout, light, whole
from mooring.algorithms.ants.machines.site_state import RunningHere
from mooring.algorithms.ants.machines.updating_leader import UpdatingLeader
from mooring.algorithms.ants.machines.walking_site import WalkingSite
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import (
    Answer,
    Done,
    Ending,
    Failed,
    Inquiry,
    Over,
    ProposalId,
    StartedAt,
    Whereabouts,
    mover_of,
)
from mooring.coordination.proposer import Proposer

MOST_HELD = 8
"""Proposals of one site that something is held for. A site has one open, and those before it end soon."""


class RunningSite(WalkingSite):
    leader: UpdatingLeader

    def __init__(
        self,
        site: int,
        sites: int,
        params: ColonyParams,
        updating: UpdatingParams,
        known: KnownColony | None = None,
    ) -> None:
        """known: of the problem; None: it is asked for."""
        facts = _alone(sites) if known is None else known.facts
        self.residence, self.proposer = RunningHere(site, facts), Proposer(site, sites)
        leader = UpdatingLeader(params, updating, self.residence, self.proposer)
        super().__init__(site, facts, params, leader, Deployed(site, facts))
        self._updating, self._mover = updating, mover_of(sites)
        self.memory = ColonyMemory()
        self._known = known
        """As it was when it was last stirred."""
        self._heard: dict[ProposalId, int] = {}
        """Round in which something was last heard of what is held."""
        self._round, self._next_round_ms = 0, math.inf
        if known is not None:
            self._take(known)

    def next_timer(self) -> float | None:
        queue = self._queue[0][0] if self._queue else math.inf
        leader = self.leader.next_timer()
        return min(queue, self._next_round_ms, math.inf if leader is None else leader)

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        effects = self._handle(event, now_ms)
        held = self.residence.held
        memory = ColonyMemory(tuple(held[id] for id in sorted(held)), self.proposer.open)
        if memory == self.memory:
            return effects
        # Durable before anybody hears of it.
        self.memory = memory
        return [Persist(memory), *effects]

    def _handle(self, event: Event, now_ms: float) -> list[Effect]:
        match event:
            case Started(incarnation=incarnation, durable=durable):
                return self._start(incarnation, durable, now_ms)
            case TimerDue():
                self.cell.forget(now_ms)
                effects = [*self._from_queue(now_ms), *self.leader.timer(now_ms)]
                return [*effects, *self._say_again(now_ms)] if now_ms >= self._next_round_ms else effects
            case Asked(request=request):
                return self._told(request)
            case Received(sender=sender, message=message):
                return self._received(sender, message, now_ms)

    def _start(self, incarnation: int, durable: Data, now_ms: float) -> list[Effect]:
        self.memory = durable if isinstance(durable, ColonyMemory) else ColonyMemory()
        for held in self.memory.held:
            self.residence.hold(held)
        self.proposer.start(incarnation, self.memory.open)
        self.leader.start(incarnation, now_ms)
        self._next_round_ms = now_ms + self._updating.round_ms
        return [*self._ask(), *self.proposer.repeat()]

    def _ask(self) -> list[Effect]:
        """What a machine that has just begun, or has heard nothing for a while, does not know."""
        unknown = [] if self.residence.chains else [Send(self._mover, AskColony())]
        return [*unknown, Send(self._mover, self.residence.look_up())]

    def _say_again(self, now_ms: float) -> list[Effect]:
        self._round += 1
        self._next_round_ms = now_ms + self._updating.round_ms
        effects = list(self.proposer.repeat())
        for id in self.residence.held:
            if self._round - self._heard.setdefault(id, self._round) >= self._updating.patience:
                effects.append(Send(self._mover, Inquiry(id)))
        if self._round % self._updating.patience == 0 or not self.residence.informed:
            effects += self._ask()  # what it was told may have been lost
        return effects

    def _received(self, sender: int, message: Data, now_ms: float) -> list[Effect]:
        match message:
            case ScoutAnt(chain=chain):  # of its own leader
                return self._walk(message, chain.number, now_ms)
            case WalkingScout() | ReturningScout():
                return self._arrived(message, now_ms)
            case RoutingAnt(chain=number):
                self.deployed = self.residence.without(number)
                return self._walked(message, now_ms)
            case RoutingReturn() | Discouraging():
                return self._walked(message, now_ms)
            case DeployedAnt():
                return self._deployed_ant(message, now_ms)
            case HoldingAnt():
                return self._holding_ant(message)
            case AntEnded():
                return self.leader.ant_ended(message, now_ms)
            case Stirred():
                self.leader.rests.stir()
            case AllHeld(id=id):
                return self.leader.held_at_all(id, sender)
            case NotAllHeld(id=id):
                self.leader.not_held(id, sender)
            case _ if sender != self._mover:
                return []
            case _ if isinstance(message, Answer):
                return self._answered(message)
            case _:
                return self._told(message)
        return []

    # From the mover and its host.

    def _told(self, message: Data) -> list[Effect]:
        match message:
            case KnownColony():
                self._take(message)
                return self._stirred_by(message)
            case Whereabouts():
                self.leader.moved(self.residence.heard(message))
        return []

    def _stirred_by(self, known: KnownColony) -> list[Effect]:
        """The leader scouts anew where what it knows has changed by much. Those elsewhere know nothing of
        this site's capacity, and are told."""
        before, share = self._known, self._updating.stirred
        if before is not None and not is_stirred(before, known, share):
            return []
        self._known = known
        self.leader.rests.stir()
        if before is None or not capacity_changed(before, known, share):
            return []
        specs = [self.residence.spec_of(number) for number in self.residence.chains]
        leaders = {spec.source for spec in specs if spec is not None} - {self.site}
        return [Send(leader, Stirred()) for leader in sorted(leaders)]

    def _take(self, known: KnownColony) -> None:
        facts = known.facts
        if {c.number: c.fragments for c in known.chains} != self._fragments_of_chains():
            self.leader.give_up()
        if facts.neighbours != self._facts.neighbours:
            self.cell.neighbours = facts.neighbours
            self.cell.trails.clear()
        self._facts = facts
        self.residence.take(known)

    def _learn(self, places: Sequence[StartedAt]) -> None:
        self.leader.moved(self.residence.learn(places))

    def _answered(self, answer: Answer) -> list[Effect]:
        self._heard[answer.id] = self._round
        self.proposer.answered(answer)
        if isinstance(answer, Done | Failed):
            self._learn(answer.places)
        if isinstance(answer, Ending):
            self.residence.let_go(answer.id)
            del self._heard[answer.id]
        if isinstance(answer, Over):  # whatever has come of it was told long ago, or not at all
            self.residence.informed = False
            return [Send(self._mover, self.residence.look_up())]
        return []

    def _fragments_of_chains(self) -> dict[int, tuple[int, ...]]:
        return {chain.number: chain.fragments for chain in self.residence.chains.values()}

    # Ants of what runs.

    def _arrived(self, ant: WalkingScout | ReturningScout, now_ms: float) -> list[Effect]:
        chain = ant.scout.chain
        known = self.residence.spec_of(chain) if chain in self.residence.chains else None
        scout = whole(ant, known)
        if scout is None:
            return self._ended(chain, ant.scout.source, ant.scout.number)
        return self._walk(scout, chain, now_ms)

    def _walk(self, ant: ScoutAnt | ScoutReturn, chain: int, now_ms: float) -> list[Effect]:
        self.deployed = self.residence.without(chain)
        return [
            Send(effect.to, light(effect.message))
            if isinstance(effect, Send) and isinstance(effect.message, ScoutAnt | ScoutReturn)
            else effect
            for effect in self._walked(ant, now_ms)
        ]

    def _ended(self, chain: int, leader: int, number: int) -> list[Effect]:
        return [Send(leader, AntEnded(chain, number))]

    def _deployed_ant(self, ant: DeployedAnt, now_ms: float) -> list[Effect]:
        chain, count = ant.chain, len(ant.segments)
        if ant.position > count:
            return self.leader.deployed_costs(ant, now_ms)
        here = self.residence.without(chain.number)
        if ant.position == count:
            cost, left = here.end_cost(chain, ant.segments[-1].site), ant.variability
        else:
            segment = ant.segments[ant.position]
            before = ant.segments[ant.position - 1].site if ant.position else chain.source
            waits = not (chain.from_fragment and ant.position == 0 and self.site == chain.source)
            cost, _, left = here.cost(
                chain, segment.first, segment.last, ant.variability, before, waits=waits, limit=math.inf
            )
        further = msgspec.structs.replace(
            ant, position=ant.position + 1, variability=left, cost=_no_less(ant.cost + cost)
        )
        stops = [*(segment.site for segment in ant.segments), chain.destination, chain.source]
        return [Send(stops[further.position], further)]

    def _holding_ant(self, ant: HoldingAnt) -> list[Effect]:
        chain, segment = ant.chain, ant.segments[ant.position]
        fragments = ant.fragments[segment.first : segment.last + 1]
        held = self.residence.held.get(ant.id)
        if held is None or (held.chain, held.fragments) != (chain.number, fragments):
            reason = self._why_not(ant) if held is None else "another reservation has its id"
            if reason is not None:
                return [Send(chain.source, NotAllHeld(ant.id, reason))]
            flow = self.residence.flow_of(
                chain.tasks, chain.sides, segment.first, segment.last, segment.variability
            )
            self.residence.hold(HeldSegment(ant.id, chain.number, fragments, flow))
        if ant.position + 1 == len(ant.segments):
            return [Send(chain.source, AllHeld(ant.id))]
        further = msgspec.structs.replace(ant, position=ant.position + 1)
        return [Send(ant.segments[further.position].site, further)]

    def _why_not(self, ant: HoldingAnt) -> str | None:
        """Why this site does not hold what a report wants of it; None if it does."""
        if not self.residence.informed:
            return f"site {self.site} has not received its placement yet"
        if sum(held[0] == ant.id[0] for held in self.residence.held) >= MOST_HELD:
            return f"site {self.site} holds as many reservations for site {ant.id[0]} as it may"
        chain, segment = ant.chain, ant.segments[ant.position]
        before = ant.segments[ant.position - 1].site if ant.position else chain.source
        waits = not (chain.from_fragment and ant.position == 0 and self.site == chain.source)
        cost, _, _ = self.residence.without(chain.number).cost(
            chain, segment.first, segment.last, segment.variability, before, waits=waits, limit=ant.limit
        )
        if cost <= segment.cost * (1.0 + self._params.ants.tolerance) + 1e-12:
            return None
        return f"the cost at site {self.site} has grown too much since the scout passed"


def _no_less(cost: float) -> float:
    """Others that are full make a cost no number."""
    return cost if cost < ENDLESS else ENDLESS


def _alone(sites: int) -> SiteFacts:
    """A site that nobody has told anything."""
    nothing = (0.0,) * sites
    return SiteFacts((), nothing, nothing, 1.0, 0.0)


def running_machines(
    known: Callable[[int], Sequence[KnownColony]] | None, params: ColonyParams, updating: UpdatingParams
) -> MakeMachine:
    """`known`: what every site knows from the beginning, from how many there are; None: they ask for it. The
    mover is for their host to add."""

    def make(site: int, sites: int, _generator: np.random.Generator) -> RunningSite:
        return RunningSite(site, sites, params, updating, None if known is None else known(sites)[site])

    return make
