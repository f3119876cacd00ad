"""Minimises the mean latency of all queries with ants: routing ants find paths, scouts try placements along
them, and the best report is enforced, with local knowledge only.

Chain after chain is placed, then all are scouted for again and move where that helps, for some rounds. It is
the protocol of `algorithms/ants/machines/`, compiled, with ants one at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.colony import ChainChange, ColonyRun
from mooring.algorithms.ants.descent import why_not_by_latency
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.arrays import Ints
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError, InputError
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.checker import violations
from mooring.model.placement.placement import Placement
from mooring.model.placement.signatures import fragment_signatures
from mooring.model.problem.problem import Problem

LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Ants:
    """Policy `ants`."""

    name: ClassVar[str] = "ants"
    about: ClassVar[Subject] = "latency"

    routing_ants: int = 20
    """Sent along every chain before its scouts; of the paper's 100, the last only narrow the ways."""
    scouts: int = 60
    """Per chain and attempt; ten are too few when many queries share the sites."""
    attempts: int = 3
    """Times that ants are sent for a chain before it is refused."""
    rounds: int = 5
    """Times that all chains are scouted for again once they are placed."""
    routing_again: int = 10
    """Routing ants per chain and round."""
    strength: float = 0.1
    """c of the reinforcement r = c T_best / T."""
    load_limit: float = 0.95
    """The largest load limit alpha that a scout draws; the smallest is .6, or this."""
    delay_limit_ms: float = 0.0
    """Limit on the time of new and existing tasks at a site together (equation 11), in ms; 0: no limit."""
    outstanding: float = 0.0
    """A report whose effect on others is at most this part of its own latency is taken at once (section 3.8);
    0: never, since on empty sites that is the first one."""
    beta: float = 1.0
    """A chain moves when its latency is this many times that of the best report."""
    descent: int = 0
    """Passes of a finishing descent of single fragments over the sites that scouts have passed; 0: none."""
    reuse: bool = False
    """Scouts that come by a fragment which computes the same as their next one share it, at no further load
    (section 3.10): for an engine that can share, and where memory and fixed load allow all to run all the
    same."""

    def __post_init__(self) -> None:
        self.params()
        if not 0.0 <= self.delay_limit_ms < float("inf"):
            raise InputError(f"found {self.delay_limit_ms}, expected 0 or more ms", field="delay_limit_ms")
        if self.reuse and self.descent > 0:
            raise InputError(
                f"found reuse together with descent={self.descent}, expected one of the two: descent "
                "counts every operator",
                field="descent",
            )

    def params(self) -> AntParams:
        return AntParams(
            routing_ants=self.routing_ants,
            scouts=self.scouts,
            strength=self.strength,
            least_limit=min(0.6, self.load_limit),
            most_limit=self.load_limit,
            outstanding=self.outstanding,
            beta=self.beta,
        )

    def unsupported(self, problem: Problem) -> str | None:
        return why_not_by_latency(problem)

    def place(self, problem: Problem, context: Context) -> Placement:
        run = self.forage(problem, context)
        sites = self.with_refused(run, context.deadline)
        if self.descent > 0:
            sites = self.finish(run, sites, context)
        placement = Placement(problem, sites)
        if self.reuse and violations(problem, context.load, placement):
            return replace(self, reuse=False).place(problem, context)
        return placement

    def forage(self, problem: Problem, context: Context) -> ColonyRun:
        """Let the colony do its work; chains that it refuses are without sites."""
        search = LatencySearch.of(problem, context.load, delay_limit_s=self.delay_limit_ms / 1e3)
        neighbours = neighbours_of(problem.network, len(problem.sites), context.rng)
        seed = int(context.rng.integers(LARGEST_SEED))
        pinned = context.load.pinned_site.astype(np.int64)
        current = None if context.current is None else context.current.site_of_fragment
        at = pinned if current is None else np.where(pinned >= 0, pinned, current)
        signature = shared_kinds(problem) if self.reuse else None
        run = ColonyRun(
            search,
            self.params(),
            neighbours,
            seed,
            at.copy(),
            signature,
            notes_paths=self.descent > 0,
        )
        for number in range(len(search.chains)):
            context.progress(number / len(search.chains) / 2.0, f"chain {number + 1}")
            if current is not None:
                run.adopt(number)
            elif context.deadline.expired:
                run.refused.add(number)
            else:
                self._place(run, number)
        self._improve(run, context, None if current is None else at)
        return run

    def _place(self, run: ColonyRun, number: int) -> None:
        for _ in range(self.attempts):
            if run.place(number):
                return

    def _improve(self, run: ColonyRun, context: Context, home: Ints | None) -> None:
        """Round after round, while something moves."""
        count = len(run.search.chains)
        most = context.max_moves

        def allows(change: ChainChange) -> bool:
            return home is None or most is None or int((run.sites != home).sum()) <= most

        for made in range(self.rounds):
            context.progress(0.5 + made / self.rounds / 2.0, f"round {made + 1}")
            moved = 0
            for number in range(count):
                if context.deadline.expired:
                    return
                if number in run.ways:
                    moved += run.improve(number, self.routing_again, allows=allows)
                else:
                    moved += run.place(number)
            if not moved:
                break

    def with_refused(self, run: ColonyRun, deadline: Deadline = NO_DEADLINE) -> Ints:
        """A plan is of all fragments: what the colony refused goes where it is quickest, whatever the
        load."""
        if not run.refused:
            return run.sites
        chains = [run.search.chains[number] for number in sorted(run.refused)]
        sites = run.search.shortest_ways(run.sites, chains, deadline)
        if sites is None:
            name = run.search.problem.fragment_names[chains[0].fragments[0]]
            raise InfeasibleError(
                f"no scout found room for {len(chains)} chains; the first begins with {name!r}",
                remedy="add capacity or memory, or raise load_limit or delay_limit_ms",
            )
        return sites

    def finish(self, run: ColonyRun, sites: Ints, context: Context) -> Ints:
        """Single fragments along the paths on which scouts of their chain succeeded."""
        home = sites if context.current is None else context.current.site_of_fragment
        most_moves = None if context.current is None else context.max_moves
        found, _ = run.search.descend(
            sites,
            passes=self.descent,
            seen=run.seen,
            home=home,
            most_moves=most_moves,
            deadline=context.deadline,
        )
        return found


def shared_kinds(problem: Problem) -> Ints:
    """Per fragment a number for what it computes; -1 where no other computes the same."""
    own = fragment_signatures(problem)
    several = [each for each, count in Counter(own).items() if count > 1]
    kinds = {each: kind for kind, each in enumerate(several)}
    return np.array([kinds.get(each, -1) for each in own], dtype=np.int64)
