"""Leaders while queries run (section 3.9): again and again they have their chains scouted for, compare what
is deployed with the best report, have it rechecked and held, and propose.

| stage     | what happened                                    | becomes                                   |
| --------- | ------------------------------------------------ | ----------------------------------------- |
| (none)    | it is time for a chain, and no proposal is open  | searching: routing ants, then scouts      |
| searching | scouts in a row found nothing better             | comparing: no more are sent               |
| searching | scouts are back or lost, one found another way   | comparing: an ant fetches the cost of now |
| comparing | that is beta times the report's cost             | holding: sites check again and hold it    |
| holding   | all of them do                                   | (none): it is proposed, under the held id |
| any       | no report, no gain, no room, an ant is lost      | (none)                                    |
| any       | a fragment of the chain was started again        | (none)                                    |

A chain that scouts found nothing better for rests, longer each time, until something is stirred
(`backoff.py`). What is held for a proposal that is never made ends when its holders send an inquiry to the
mover, which has no such proposal.
"""

from __future__ import annotations

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.backoff import Rests
from mooring.algorithms.ants.machines.chain_search import Hunt
from mooring.algorithms.ants.machines.colony_params import ENDLESS, ColonyParams, UpdatingParams
from mooring.algorithms.ants.machines.leader import Leader
from mooring.algorithms.ants.machines.messages import Segment
from mooring.algorithms.ants.machines.running_messages import AntEnded, DeployedAnt, HoldingAnt, RunningChain
from mooring.algorithms.ants.machines.site_state import RunningHere
from mooring.contracts.site_machine import Effect, Send
from mooring.coordination.move_messages import FragmentMove, Lease, MovePlan, Promise, ProposalId
from mooring.coordination.proposer import Proposer

LOOKS_PER_LIFE = 1_000_000
"""So that the ants of a new incarnation have other numbers than those of the last."""
SCOUTS_PER_WAY = 1
"""Scouts in a row that may find nothing better, per site and fragment that could go there."""


