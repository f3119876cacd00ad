"""Reconsidering the operators that run here: which one should go, and to which site.

Springs between the neighbours' coordinates say where an operator should be; if that place moved, the sites
near it are probed (how far are you from its neighbours, have you room?), and the best is chosen if it saves
enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mooring.network.coordinate import Coordinate
from mooring.protocols.known_sites import KnownSites
from mooring.protocols.operator_moves import OperatorMoves
from mooring.protocols.optimiser_messages import AskMove, Attempt, Hosted, Probe, Probed
from mooring.protocols.optimiser_params import OptimiserParams
from mooring.protocols.protocol import Effect, Send
from mooring.protocols.review import Review


class Reviews:
    """Of one site. All of it is lost in a crash, and begun anew."""

    def __init__(
        self, site: int, generator: np.random.Generator, params: OptimiserParams, known: KnownSites
    ) -> None:
        self._site, self._generator, self._params = site, generator, params
        self._known = known
        self._open: dict[int, Review] = {}
        self._looked_up: dict[int, tuple[Coordinate, int]] = {}
        """Operator -> its place when sites were last probed for it, and how many reviews ago."""
        self._incarnation, self._attempts = 0, 0

    def start(self, incarnation: int) -> None:
        self._incarnation = incarnation

    def give_up(self, round_now: int) -> None:
        """Drop those whose probes or requests have gone unanswered for too long."""
        longest = self._params.patience * self._params.rounds_per_review
        for operator, review in list(self._open.items()):
            if round_now - review.began >= longest:
                del self._open[operator]

    def begin(self, hosted: Hosted, moves: OperatorMoves, round_now: int) -> Sequence[Effect]:
        """Probe the sites near the place where the operator should be, if that place is a new one."""
        if not hosted.movable or hosted.operator in self._open:
            return ()
        ends = tuple(
            link.site if link.operator < 0 else moves.site_of(link.operator) for link in hosted.links
        )
        if not ends or not self._known.knows(ends):
            return ()
        rates = tuple(link.rate for link in hosted.links)
        around = self._known.neighbourhood(moves.spare_cores)
        place = around.wanted(ends, rates, self._generator)
        if not self._looks_up(hosted.operator, place):
            return ()
        found = [*around.near(place, self._params.candidates + 1), *ends]
        targets = [target for target in dict.fromkeys(found) if target != self._site]
        self._attempts += 1
        attempt = (self._site, self._incarnation, self._attempts)
        self._open[hosted.operator] = Review(attempt, round_now, ends, rates, len(targets))
        return [Send(target, Probe(hosted.operator, attempt, ends)) for target in targets]

    def _looks_up(self, operator: int, place: Coordinate) -> bool:
        before, reviews = self._looked_up.get(operator, (None, 0))
        if before is not None and not self._params.migration.looks_up(place.latency_ms(before), reviews + 1):
            self._looked_up[operator] = (before, reviews + 1)
            return False
        self._looked_up[operator] = (place, 0)
        return True

    def answered(self, sender: int, message: Probed, hosted: Hosted | None) -> Sequence[Effect]:
        """When the last of the probed sites has answered, the coordinator is asked for the best, if any."""
        review = self._open.get(message.operator)
        if review is None or hosted is None or review.attempt != message.attempt or review.target is not None:
            return ()
        review.heard += 1
        if message.spare_cores >= hosted.cores and min(message.latency_ms, default=-1.0) >= 0.0:
            review.answers[sender] = review.usage(message.latency_ms)
        if review.heard < review.asked:
            return ()
        review.target = self._best(review)
        if review.target is None:
            del self._open[message.operator]
            return ()
        return (Send(hosted.coordinator, AskMove(hosted.operator, review.attempt)),)

    def _best(self, review: Review) -> int | None:
        """The site with the least usage; None if there is none, or too little would be saved."""
        own = self._known.latencies_ms(review.ends)
        if not review.answers or min(own) < 0.0:
            return None
        target = min(review.answers, key=lambda site: (review.answers[site], site))
        enough = self._params.migration.worth_it(review.usage(own), review.answers[target])
        return target if enough else None

    def chosen(self, operator: int, attempt: Attempt) -> int | None:
        """Where it is to go under this attempt; None if that is not, or no longer, wanted."""
        review = self._open.get(operator)
        return review.target if review is not None and review.attempt == attempt else None

    def close(self, operator: int) -> None:
        """It has been sent where it was to go."""
        self._open.pop(operator, None)

    def forget(self, operator: int) -> None:
        """It runs elsewhere now; if it comes back, sites are looked up afresh."""
        self._looked_up.pop(operator, None)
