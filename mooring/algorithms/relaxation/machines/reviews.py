"""Reconsidering the fragments that run here: which one should go, and to which site.

Springs between the neighbours' coordinates say where a fragment should be; if that place moved, the sites
near it are probed (how far are you from its neighbours, have you room?), and the best is chosen if it saves
enough. It is asked to keep room, and once it does, the move can be proposed. One at a time: a site has one
proposal open.

In the paper a loaded site is far away in the cost space (section 3.1.1), so what runs there would rather be
elsewhere. Here a site that has been too full for some reviews lets one fragment go to the best site that has
room, at any cost in network usage. Which one changes from review to review: not each fits elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mooring.algorithms.relaxation.machines.known_sites import KnownSites
from mooring.algorithms.relaxation.machines.messages import (
    Attempt,
    FragmentSpec,
    HoldRoom,
    Probe,
    Probed,
    RoomHeld,
)
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.machines.residence import Residence
from mooring.algorithms.relaxation.machines.review import Neighbourhood, Review
from mooring.contracts.site_machine import Effect, Send
from mooring.coordination.move_messages import FragmentMove, Lease, MovePlan, Promise, ProposalId
from mooring.model.network.coordinate import Coordinate


class Reviews:
    """Of one site. All of it is lost in a crash, and begun anew."""

    def __init__(
        self,
        generator: np.random.Generator,
        params: OptimiserParams,
        known: KnownSites,
        residence: Residence,
        new_id: Callable[[], ProposalId],
    ) -> None:
        self._generator, self._params = generator, params
        self._known, self._residence, self._new_id = known, residence, new_id
        self._open: dict[int, Review] = {}
        self._looked_up: dict[int, tuple[Coordinate, int]] = {}
        """Fragment -> its place when sites were last probed for it, and how many reviews ago."""
        self._incarnation, self._attempts = 0, 0
        self._around: tuple[int, Neighbourhood] | None = None
        self._full_for = 0
        """Reviews in a row at which the site was too full."""
        self._leaving: int | None = None
        """The fragment that should go because it is."""

    def start(self, incarnation: int) -> None:
        self._incarnation = incarnation

    def give_up(self, round_now: int) -> None:
        """Drop those whose probes or requests have gone unanswered for too long."""
        longest = self._params.patience * self._params.rounds_per_review
        for fragment, review in list(self._open.items()):
            if round_now - review.began >= longest:
                del self._open[fragment]

    def forget(self, fragment: int) -> None:
        """It left, or was started anew: what was found out about it does not count any more."""
        self._open.pop(fragment, None)
        self._looked_up.pop(fragment, None)

    def watch_room(self) -> None:
        """Once a review: what should leave a site that is too full, if anything. One that makes enough room
        by itself comes first, the smallest of those. A site without any capacity is lost or kept empty, and
        others see to it.
        """
        residence, params = self._residence, self._params
        too_full = residence.used_cores > params.full * residence.capacity_cores + 1e-9
        self._full_for = self._full_for + 1 if too_full and residence.capacity_cores > 0.0 else 0
        short = -residence.spare_cores
        cores = {spec.fragment: residence.cores(spec.fragment) for spec in residence.running if spec.movable}
        ranked = sorted(cores, key=lambda f: (cores[f] < short, abs(cores[f] - short), f))
        turn = self._full_for - params.watched
        self._leaving = ranked[turn % len(ranked)] if turn >= 0 and ranked else None

    def begin(self, spec: FragmentSpec, rates: Sequence[float], round_now: int) -> Sequence[Effect]:
        """Probe the sites near the place where the fragment should be, if that place is a new one. While
        something has to leave, nothing else is looked at."""
        where, here = self._residence.where, self._residence.where.get(spec.fragment)
        if not spec.movable or spec.fragment in self._open or here is None:
            return ()
        if self._leaving not in (None, spec.fragment):
            return ()
        ends = tuple(
            link.site if link.fragment < 0 else self._residence.site_of(link.fragment) for link in spec.links
        )
        if not ends or not self._known.knows(ends):
            return ()
        around = self._neighbourhood(round_now)
        place = around.wanted(ends, rates, self._generator)
        if not self._looks_up(spec.fragment, place):
            return ()
        found = [*around.near(place, self._params.candidates + 1), *ends]
        targets = [target for target in dict.fromkeys(found) if target != self._residence.site]
        self._attempts += 1
        attempt: Attempt = (self._residence.site, self._incarnation, self._attempts)
        neighbours = sorted({link.fragment for link in spec.links if link.fragment >= 0})
        self._open[spec.fragment] = Review(
            attempt,
            round_now,
            here,
            ends,
            tuple(rates),
            tuple(link.tuple_bytes for link in spec.links),
            tuple(where[other] for other in neighbours),
            set(targets),
        )
        return [Send(target, Probe(spec.fragment, attempt, ends)) for target in targets]

    def _neighbourhood(self, round_now: int) -> Neighbourhood:
        """One for all that is reconsidered in a round."""
        if self._around is None or self._around[0] != round_now:
            self._around = round_now, self._known.neighbourhood(self._residence.spare_cores)
        return self._around[1]

    def _looks_up(self, fragment: int, place: Coordinate) -> bool:
        before, reviews = self._looked_up.get(fragment, (None, 0))
        if fragment == self._leaving:
            before = None
        if before is not None and not self._params.migration.looks_up(place.latency_ms(before), reviews + 1):
            self._looked_up[fragment] = (before, reviews + 1)
            return False
        self._looked_up[fragment] = (place, 0)
        return True

    def probed(self, sender: int, message: Probed, *, free: bool) -> Sequence[Effect]:
        """When the last of the probed sites has answered, the best is asked for room, if any is."""
        fragment = message.fragment
        review = self._open.get(fragment)
        if review is None or review.attempt != message.attempt or review.target is not None:
            return ()
        if sender not in review.asked:
            return ()
        review.asked.discard(sender)
        if (
            message.spare_cores >= self._residence.cores(fragment)
            and len(message.latency_ms) == len(review.ends)
            and min(message.latency_ms, default=-1.0) >= 0.0
        ):
            review.answers[sender] = message
        return () if review.asked else self._conclude(fragment, review, free=free)

    def conclude_overdue(self, round_now: int, *, free: bool) -> Sequence[Effect]:
        """What has waited for a whole review is decided by the answers that came: a site that is gone never
        gives one.
        """
        effects: list[Effect] = []
        for fragment, review in list(self._open.items()):
            if review.target is None and round_now - review.began >= self._params.rounds_per_review:
                effects += self._conclude(fragment, review, free=free)
        return effects

    def _conclude(self, fragment: int, review: Review, *, free: bool) -> Sequence[Effect]:
        """Not if a proposal is open (`free` is false): then it is for another time."""
        asking = any(other.target is not None for other in self._open.values())
        review.relieves = fragment == self._leaving
        review.target = self._best(review) if free and not asking else None
        if review.target is None:
            del self._open[fragment]
            return ()
        review.id = self._new_id()
        return (Send(review.target, HoldRoom(review.id, fragment, self._residence.cores(fragment))),)

    def _best(self, review: Review) -> int | None:
        """The site with the least usage; None if there is none, or too little would be saved where that
        counts.
        """
        own = self._known.latencies_ms(review.ends)
        if not review.answers or min(own) < 0.0:
            return None
        usage = {site: review.usage(answer.latency_ms) for site, answer in review.answers.items()}
        target = min(usage, key=lambda site: (usage[site], site))
        saves = self._params.migration.worth_it(review.usage(own), usage[target])
        return target if saves or review.relieves else None

    def room_held(self, sender: int, message: RoomHeld) -> tuple[MovePlan, Lease, Promise, bool] | None:
        """What can be proposed now, under the id of the answer, and whether it relieves a site that is too
        full; None if nothing is, or is no longer, wanted.
        """
        asked = (message.id, sender)
        found = next((f for f, review in self._open.items() if (review.id, review.target) == asked), None)
        if found is None:
            return None
        review = self._open.pop(found)
        target, own = review.target, self._known.latencies_ms(review.ends)
        if not message.fits or target is None or min(own) < 0.0:
            return None
        move = FragmentMove(found, self._residence.site, target, review.place.epoch)
        cores, answer = self._residence.cores(found), review.answers[target]
        promise = Promise(
            review.tuples_saved(own, answer.latency_ms),
            (
                (self._residence.site, self._residence.used_cores - cores),
                (target, answer.used_cores + cores),
            ),
        )
        return MovePlan((move,), review.made_from), Lease((target,)), promise, review.relieves
