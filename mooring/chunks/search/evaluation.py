"""The evaluation of a candidate: its chunks assigned, and the frames simulated.

Chunks are assigned by rounds of balancing until nothing moves, starting from where they were if the operator
keeps its partitioning. Where complexity moves, every frame brings one more round, by the costs of the frame
before it, which are the newest that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from mooring.arrays import Bools, Ints
from mooring.chunks.assignment.balancing import Balancer, Scope
from mooring.chunks.assignment.node_sets import dedicated_sets, shared_sets
from mooring.chunks.model import ChunkPlan, ChunkProblem, OperatorChunks
from mooring.chunks.partitioning import Partitioning
from mooring.chunks.timing.arrays import WorkArrays, WorkTables
from mooring.chunks.timing.simulate import FrameSimulation, FrameTimes


class Assignment(StrEnum):
    """How chunks find their sites."""

    GLOBAL = "global"
    LOCAL = "local"
    TIERED = "tiered"
    DEDICATED = "dedicated"
    """Sites of its own for every operator, and Local among them, as in Flux (section 5.1)."""
    SHARED = "shared"
    """Fixed sets of sites that overlap, and Tiered."""
    EARLIEST_FINISH = "earliest-finish"

    @property
    def scope(self) -> Scope:
        local = (Assignment.LOCAL, Assignment.DEDICATED)
        return Scope.LOCAL if self in local else Scope.GLOBAL if self is Assignment.GLOBAL else Scope.TIERED


@dataclass(frozen=True, eq=False)
class ChunkEvaluator:
    """Simulates partitionings of a problem under one kind of assignment."""

    problem: ChunkProblem
    assignment: Assignment
    frames: int = 12
    skip: int = 2
    """So many first frames do not count: they find the sites empty."""
    before: ChunkPlan | None = None
    """Where chunks are now."""
    given_tables: WorkTables | None = None
    """Where they are known already; they do not depend on how often frames come."""

    @cached_property
    def tables(self) -> WorkTables:
        return self.given_tables or WorkTables(self.problem, self.frames)

    @cached_property
    def allowed(self) -> Bools | None:
        """Per operator and site; None: all everywhere."""
        if self.assignment is Assignment.DEDICATED:
            return dedicated_sets(self.problem)
        return shared_sets(self.problem) if self.assignment is Assignment.SHARED else None

    @cached_property
    def _balancer(self) -> Balancer:
        return Balancer.of(self.problem, self.assignment.scope, self.allowed)

    @cached_property
    def _simulation(self) -> FrameSimulation:
        return FrameSimulation(self.problem)

    def latency_ms(self, partitionings: Sequence[Partitioning]) -> float:
        return self.simulate(partitionings)[0].mean_ms(self.skip)

    def simulate(self, partitionings: Sequence[Partitioning]) -> tuple[FrameTimes, Ints]:
        """What becomes of the frames, and the sites of chunks frame by frame: none with earliest finish."""
        work = self.tables.of(partitionings)
        if self.assignment is Assignment.EARLIEST_FINISH:
            times = self._simulation.earliest_finish(work, self.frames)
            return times, np.zeros((0, len(work.operator)), dtype=np.int64)
        site_of = self._assigned(partitionings, work)
        return self._simulation.assigned(work, site_of, self.frames), site_of

    def _assigned(self, partitionings: Sequence[Partitioning], work: WorkArrays) -> Ints:
        site_of = self._balancer.round_robin(work.first)
        self._keep_what_stays(partitionings, work, site_of)
        self._balancer.settle(work.cycles[0], work.first, site_of)
        rows = [site_of.copy()]
        for known in work.cycles[:-1]:
            self._balancer.round(known, work.first, site_of)
            rows.append(site_of.copy())
        return np.stack(rows)

    def _keep_what_stays(
        self, partitionings: Sequence[Partitioning], work: WorkArrays, site_of: Ints
    ) -> None:
        if self.before is None:
            return
        number = {site.name: k for k, site in enumerate(self.problem.sites)}
        for k, operator in enumerate(self.problem.operators):
            was = self.before.operators.get(operator.name)
            if was and was.sites and was.partitioning == partitionings[k] and set(was.sites) <= set(number):
                site_of[work.first[k] : work.first[k + 1]] = [number[name] for name in was.sites]

    def plan(self, partitionings: Sequence[Partitioning], latency_bound_ms: float) -> ChunkPlan:
        """The partitionings with the assignment that the simulation ended with (section 4)."""
        times, site_of = self.simulate(partitionings)
        first = self.tables.of(partitionings).first
        names = [site.name for site in self.problem.sites]
        last = site_of[-1].tolist() if len(site_of) else []
        return ChunkPlan(
            {
                operator.name: OperatorChunks(
                    partitionings[k], tuple(names[site] for site in last[first[k] : first[k + 1]])
                )
                for k, operator in enumerate(self.problem.operators)
            },
            times.mean_ms(self.skip),
            latency_bound_ms,
        )