class UpdatingLeader(Leader):
    """Of all chains that begin at one site, one at a time. All of it is lost in a crash, and begun anew."""

    def __init__(
        self, params: ColonyParams, updating: UpdatingParams, here: RunningHere, proposer: Proposer
    ) -> None:
        super().__init__(params)
        self._updating, self._here, self._proposer = updating, here, proposer
        self.rests = Rests(updating)
        self._attempt = self._turn = 0
        self._next_look_ms: float | None = None
        self._id: ProposalId | None = None
        """Under which the best report of the chain in hand is being held."""
        self._saved = 0.0

    def start(self, incarnation: int, now_ms: float) -> None:
        self._attempt = incarnation * LOOKS_PER_LIFE
        self.rests.stir()
        self._next_look_ms = now_ms + self._updating.look_ms

    def next_timer(self) -> float | None:
        times = [hunt.next_timer() for hunt in self._hunts.values()]
        return min((at for at in (*times, self._next_look_ms) if at is not None), default=None)

    def timer(self, now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        for hunt in list(self._hunts.values()):
            if hunt.phase != "enforcing":
                hunt.give_up_lost(now_ms)
                effects += self._go_on(hunt, now_ms)
            elif hunt.enforced_by_ms is not None and hunt.enforced_by_ms <= now_ms:
                self.give_up()
        if self._next_look_ms is not None and self._next_look_ms <= now_ms:
            self._next_look_ms = now_ms + self._updating.look_ms
            effects += self._look(now_ms)
        return effects

    def give_up(self) -> None:
        """What is in hand, if anything."""
        self._hunts.clear()
        self._id = None

    def ant_ended(self, ant: AntEnded, now_ms: float) -> list[Effect]:
        """It goes no further: nobody waits for it any more."""
        hunt = self._hunts.get(ant.chain)
        if hunt is None or hunt.phase == "enforcing" or not hunt.ended(ant.number):
            return []
        return self._go_on(hunt, now_ms)

    def moved(self, fragments: set[int]) -> None:
        """What was found out of a chain does not count any more if one of its fragments was started anew."""
        if fragments:
            self.rests.stir()
        for number in list(self._hunts):
            chain = self._here.chains.get(number)
            if chain is None or fragments & {*chain.fragments, chain.start_fragment, chain.end_fragment}:
                self.give_up()

    # One chain after the other.

    def _look(self, now_ms: float) -> list[Effect]:
        if self._hunts or self._proposer.open is not None or not self._here.informed:
            return []
        specs = [self._here.spec_of(number) for number in sorted(self._here.chains)]
        led = [spec for spec in specs if spec is not None and spec.source == self._here.site]
        due = [spec for spec in led if self.rests.is_due(spec.number, now_ms)]
        if not due:
            return []
        spec = due[self._turn % len(due)]
        self._turn, self._attempt = self._turn + 1, self._attempt + 1
        most_in_vain = SCOUTS_PER_WAY * len(self._here.facts.to_s) * len(spec.tasks)
        hunt = self._hunts[spec.number] = Hunt(spec, self._attempt, most_in_vain=most_in_vain)
        hunt.begin(self._params)
        self.rests.begin(spec.number)
        return self._go_on(hunt, now_ms)

    def _go_on(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        effects, over = hunt.go_on(self._params, now_ms)
        if not over:
            return effects
        present = self._here.segments_of(hunt.chain.number)
        if hunt.best is None or present is None or _sites(present) == _sites(hunt.segments):
            self.give_up()
            self.rests.found_nothing(hunt.chain.number, now_ms)
            return effects
        hunt.phase, hunt.enforced_by_ms = "enforcing", now_ms + self._params.ant_ms
        ant = DeployedAnt(hunt.chain, hunt.attempt, present, 0, hunt.chain.variability)
        return [*effects, Send(present[0].site, ant)]

    def deployed_costs(self, ant: DeployedAnt, now_ms: float) -> list[Effect]:
        """What it costs where it is has been fetched: is the best report worth it?"""
        hunt = self._hunts.get(ant.chain.number)
        if hunt is None or hunt.phase != "enforcing" or hunt.attempt != ant.attempt or self._id is not None:
            return []
        assert hunt.best is not None
        chain = self._here.chains[ant.chain.number]
        then_s = (hunt.best + chain.sure_s) * self._here.beta
        if not ant.cost + chain.sure_s > then_s * (1.0 + 1e-9):
            self.give_up()
            self.rests.found_nothing(chain.number, now_ms)
            return []
        self._id, hunt.enforced_by_ms = self._proposer.next_id(), now_ms + self._params.ant_ms
        self._saved = _tuples_saved(chain, ant.cost, hunt.best, self._updating.horizon_s)
        limit = self._params.ants.most_limit
        holding = HoldingAnt(self._id, hunt.chain, chain.fragments, limit, hunt.segments, 0)
        return [Send(hunt.segments[0].site, holding)]

    def not_held(self, id: ProposalId, site: int) -> None:
        if id == self._id and site in self._holders():
            self.give_up()

    def held_at_all(self, id: ProposalId, site: int) -> list[Effect]:
        """Every site of the report holds its segment, the last one says: what is proposed now stands until it
        is answered."""
        if id != self._id or self._proposer.open is not None or site != self._holders()[-1]:
            return []
        (hunt,) = self._hunts.values()
        chain, where = self._here.chains[hunt.chain.number], self._here.where
        moves = tuple(
            FragmentMove(fragment, where[fragment].site, to, where[fragment].epoch)
            for fragment, to in zip(chain.fragments, _sites(hunt.segments), strict=True)
            if where[fragment].site != to
        )
        moved = {move.fragment for move in moves}
        ends = {fragment for fragment in (chain.start_fragment, chain.end_fragment) if fragment >= 0}
        made_from = tuple(where[fragment] for fragment in sorted({*chain.fragments, *ends} - moved))
        lease = Lease(tuple(sorted({segment.site for segment in hunt.segments})))
        self.give_up()
        return list(self._proposer.propose(id, MovePlan(moves, made_from), lease, Promise(self._saved)))

    def _holders(self) -> list[int]:
        (hunt,) = self._hunts.values()
        return _sites(hunt.segments)


def _sites(segments: tuple[Segment, ...]) -> list[int]:
    """Per task."""
    return [segment.site for segment in segments for _ in range(segment.first, segment.last + 1)]


def _tuples_saved(chain: RunningChain, now_s: float, then_s: float, horizon_s: float) -> float:
    """Tuples of the chain under way: its rate times what they take less. Where it cannot keep up they gather
    for as long as a decision holds."""
    weight = max(chain.end_weight, *(task[rules.WEIGHT] for task in chain.tasks))
    saved_s = (now_s - then_s) / weight if weight > 0.0 else 0.0
    return chain.tasks[0][rules.RATE] * (saved_s if now_s < ENDLESS else horizon_s / 2.0)
