"""The state of a site: reported placements, reservations, and the cost of further tasks.

    segment    event                 becomes
    FREE       HoldingAnt            HELD, if it costs no more than was scouted; FREE, if not
    HELD       HoldingAnt            HELD      a duplicate
    HELD       Refused, Done, ...    FREE      the mover's word, and nothing else

Whereabouts are learnt and never made here. What is held is durable; whereabouts are asked for after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.messages import ChainSpec, Segment
from mooring.algorithms.ants.machines.running_messages import (
    HeldSegment,
    KnownColony,
    OtherFragment,
    RunningChain,
)
from mooring.coordination.move_messages import (
    NO_STATE,
    NOWHERE,
    LookUp,
    ProposalId,
    StartedAt,
    Whereabouts,
)


class RunningHere:
    def __init__(self, site: int, facts: SiteFacts) -> None:
        self.site, self.facts = site, facts
        self.chains: dict[int, RunningChain] = {}
        self._others: tuple[OtherFragment, ...] = ()
        self.beta = 1.0
        self.where: dict[int, StartedAt] = {}
        self.held: dict[ProposalId, HeldSegment] = {}
        self.informed = False
        """Whether it has been told of everything that runs. Nothing is held before."""
        self.state = 0
        """Of the mover, that it was told everything of."""
        self._seen: dict[int, Deployed] = {}
        """Per chain that is left out, until something changes."""

    def take(self, known: KnownColony) -> None:
        """The problem as it is now."""
        self.facts, self._others, self.beta = known.facts, known.others, known.beta
        self.chains = {chain.number: chain for chain in known.chains}
        self._seen.clear()

    def learn(self, places: Iterable[StartedAt]) -> set[int]:
        """Returns the fragments of which something new was learnt."""
        changed = set()
        for place in places:
            if place.newer_than(self.where.get(place.fragment)):
                self.where[place.fragment] = place
                changed.add(place.fragment)
        self._seen.clear()
        return changed

    def heard(self, told: Whereabouts) -> set[int]:
        self.informed |= told.tells_all(self.state)
        self.state = told.brings_to(self.state)
        return self.learn(told.places)

    def look_up(self) -> LookUp:
        return LookUp(self.state or (NO_STATE if self.where else 0))

    def hold(self, segment: HeldSegment) -> None:
        self.held[segment.id] = segment
        self._seen.clear()

    def let_go(self, id: ProposalId) -> None:
        """The proposal has ended."""
        self.held.pop(id, None)
        self._seen.clear()

    def site_of(self, fragment: int) -> int:
        place = self.where.get(fragment)
        return NOWHERE if place is None else place.site

    def spec_of(self, number: int) -> ChainSpec | None:
        """As ants carry it, between the sites where its ends are now; None while one of them is nowhere."""
        chain = self.chains[number]
        source = chain.start_site if chain.start_fragment < 0 else self.site_of(chain.start_fragment)
        destination = chain.end_site if chain.end_fragment < 0 else self.site_of(chain.end_fragment)
        for end, fragment in ((source, chain.start_fragment), (destination, chain.end_fragment)):
            if end == NOWHERE and fragment >= 0:
                return None
        either = max(source, destination, 0)
        return ChainSpec(
            number,
            chain.tasks,
            chain.sides,
            either if source == NOWHERE else source,
            chain.start_fragment >= 0,
            chain.variability,
            either if destination == NOWHERE else destination,
            chain.end_fragment >= 0,
            chain.end_weight if destination != NOWHERE else 0.0,
        )

    def segments_of(self, number: int) -> tuple[Segment, ...] | None:
        """Where it is now; None while a fragment of it is nowhere."""
        at = [self.site_of(fragment) for fragment in self.chains[number].fragments]
        if NOWHERE in at:
            return None
        found, first = list[Segment](), 0
        for last, site in enumerate(at):
            if last + 1 == len(at) or at[last + 1] != site:
                found.append(Segment(site, first, last, 1.0, 0.0, 0.0))
                first = last + 1
        return tuple(found)

    def without(self, number: int) -> Deployed:
        """The site as it would be without a chain: neither what runs of it nor what is held for it counts."""
        if number not in self._seen:
            deployed = Deployed(self.site, self.facts)
            for flow in self._flows(number):
                for n, value in enumerate(flow):
                    deployed.totals[n] += value
            self._seen[number] = deployed
        return self._seen[number]

    def _flows(self, without: int) -> Iterable[Sequence[float]]:
        for other in self._others:
            if self.site_of(other.fragment) == self.site:
                yield other.flow
        for chain in self.chains.values():
            if chain.number != without:
                yield from self._flows_of(chain)
        for held in self.held.values():
            # What has arrived is not counted twice.
            if held.chain != without and any(self.site_of(f) != self.site for f in held.fragments):
                yield held.flow

    def _flows_of(self, chain: RunningChain) -> Iterable[Sequence[float]]:
        here = [self.site_of(fragment) == self.site for fragment in chain.fragments]
        first = 0
        for last, runs in enumerate(here):
            if not runs:
                first = last + 1
            elif last + 1 == len(here) or not here[last + 1]:
                yield self.flow_of(chain.tasks, chain.sides, first, last, 1.0)

    def flow_of(
        self,
        tasks: Sequence[Sequence[float]],
        sides: Sequence[Sequence[float]],
        first: int,
        last: int,
        variability: float,
    ) -> tuple[float, ...]:
        """What tasks first to last add to the totals here."""
        flow = rules.segment_flow(tasks, sides, first, last, 0, variability, self.facts.trigger_s)
        return tuple(flow[: rules.TOTALS])
