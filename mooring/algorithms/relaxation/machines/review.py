"""The review of a fragment: its goal under the springs, and the candidate sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.relaxation.machines.messages import Attempt, Probed
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.coordination.move_messages import ProposalId, StartedAt
from mooring.model.network.coordinate import Coordinate


@dataclass
class Review:
    """A fragment that is being reconsidered: probes are out."""

    attempt: Attempt
    began: int
    """In which of the site's rounds."""
    place: StartedAt
    """Where it is, and under which epoch."""
    ends: tuple[int, ...]
    """The sites of its neighbours."""
    rates: tuple[float, ...]
    """Bytes per second to each."""
    tuple_bytes: tuple[float, ...]
    made_from: tuple[StartedAt, ...]
    """Where neighbours are that may move."""
    asked: set[int]
    """Sites that have not answered yet."""
    answers: dict[int, Probed] = field(default_factory=dict)
    """Of the sites with room."""
    target: int | None = None
    """Chosen, and asked to keep room."""
    id: ProposalId | None = None
    """Under which room is kept."""
    relieves: bool = False
    """It has to leave because its site is too full."""

    def usage(self, latency_ms: Sequence[float]) -> float:
        """Bytes in flight on the fragment's links, times a thousand, at a site so far from its neighbours."""
        return sum(rate * ms for rate, ms in zip(self.rates, latency_ms, strict=True))

    def tuples_saved(self, here_ms: Sequence[float], there_ms: Sequence[float]) -> float:
        """Tuples in flight that there are fewer of, there instead of here."""
        terms = zip(self.rates, self.tuple_bytes, here_ms, there_ms, strict=True)
        return sum(rate / size * (here - there) / 1e3 for rate, size, here, there in terms)


class Neighbourhood:
    """The cost space as one site knows it: few sites, looked at one after the other."""

    def __init__(
        self, known: Mapping[int, Coordinate], spare_cores: Mapping[int, float], load_ms: float
    ) -> None:
        self._known = {site: known[site] for site in sorted(known)}
        most = max(max(spare_cores[site] for site in self._known), 1e-9)
        self._load_ms = {site: load_ms * max(1.0 - spare_cores[site] / most, 0.0) for site in self._known}

    def wanted(self, ends: Sequence[int], rates: Sequence[float], rng: np.random.Generator) -> Coordinate:
        """Where the springs of a fragment come to rest."""
        sites = [self._known[end] for end in ends]
        start_ms = (rng.random(len(sites[0].position_ms)) - 0.5).tolist()
        return Coordinate(rest_position_ms(sites, rates, start_ms, SpringParams()))

    def near(self, place: Coordinate, count: int) -> list[int]:
        """The nearest sites (section 3.1.1: loaded ones are further away), nearest first."""
        return sorted(self._known, key=lambda site: (self._distance_ms(place, site), site))[:count]

    def _distance_ms(self, place: Coordinate, site: int) -> float:
        at = self._known[site]
        apart = math.dist(at.position_ms, place.position_ms)
        return math.hypot(apart, self._load_ms[site]) + at.height_ms


def rest_position_ms(
    sites: Sequence[Coordinate],
    rates: Sequence[float],
    start_ms: Sequence[float],
    params: SpringParams,
) -> tuple[float, ...]:
    """Where the springs of one operator come to rest, from a first place on: a spring to each site, of this
    rate.

    The iteration of figure 7 as `relax_kernels.py` has it, for a site that reconsiders one operator at a
    time. A few dozen steps over a few springs need no compiled loop, and the compiler would be most of an
    agent's memory.
    """
    total = max(sum(rates), 1e-300)
    shares = [rate / total for rate in rates]
    at = list(start_ms)
    for _ in range(params.most_sweeps):
        force = _force(at, sites, shares)
        at = [x + params.damping * pull for x, pull in zip(at, force, strict=True)]
        if math.hypot(*force) < params.threshold_ms:
            break
    return tuple(at)


def _force(at: Sequence[float], sites: Sequence[Coordinate], shares: Sequence[float]) -> list[float]:
    force = [0.0] * len(at)
    for site, share in zip(sites, shares, strict=True):
        apart = [there - here for there, here in zip(site.position_ms, at, strict=True)]
        stretch = 1.0
        if site.height_ms > 0.0:
            # Near the site the direction means nothing: let the height fade out there.
            stretch = 1.0 + site.height_ms / (math.hypot(*apart) + site.height_ms)
        force = [pull + share * stretch * way for pull, way in zip(force, apart, strict=True)]
    return force
