"""Policy `overlay`: queries registered one after the other with a protocol between sites, under virtual time.

Every query is placed by the code that real sites would run (`algorithms/overlay/protocol/`): it reuses what
runs, starts the rest near its publishers, and takes the cheapest plan that keeps the limits of all queries it
shares operators with. A query for which there is none is rejected with the reason, and the rest is placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from mooring.algorithms.overlay.protocol.generation import SearchParams
from mooring.algorithms.overlay.protocol.messages import Admitted, Obstacle, Rejected
from mooring.algorithms.overlay.protocol.overlay_site import OverlayParams
from mooring.algorithms.overlay.requests import OverlayRequests, Wanted
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.virtual_run import OverlayRun
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.errors import InfeasibleError, InputError
from mooring.model.evaluation.explanation import Subject
from mooring.model.placement.admission import without_queries
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, no_room
from mooring.model.problem.latencies import as_matrix, why_no_matrix
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal, milliseconds

NO_TIME = "the time budget was spent before it was registered: allow more time"


@dataclass(frozen=True)
class Overlay:
    name: ClassVar[str] = "overlay"
    admits: ClassVar[bool] = True
    """It may leave out queries, and start from a plan that does."""
    about: ClassVar[Subject] = "network"

    k: int = 3
    """Steps that are searched ahead to eliminate plans (section 3.3.1)."""
    candidates: int = 7
    """Candidate sites per operator."""
    most_plans: int = 64
    """Plans kept per operator."""
    threshold: float = 0.95
    """The share of a site's capacity that is used at the most at the present rates: processing delays count
    for nothing only below full (section 3)."""
    counts: Literal["everything", "operators"] = "everything"
    """Which bandwidth plans save: between all sites, or, as in the paper, between operators alone."""
    choice: Literal["cheapest", "random"] = "cheapest"
    """Which of the feasible plans is taken; `random` is what the paper compares with (section 4)."""
    retries: int = 1
    """Times that rejected queries are tried again when all others are placed."""

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold <= 1.0:
            raise InputError(f"found {self.threshold}, expected above 0 and at most 1", field="threshold")

    def unsupported(self, problem: Problem) -> str | None:
        if problem.network.latency_ms is None and len(problem.sites) > 1:
            return "it states no latency_ms between its sites"
        return why_no_matrix(problem.network.latency_ms)

    def params(self, channel_ms: float, seed: int = 0) -> OverlayParams:
        kept = KeptPlans(most=self.most_plans, drawn_by=seed if self.choice == "random" else None)
        search = SearchParams(self.k, self.candidates, kept, channel_ms)
        return OverlayParams(search, stores_plans=False)

    def place(self, problem: Problem, context: Context) -> Placement:
        requests, run, rejected = self.registered(problem, context)
        return _placement(problem, context, requests, run.whereabouts(), rejected)

    def registered(
        self, problem: Problem, context: Context
    ) -> tuple[OverlayRequests, OverlayRun, dict[int, str]]:
        """The sites after all queries have been registered, and why some were rejected."""
        requests = OverlayRequests(problem, context, self.threshold, self.counts == "everything")
        seed = int(context.rng.integers(2**31)) if self.choice == "random" else 0
        run = OverlayRun(
            as_matrix(requests.latency_ms),
            requests.usable_cores,
            requests.memory_mb,
            self.params(problem.network.hop_ms, seed),
            context.rng,
            hosted=requests.hosted(),
            deadline=context.deadline,
        )
        return requests, run, self._register(requests, run, context)

    def _register(self, requests: OverlayRequests, run: OverlayRun, context: Context) -> dict[int, str]:
        """Query -> why it was rejected."""
        rejected: dict[int, str] = {}
        moves_left = context.max_moves
        todo = requests.wanted()
        for attempt in range(1 + max(self.retries, 0)):
            again: list[Wanted] = []
            for done, wanted in enumerate(todo):
                context.progress(done / len(todo), "again" if attempt else "registering queries")
                if context.deadline.expired:
                    if not wanted.running:
                        rejected.setdefault(wanted.query, NO_TIME)
                    continue
                outcome, _ = run.register(wanted.site, requests.request(wanted, moves_left))
                if isinstance(outcome, Admitted):
                    rejected.pop(wanted.query, None)
                    moves_left = None if moves_left is None else moves_left - outcome.moves
                elif not wanted.running:
                    rejected[wanted.query] = in_words(requests, wanted, outcome)
                    again.append(wanted)
            todo = again
            if not todo:
                break
        return rejected


def _placement(
    problem: Problem,
    context: Context,
    requests: OverlayRequests,
    whereabouts: Mapping[int, int],
    rejected: Mapping[int, str],
) -> Placement:
    """What the protocol has placed; what no query needs and found no room below the threshold goes where it
    does least harm."""
    reasons = {problem.queries[q].name: why for q, why in rejected.items() if q < len(problem.queries)}
    if reasons and len(reasons) == len(problem.queries):
        untried = sum(why == NO_TIME for why in reasons.values())
        if untried:
            raise InfeasibleError(
                f"the time budget was spent when {len(reasons) - untried:,} of {len(reasons):,} queries had "
                "been tried, and none of them was admitted",
                remedy="allow more time, or choose another policy",
            )
        first = next(iter(reasons))
        raise InfeasibleError(
            f"no query can be admitted; {first!r}: {reasons[first]}", remedy="raise limits or add capacity"
        )
    left = without_queries(problem, reasons)
    index = {name: f for f, name in enumerate(problem.fragment_names)}
    sites = np.array([whereabouts.get(index[name], -1) for name in left.fragment_names], dtype=np.int64)
    return Placement(left, _completed(problem, context, left, sites, requests.needs_cores), reasons)


def _completed(problem: Problem, context: Context, left: Problem, sites: Ints, needs_cores: Floats) -> Ints:
    model, index = context.load, {name: f for f, name in enumerate(problem.fragment_names)}
    limits, used = SiteLimits(model), np.zeros(model.site_count)
    rows = [index[name] for name in left.fragment_names]
    for row, site in zip(rows, sites.tolist(), strict=True):
        if site >= 0:
            limits.take(row, site)
            used[site] += needs_cores[row]
    for k, row in enumerate(rows):
        if sites[k] < 0:
            allowed = np.flatnonzero(limits.allowed(row))
            if not len(allowed):
                raise no_room(model, row, limits.capacity_left_cores, limits.memory_left_mb, problem)
            share = (used[allowed] + needs_cores[row]) / model.capacity_cores[allowed]
            sites[k] = allowed[np.argmin(share)]
            limits.take(row, int(sites[k]))
            used[sites[k]] += needs_cores[row]
    return sites


UNITS = {"cores": "cores", "memory_mb": "MB"}


def in_words(requests: OverlayRequests, wanted: Wanted, rejected: Rejected) -> str:
    """Why a query was rejected: which limit, which resource, and by how much."""
    obstacle = rejected.obstacle
    match obstacle.resource:
        case "limit":
            return _late(requests, wanted, obstacle)
        case "answers":
            return f"{obstacle.best:.0f} sites did not answer"
        case "moves":
            return "every plan for it takes more moves than are left"
    unit = UNITS[obstacle.resource]
    operator = requests.problem.fragment_names[obstacle.operator]
    best = max(obstacle.best, 0.0)
    if best >= obstacle.needed:
        return (
            f"operator {operator!r} needs {decimal(obstacle.needed)} {unit}, and no site with that much left "
            "has room for the operators that must be placed with it"
        )
    return (
        f"operator {operator!r} needs {decimal(obstacle.needed)} {unit}; no site near its streams and its "
        f"query has more than {decimal(best)} left below the threshold, "
        f"{decimal(obstacle.needed - best)} {unit} short"
    )


def _late(requests: OverlayRequests, wanted: Wanted, obstacle: Obstacle) -> str:
    network = requests.problem.network
    by_ms, entry_ms = obstacle.best - obstacle.needed, network.entry_ms
    best = f"the best plan takes {milliseconds(obstacle.best + entry_ms)}, {milliseconds(by_ms, 3)} too long"
    if network.trigger_s > 0.0:
        best += f" (with a trigger of {network.trigger_s:g} s)"
    limit = milliseconds(obstacle.needed + entry_ms)
    if obstacle.query == wanted.query:
        return f"its limit is {limit}, and {best}"
    other = requests.query_name(obstacle.query)
    shares = f"query {other!r}, which shares operators with it"
    return f"{shares}, has a limit of {limit}, and {best}"
