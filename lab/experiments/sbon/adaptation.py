"""Queries that adapt to a changing network, beside those that never move and an oracle that always moves.

Every round nodes measure a few neighbours (through the moving percentile filter), coordinates follow, and the
local optimiser of section 3.2 reconsiders every operator: relax, look sites up if the place moved, measure,
move if it pays. Usage counts what load adds to a tuple's way, since that is what an application sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lab.experiments.sbon.changing_network import Weather
from lab.experiments.sbon.star_queries import StarQueries
from mooring.algorithms.relaxation.mapping import Mapper, MappingParams, OpenSites
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.algorithms.relaxation.spring_params import SpringParams
from mooring.algorithms.relaxation.springs import virtual_positions
from mooring.arrays import Floats, Ints
from mooring.model.network.cost_space import CostSpace, LoadScale
from mooring.model.network.embedding import Embedding, draw_neighbours, refine, start_embedding
from mooring.model.network.latency_filter import FilterParams, low_percentile
from mooring.model.network.vivaldi import VivaldiParams

WARM_UP_ROUNDS = 60
SAMPLES_PER_ROUND = 8
"""Measurements per node and round."""


@dataclass(frozen=True)
class AdaptationParams:
    mapping: MappingParams = field(default_factory=lambda: MappingParams("estimated", probes=15))
    migration: MigrationParams = field(default_factory=MigrationParams)
    load_ms: float = 0.0
    """Milliseconds of the load axis per unit of load; 0 is the latency space of section 4.2.1."""


@dataclass(frozen=True, eq=False)
class Course:
    """What happened, per round and query."""

    static: Floats
    adapted: Floats
    oracle: Floats
    static_delay: Floats
    adapted_delay: Floats
    migrations: Ints
    """Per query."""
    sites: Ints
    """Rounds x queries: where each adapting operator was."""


class FilteredSamples:
    """What every node knows of its neighbours: the filtered latency per link, all links at once."""

    def __init__(self, neighbours: Ints, params: FilterParams) -> None:
        self._neighbours, self._params = neighbours, params
        self._history = np.full((params.history, *neighbours.shape), np.nan)
        self._at = 0

    def add(self, sample_ms: Floats) -> Floats:
        """Take one measured matrix; returns the filtered latencies of the links, -1 where none is known."""
        own = np.arange(len(self._neighbours))[:, None]
        seen = sample_ms[own, self._neighbours]
        self._history[self._at % self._params.history] = np.where(seen > 0.0, seen, np.nan)
        self._at += 1
        chosen = low_percentile(self._history, self._params.percentile)
        return np.where(np.isnan(chosen), -1.0, chosen)


def adapt(
    weather: Weather, queries: StarQueries, rng: np.random.Generator, params: AdaptationParams
) -> Course:
    """Run all three through the weather."""
    nodes, count = weather.latency_ms.shape[1], len(queries)
    vivaldi = VivaldiParams()
    neighbours = draw_neighbours(nodes, rng)
    samples = FilteredSamples(neighbours, vivaldi.filter)
    embedding = start_embedding(nodes, rng, vivaldi)
    for _ in range(WARM_UP_ROUNDS):
        embedding = refine(
            embedding, neighbours, samples.add(weather.sample_ms[0]), rng, vivaldi, SAMPLES_PER_ROUND
        )
    operators = _Operators(queries, rng, params)
    operators.place_all(weather, 0, embedding)
    static = operators.sites.copy()
    usage = np.empty((5, weather.rounds, count))
    sites = np.empty((weather.rounds, count), dtype=np.int64)
    for now in range(weather.rounds):
        embedding = refine(
            embedding, neighbours, samples.add(weather.sample_ms[now]), rng, vivaldi, SAMPLES_PER_ROUND
        )
        if now:
            operators.reconsider(weather, now, embedding)
        latency_ms, delay_ms = weather.latency_ms[now], weather.delay_ms(now)
        usage[0, now] = loaded_usage(queries, latency_ms, delay_ms, static)
        usage[1, now] = loaded_usage(queries, latency_ms, delay_ms, operators.sites)
        usage[2, now] = _least_usage(queries, latency_ms, delay_ms)
        usage[3, now], usage[4, now] = (
            _delay(queries, latency_ms, delay_ms, where) for where in (static, operators.sites)
        )
        sites[now] = operators.sites
    static_usage, adapted, oracle, static_delay, adapted_delay = usage
    return Course(static_usage, adapted, oracle, static_delay, adapted_delay, operators.migrations, sites)


class _Operators:
    """The adapting operators of all queries, and what their optimisers remember."""

    def __init__(self, queries: StarQueries, rng: np.random.Generator, params: AdaptationParams) -> None:
        self.queries, self.params = queries, params
        self.springs = queries.springs()
        self.sites = np.full(len(queries), -1, dtype=np.int64)
        self.migrations = np.zeros(len(queries), dtype=np.int64)
        self._place_ms: Floats | None = None
        self._looked_up_ms = np.zeros((len(queries), 3))
        self._rounds_since = np.zeros(len(queries), dtype=np.int64)
        self._rng = rng

    def place_all(self, weather: Weather, now: int, embedding: Embedding) -> None:
        """The full optimiser, as the paper has it: nearest site, nothing measured."""
        mapper = self._mapper(weather, now, embedding, MappingParams())
        for query in range(len(self.queries)):
            self.sites[query] = mapper.place(query)
        self._looked_up_ms = mapper.virtual_ms.copy()

    def reconsider(self, weather: Weather, now: int, embedding: Embedding) -> None:
        mapper = self._mapper(weather, now, embedding, self.params.mapping)
        moved_ms = np.linalg.norm(mapper.virtual_ms - self._looked_up_ms, axis=1)
        self._rounds_since += 1
        for query in range(len(self.queries)):
            if not self.params.migration.looks_up(float(moved_ms[query]), int(self._rounds_since[query])):
                continue
            self._looked_up_ms[query] = mapper.virtual_ms[query]
            self._rounds_since[query] = 0
            site = mapper.place(query)
            one = StarQueries(self.queries.producers[[query]], self.queries.consumers[[query]])
            delay_ms = weather.delay_ms(now)
            here, there = (
                float(loaded_usage(one, weather.latency_ms[now], delay_ms, np.array([where]))[0])
                for where in (self.sites[query], site)
            )
            if self.params.migration.worth_it(here, there):
                self.sites[query] = site
                self.migrations[query] += 1

    def _mapper(self, weather: Weather, now: int, embedding: Embedding, mapping: MappingParams) -> Mapper:
        place_ms = virtual_positions(self.springs, embedding, self._rng, SpringParams(), self._place_ms)
        self._place_ms = place_ms
        load = weather.load[now] if self.params.load_ms > 0.0 else None
        space = CostSpace(embedding, load, LoadScale(self.params.load_ms))
        return Mapper(self.springs, place_ms, space, OpenSites(weather.latency_ms[now]), mapping)


def loaded_usage(queries: StarQueries, latency_ms: Floats, delay_ms: Floats, sites: Ints) -> Floats:
    """Bytes in flight per query, those held at a loaded site included."""
    into = queries.producer_rate * queries.producers.shape[1]
    return np.asarray(queries.usage(latency_ms, sites) + into * delay_ms[sites] / 1e3)


def _least_usage(queries: StarQueries, latency_ms: Floats, delay_ms: Floats) -> Floats:
    into = latency_ms[queries.producers].sum(axis=1) * queries.producer_rate
    out = latency_ms[:, queries.consumers].T * queries.consumer_rate
    held = delay_ms * queries.producer_rate * queries.producers.shape[1]
    return np.asarray((into + out + held).min(axis=1) / 1e3)


def _delay(queries: StarQueries, latency_ms: Floats, delay_ms: Floats, sites: Ints) -> Floats:
    into = latency_ms[queries.producers, sites[:, None]].max(axis=1)
    return np.asarray(into + delay_ms[sites] + latency_ms[sites, queries.consumers])
