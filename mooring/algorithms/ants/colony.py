"""A colony that places the chains of a problem: one chain's leader after the other, then again and again
while that helps.

Compiled and in one place, but with the data of each cell alone: the totals of its own site, the latencies
from it, and its pheromones. The machines of `algorithms/ants/machines/` do the same from site to site.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from mooring.algorithms.ants import colony_kernels
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.cell_kernels import CellLaws, Colony, Scratch
from mooring.algorithms.ants.chains import Chain
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.segment_kernels import ChainArrays, ChainWay, empty_way
from mooring.algorithms.ants.trails import KeptTrails
from mooring.arrays import Bools, Ints

SCOUT_BYTES = 128.0, 82.0, 33.0
"""Of a scout as it is encoded: without its chain, per task of it, and per site that it has chosen."""
LIGHT_SCOUT_BYTES = 88.0, 0.0, 33.0
"""The same while queries run: sites know the chains, and scouts leave them at home."""


@dataclass(frozen=True)
class ChainChange:
    """A chain that would move."""

    chain: Chain
    before: Ints
    """Sites of its fragments."""
    after: Ints
    now_s: float
    """What it costs where it is, in seconds of the mean query: its own latency, and what others wait for it;
    infinite where a site is full."""
    then_s: float


Allows = Callable[[ChainChange], bool]


@dataclass
class ColonyRun:
    """Its state: what is where, and what the ants have found."""

    search: LatencySearch
    params: AntParams
    neighbours: Sequence[Sequence[int]]
    seed: int
    sites: Ints
    """Per fragment; -1 while it has none."""
    signature: Ints | None = None
    """Per fragment: equal ones compute the same, and share; -1: shares with none. None: nothing is shared."""
    is_running: bool = False
    """Whether sites know all chains, and are told where ants go no further."""
    trails: KeptTrails | None = None
    """As ants left them the last time."""
    notes_paths: bool = False
    """Whether `seen` is filled in."""
    colony: Colony = field(init=False)
    ways: dict[int, ChainWay] = field(default_factory=dict)
    """Per chain that is placed."""
    refused: set[int] = field(default_factory=set)
    """Chains of which no scout succeeded."""
    seen: Bools = field(init=False)
    """Chain x site: passed by a scout that succeeded. Where paths are not noted, of one row for all."""
    ants: Ints = field(init=False)
    """Per chain, how many were sent."""
    here: dict[int, dict[tuple[int, int], None]] = field(default_factory=dict)
    """Site -> chains and which of their segments are there (of one that runs, several can be), in the order
    in which they came: earlier ones run what later ones share."""
    pinned_here: dict[int, set[int]] = field(default_factory=dict)
    """Site -> signatures of fragments of no chain."""

    def __post_init__(self) -> None:
        kinds = 0 if self.signature is None else int(self.signature.max(initial=-1)) + 1
        count, sites = len(self.search.chains), len(self.search.problem.sites)
        if self.trails is None:
            self.trails = KeptTrails(sites, most_neighbours(self.neighbours))
        self.colony = new_colony(self.search, self.neighbours, self.trails, self.seed, self.params, kinds)
        self.seen = np.zeros((count if self.notes_paths else 1, sites), dtype=np.bool_)
        self.ants = np.zeros(count, dtype=np.int64)
        chained = {f for chain in self.search.chains for f in chain.fragments}
        template, flows = self.search.many.template, self.search.fragments
        for f in range(len(self.sites)):
            if f not in chained and self.sites[f] >= 0:
                self.colony.totals[self.sites[f], :6] += flows.flow[f]
                self.colony.totals[self.sites[f], 6] += template.fixed_cores[f]
                self.colony.totals[self.sites[f], 7] += flows.memory_mb[f]
                if self.signature is not None and self.signature[f] >= 0:
                    self.colony.runs[self.sites[f], self.signature[f]] += 1
                    self.pinned_here.setdefault(int(self.sites[f]), set()).add(int(self.signature[f]))

    @property
    def law(self) -> CellLaws:
        own = self.params
        return CellLaws(
            own.strength,
            own.confidence,
            own.trusted_trips,
            own.least_limit,
            own.most_limit,
            own.most_skipped,
            own.most_astray,
            own.failures,
            own.discouraged,
            own.outstanding,
            *(LIGHT_SCOUT_BYTES if self.is_running else SCOUT_BYTES),
        )

    def place(self, number: int) -> bool:
        """A chain that has no sites yet; false if it was refused."""
        chain = self.search.chains[number]
        best = empty_way(len(chain.fragments))
        cost = self._forage(number, self.params.routing_ants, best)
        if not np.isfinite(cost):
            self.refused.add(number)
            return False
        self.refused.discard(number)
        self._deploy(number, best)
        return True

    def adopt(self, number: int) -> None:
        """A chain that runs where `sites` says."""
        chain = self.search.chains[number]
        way = empty_way(len(chain.fragments))
        at = [int(self.sites[f]) for f in chain.fragments]
        breaks = [0, *(k for k, (a, b) in enumerate(pairwise(at), 1) if a != b), len(at)]
        for n, (first, end) in enumerate(pairwise(breaks)):
            way.site[n], way.first[n], way.last[n] = at[first], first, end - 1
        way.size[0] = len(breaks) - 1
        colony_kernels.cost_of(self.colony, self._arrays(chain), way)
        self._deploy(number, way)

    def improve(
        self, number: int, routing_ants: int, scouts: int | None = None, allows: Allows | None = None
    ) -> bool:
        """Scout again for a placed chain; it moves where its latency is beta times the best report's (section
        3.9), if that is allowed."""
        chain, way = self.search.chains[number], self.ways[number]
        self.withdraw(number)
        now_s = float(colony_kernels.cost_of(self.colony, self._arrays(chain), way))
        best = empty_way(len(chain.fragments))
        then_s = self._forage(number, routing_ants, best, scouts)
        own = list(chain.fragments)
        before = self.sites[own].copy()
        least_s = (then_s + chain.sure_s) * self.params.beta * (1.0 + 1e-9)
        moves = np.isfinite(then_s) and now_s + chain.sure_s > least_s
        if moves:
            self._set_sites(chain, best)
            if allows is not None and not allows(ChainChange(chain, before, self.sites[own], now_s, then_s)):
                self.sites[own] = before
                moves = False
        self._deploy(number, best if moves else way)
        return bool(moves and not np.array_equal(before, self.sites[own]))

    def _forage(self, number: int, routing_ants: int, best: ChainWay, scouts: int | None = None) -> float:
        """`scouts`: as many as the first time, unless given."""
        arrays = self._arrays(self.search.chains[number])
        scouts = self.params.scouts if scouts is None else scouts
        assert self.trails is not None
        colony = self.colony._replace(trails=self.trails.turn_to(arrays.destination))
        if scouts > len(colony.scratch.failed):
            colony = colony._replace(scratch=new_scratch(self.neighbours, scouts))
        self.colony = colony
        cost, after = colony_kernels.forage(
            colony,
            self.law,
            arrays,
            number,
            routing_ants,
            scouts,
            int(self.ants[number]),
            best,
            self.seen[number if self.notes_paths else 0],
        )
        self.ants[number] = after
        return float(cost)

    def _arrays(self, chain: Chain) -> ChainArrays:
        source, destination = chain.start.site_in(self.sites), chain.end.site_in(self.sites)
        either = max(source, destination, 0)
        return ChainArrays(
            chain.tasks,
            chain.sides,
            either if source < 0 else source,
            chain.start.fragment >= 0,
            chain.start_variability,
            either if destination < 0 else destination,
            chain.end.fragment >= 0,
            chain.end_weight if destination >= 0 else 0.0,
            self._signatures(chain),
        )

    def _signatures(self, chain: Chain) -> Ints:
        own = list(chain.fragments)
        return np.full(len(own), -1) if self.signature is None else self.signature[own]

    def _deploy(self, number: int, way: ChainWay) -> None:
        chain = self.search.chains[number]
        colony_kernels.deploy(self.colony, self._arrays(chain), way, 1.0)
        self.ways[number] = way
        for at in range(int(way.size[0])):
            self.here.setdefault(int(way.site[at]), {})[number, at] = None
        self._set_sites(chain, way)

    def withdraw(self, number: int) -> None:
        """A chain ends. What others share of it, they run from now on."""
        chain, way = self.search.chains[number], self.ways[number]
        colony_kernels.deploy(self.colony, self._arrays(chain), way, -1.0)
        for at in range(int(way.size[0])):
            del self.here[int(way.site[at])][number, at]
            if self.signature is not None:
                self._hand_over(int(way.site[at]))

    def _hand_over(self, site: int) -> None:
        """The first that shared something which nobody runs any more runs it."""
        running = set(self.pinned_here.get(site, ()))
        for number, at in self.here[site]:
            way, arrays = self.ways[number], self._arrays(self.search.chains[number])
            own = arrays.signature[int(way.first[at]) : int(way.last[at]) + 1].tolist()
            shared = next((n for n, k in enumerate(own) if k not in running), len(own))
            if shared < way.shared[at]:
                colony_kernels.count_flow(self.colony, arrays, way, at, -1.0)
                way.shared[at] = shared
                colony_kernels.count_flow(self.colony, arrays, way, at, 1.0)
            running.update(own)

    def _set_sites(self, chain: Chain, way: ChainWay) -> None:
        for at in range(int(way.size[0])):
            for k in range(int(way.first[at]), int(way.last[at]) + 1):
                self.sites[chain.fragments[k]] = way.site[at]


def new_colony(
    search: LatencySearch,
    neighbours: Sequence[Sequence[int]],
    trails: KeptTrails,
    seed: int,
    params: AntParams,
    kinds: int = 0,
) -> Colony:
    """With nothing deployed."""
    template, count = search.many.template, len(neighbours)
    neighbour = np.full((count, most_neighbours(neighbours)), -1, dtype=np.int64)
    for s, own in enumerate(neighbours):
        neighbour[s, : len(own)] = own
    return Colony(
        neighbour,
        template.ways,
        template.capacity_cores,
        search.fragments.memory_limit_mb,
        seed,
        search.trigger_s,
        search.delay_limit_s,
        params.sharpness,
        trails.rows,
        new_scratch(neighbours, params.scouts),
        np.zeros((count, 8)),
        np.zeros(2, dtype=np.int64),
        np.zeros(2),
        np.zeros((count, kinds), dtype=np.int64),
    )


def new_scratch(neighbours: Sequence[Sequence[int]], scouts: int) -> Scratch:
    steps = len(neighbours) + 1
    return Scratch(
        np.zeros(steps, np.int64),
        np.zeros(steps, np.int64),
        np.zeros(steps),
        np.zeros(steps),
        np.zeros(steps, np.bool_),
        np.zeros(most_neighbours(neighbours), np.bool_),
        np.zeros((scouts, steps), np.int64),
    )


def most_neighbours(neighbours: Sequence[Sequence[int]]) -> int:
    return max((len(own) for own in neighbours), default=1) or 1
