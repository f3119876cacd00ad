"""What a site works out when it reconsiders a fragment: where springs want it, and which sites to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.network.coordinate import Coordinate
from mooring.network.cost_space import CostSpace, LoadScale
from mooring.network.embedding import Embedding
from mooring.placement.relaxation.springs import SpringParams, Springs, virtual_positions
from mooring.protocols.moving import ProposalId, StartedAt
from mooring.protocols.optimiser_messages import Attempt, Probed


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
    asked: int
    answers: dict[int, Probed] = field(default_factory=dict)
    """Of the sites with room."""
    heard: int = 0
    target: int | None = None
    """Chosen, and asked to keep room."""
    id: ProposalId | None = None
    """Under which room is kept."""

    def usage(self, latency_ms: Sequence[float]) -> float:
        """Bytes in flight on the fragment's links, times a thousand, at a site so far from its neighbours."""
        return sum(rate * ms for rate, ms in zip(self.rates, latency_ms, strict=True))

    def tuples_saved(self, here_ms: Sequence[float], there_ms: Sequence[float]) -> float:
        """Tuples in flight that there are fewer of, there instead of here."""
        terms = zip(self.rates, self.tuple_bytes, here_ms, there_ms, strict=True)
        return sum(rate / size * (here - there) / 1e3 for rate, size, here, there in terms)


class Neighbourhood:
    """The cost space as one site knows it."""

    def __init__(
        self, known: Mapping[int, Coordinate], spare_cores: Mapping[int, float], load_ms: float
    ) -> None:
        self._sites = sorted(known)
        places = [known[site] for site in self._sites]
        embedding = Embedding(
            np.array([at.position_ms for at in places]),
            np.array([at.height_ms for at in places]),
            np.array([at.error for at in places]),
        )
        spare = np.array([spare_cores[site] for site in self._sites])
        load = 1.0 - spare / max(float(spare.max()), 1e-9)
        self._space = CostSpace(embedding, load, LoadScale(load_ms))

    def wanted(self, ends: Sequence[int], rates: Sequence[float], rng: np.random.Generator) -> Coordinate:
        """Where the springs of a fragment come to rest."""
        index = np.array([self._sites.index(end) for end in ends])
        springs = Springs.of(1, ~index, np.zeros(len(ends), dtype=np.int64), np.array(rates))
        at = virtual_positions(springs, self._space.embedding, rng, SpringParams())[0]
        return Coordinate(tuple(at.tolist()))

    def near(self, place: Coordinate, count: int) -> list[int]:
        nodes, _ = self._space.nearest(np.array(place.position_ms), count)
        return [self._sites[i] for i in nodes.tolist()]
