"""`overlay-central`: takes the place of the overlays' sites, with all observations in one place (section
3.4).

Plans are stored ahead, a few operators' at every look while nothing is wrong. When a query's limit breaks or
a site is too full, the stored plan is taken that mends it at the least bandwidth and harms no other query; it
is checked against what is observed now before it is proposed. When rates have changed for good, new plans are
made, and one that saves bandwidth is proposed. Several troubles are mended in one proposal where their plans
affect different queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mooring.algorithms.overlay.requests import OverlayRequests
from mooring.algorithms.overlay.search.ahead import KnownLatencies
from mooring.algorithms.overlay.search.final_plans import FinalPlan, PlanStore
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS, Candidates
from mooring.algorithms.overlay.search.plan_choice import (
    CongestedLink,
    KnownQueries,
    PlanNeed,
    improving,
    recovering,
    relieving,
)
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, SharedOperator
from mooring.algorithms.overlay.search.similar_plans import KeptPlans
from mooring.algorithms.overlay.search.stored_plans import StoredPlans
from mooring.algorithms.overlay.settings import OverlaySettings
from mooring.algorithms.replan.decider import SeenWorld
from mooring.arrays import Floats, Ints
from mooring.contracts.decider import DeciderWish, Proposal, ProposedMove
from mooring.contracts.picture import Picture
from mooring.contracts.policy import Context
from mooring.model.deployment.moves import Move
from mooring.model.placement.network_metrics import ways_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.latencies import as_matrix, both_ways, why_no_matrix
from mooring.quantity import milliseconds

Moves = tuple[tuple[int, int], ...]
"""Of one plan: fragments and where they go."""


@dataclass(frozen=True)
class OverlayOptions:
    candidates: int = 7
    """Sites per operator that plans try."""
    threshold: float = 0.95
    """The share of a site's capacity that plans use at the most."""
    kept: KeptPlans = field(default_factory=lambda: KeptPlans(most=32))
    ahead_per_look: int = 30
    """Operators whose plans are stored at a look at which nothing is wrong: with 10,000 fragments that takes
    half a second."""
    most_tried: int = 16
    """Stored plans that are checked for one trouble, those best for the bandwidth first."""
    least_saving: float = 10_000.0
    """Bytes per second that a plan has to save where nothing is wrong, as for the machines; guards weigh it
    against the queries that it touches."""
    changed: float = 0.2
    """Rates, capacities and latencies that differ by this share are another world: plans are made anew."""


class OverlayDecider:
    name: ClassVar[str] = "overlay-central"

    def __init__(self, options: OverlayOptions | None = None, seed: int = 0) -> None:
        self._options, self._seed = options or OverlayOptions(), seed
        self._stock: _Stock | None = None

    def decide(self, picture: Picture) -> Proposal:
        now = picture.predict(picture.sites, in_full=True)
        if picture.problem.network.latency_ms is None:
            return Proposal(
                now, (), "overlay plans need latencies between the sites, and the problem has none"
            )
        if (reason := why_no_matrix(picture.problem.network.latency_ms)) is not None:
            return Proposal(now, (), f"overlay cannot place this problem: {reason}")
        world = SeenWorld.of(picture)
        if self._stock is None or not np.array_equal(self._stock.sites, picture.sites):
            self._stock = _Stock(picture, world, self._options, self._seed)
        look = _Look(picture, self._stock, self._options)
        plans, reasons = look.mended()
        violation = bool(plans)
        if not plans and not look.troubles and self._stock.world.differs(world, self._options.changed):
            # Nothing is wrong, and it is another world: this is the time to make plans for it.
            self._stock = _Stock(picture, world, self._options, self._seed)
            look = _Look(picture, self._stock, self._options)
        if not plans and not look.troubles:
            self._stock.prepare_some()
            plans, reasons = look.improved()
        if not plans:
            return Proposal(now, (), look.why_not())
        steps = tuple(_steps(picture, [move for plan in plans for move in plan]))
        sizes = tuple(len(plan) for plan in plans)
        return Proposal(now, steps, "; ".join(reasons), plans=sizes, violation=violation)


class _Stock:
    """Plans made ahead, for one placement, and the world they were made in."""

    def __init__(self, picture: Picture, world: SeenWorld, options: OverlayOptions, seed: int) -> None:
        self.sites, self.world = picture.sites.copy(), world
        context = Context(picture.model, np.random.default_rng(seed), current=picture.placement)
        self.requests = OverlayRequests(picture.problem, context, options.threshold, counts_ends=True)
        hosted = self.requests.hosted()
        operators = [own.operator for _, own in hosted]
        at = {own.operator.operator: site for site, own in hosted}
        latency_ms = self.requests.latency_ms
        self.latency_ms = as_matrix(both_ways(latency_ms))
        used = np.bincount(
            [at[own.operator] for own in operators], [own.cores for own in operators], len(latency_ms)
        )
        self._cores_left = self.requests.usable_cores - used
        self._movable, self._options = picture.movable & ~picture.lost[picture.sites], options
        self._lost = picture.lost
        self.plans = StoredPlans(
            operators,
            at,
            KnownLatencies(self.latency_ms),
            self._candidates,
            options.kept,
            picture.problem.network.hop_ms,
        )
        self.store = PlanStore()
        self._todo = list(self.plans.own)

    def prepare_some(self) -> None:
        for operator in self._todo[: self._options.ahead_per_look]:
            self.store.replace(operator, self.plans.of(operator))
        self._todo = self._todo[self._options.ahead_per_look :]

    def prepare_for(self, queries: Iterable[int]) -> None:
        """Whatever was not stored yet of the operators of some queries."""
        wanted = set(queries)
        now = [o for o in self._todo if wanted & set(self.plans.queries[o])]
        for operator in now:
            self.store.replace(operator, self.plans.of(operator))
        self._todo = [operator for operator in self._todo if operator not in set(now)]

    def _candidates(self, own: SharedOperator) -> Candidates:
        """Where it is, and the sites with room nearest to where its input comes from and its output goes."""
        home = self.plans.at[own.operator]
        if not self._movable[own.operator] or own.pinned_site != NOWHERE:
            sites = np.array([home])
        else:
            ends = [self.plans.at[p] for p in own.publishers] + [source.site for source in own.sources]
            ends += [self.plans.at[r] for r in self.plans.readers[own.operator]]
            ends += [end.site for end in own.ends if end.site != NOWHERE]
            far_ms = self.latency_ms[:, ends or [home]].sum(axis=1)
            far_ms[(self._cores_left < own.cores) | self._lost] = np.inf
            order = np.argsort(far_ms, kind="stable")[: self._options.candidates]
            sites = np.union1d(order[np.isfinite(far_ms[order])], [home])
        return Candidates(sites, self._cores_left[sites], self.requests.memory_mb[sites])


class _Look:
    """What is wrong at one look, and what the stored plans can do about it."""

    def __init__(self, picture: Picture, stock: _Stock, options: OverlayOptions) -> None:
        self._picture, self._stock, self._options = picture, stock, options
        problem = picture.problem
        self._limits = np.array(
            [np.inf if q.max_latency_ms is None else q.max_latency_ms for q in problem.queries]
        )
        self._latency_ms = self._latencies(picture.sites)
        late_ms = np.array([picture.late_ms.get(q.name, -np.inf) for q in problem.queries])
        # What was measured counts where it is more: batches and queues take time too.
        self._latency_ms = np.maximum(self._latency_ms, np.where(late_ms > 0.0, self._limits + late_ms, 0.0))
        self._late = np.flatnonzero(self._latency_ms > self._limits + LATENCY_SLACK_MS).tolist()
        self._late.sort(key=lambda q: float(self._limits[q] - self._latency_ms[q]))
        loads = picture.model.site_loads(picture.sites, picture.low_rates)
        self._short = loads - options.threshold * picture.model.capacity_cores
        self._full = np.flatnonzero(self._short > 0.0).tolist()

    @property
    def troubles(self) -> int:
        return len(self._late) + len(self._full)

    def why_not(self) -> str:
        names = [self._picture.problem.queries[q].name for q in self._late[:3]]
        names += [self._picture.problem.sites[s].name for s in self._full[:3]]
        if not names:
            return "all queries meet their limits, and no site is over its threshold"
        return f"no stored plan repairs {', '.join(names)}"

    def mended(self) -> tuple[list[Moves], list[str]]:
        """Plans for as many troubles as have some that do not affect a common query."""
        chosen, reasons, touched = list[Moves](), list[str](), set[int]()
        self._stock.prepare_for(self._late)
        for trouble, plans, what in self._troubles():
            if trouble in touched:
                continue
            plan = self._best(plans, {o: to for moves in chosen for o, to in moves}, trouble)
            if plan is None:
                continue
            affected = {q for operator, _ in plan.moves for q in self._stock.plans.queries[operator]}
            if affected & touched:
                continue
            chosen.append(plan.moves)
            touched |= affected
            reasons.append(what)
        return chosen, reasons

    def improved(self) -> tuple[list[Moves], list[str]]:
        known = self._known(PlanNeed(-1, 0.0, 0.0))
        found = improving(self._stock.store.plans(), self._options.least_saving, known)
        plan = self._best(found, {})
        if plan is None:
            return [], []
        return [plan.moves], [f"a stored plan saves {-plan.bandwidth_change:,.0f} bytes/s"]

    def _troubles(self) -> Iterator[tuple[int, Iterable[FinalPlan], str]]:
        problem = self._picture.problem
        for query in self._late:
            need = self._need(query)
            over_ms, name = need.latency_ms - need.limit_ms, problem.queries[query].name
            what = f"query {name!r} exceeds its limit by {milliseconds(over_ms)}; a stored plan meets it"
            yield query, recovering(self._stock.store, need, self._known(need)), what
        for site in self._full:
            here = [o for o, at in self._stock.plans.at.items() if at == site]
            self._stock.prepare_for(q for o in here for q in self._stock.plans.queries[o])
            cores, at = self._stock.requests.needs_cores, self._stock.plans.at
            plans = (plan for operator in here for plan in self._stock.store.of(operator))
            known = self._known(PlanNeed(-1, 0.0, 0.0))
            short = float(self._short[site])
            relieved = relieving(plans, site, short, cores.tolist().__getitem__, at.__getitem__, known)
            yield (
                -1 - site,
                relieved,
                f"site {problem.sites[site].name} is over its threshold; a stored plan relieves it",
            )

    def _need(self, query: int) -> PlanNeed:
        """With the links on its way that take longer than when the plans were made."""
        then, now = self._stock.latency_ms, self._now_ms()
        hops = [(min(a, b), max(a, b)) for a, b in self._hops(query, {})]
        congested = tuple(
            CongestedLink(a, b, float(now[a, b] - then[a, b]), hops.count((a, b)))
            for a, b in sorted(set(hops))
            if now[a, b] > then[a, b] + LATENCY_SLACK_MS
        )
        return PlanNeed(query, float(self._latency_ms[query]), float(self._limits[query]), congested)

    def _known(self, need: PlanNeed) -> KnownQueries:
        slack = {q: float(self._limits[q] - ms) for q, ms in enumerate(self._latency_ms.tolist())}
        pairs = [(link.a, link.b) for link in need.congested]
        plans = self._stock.plans
        sharing = {
            query
            for operator, own in plans.own.items()
            if pairs
            for publisher in own.publishers
            if tuple(sorted((plans.at[publisher], plans.at[operator]))) in pairs
            for query in plans.queries[operator]
        }
        return KnownQueries(slack, lambda plan: self._hops(need.query, dict(plan.moves)), frozenset(sharing))

    def _hops(self, query: int, moved: dict[int, int]) -> Iterator[tuple[int, int]]:
        plans = self._stock.plans
        at = plans.at | moved
        for operator, queries in plans.queries.items():
            if query in queries:
                own = plans.own[operator]
                yield from ((at[p], at[operator]) for p in own.publishers)
                yield from ((source.site, at[operator]) for source in own.sources)
                yield from ((at[operator], end.site) for end in own.ends if end.query == query)

    def _now_ms(self) -> Floats:
        stated = self._picture.problem.network.latency_ms
        assert stated is not None
        return as_matrix(both_ways(stated))

    def _latencies(self, sites: Ints) -> Floats:
        placement = Placement(self._picture.problem, sites)
        return np.asarray(ways_ms(placement))

    def _best(self, plans: Iterable[FinalPlan], made: dict[int, int], trouble: int = -1) -> FinalPlan | None:
        """The plan best for the bandwidth that holds by what is observed now, with moves already chosen; a
        query that it is for has to be within its limit then."""
        ranked = sorted(plans, key=lambda each: (each.bandwidth_change, len(each.moves), each.moves))
        for plan in ranked[: self._options.most_tried]:
            if not made.keys() & dict(plan.moves).keys() and self._holds(made | dict(plan.moves), trouble):
                return plan
        return None

    def _holds(self, moves: dict[int, int], trouble: int) -> bool:
        picture, model = self._picture, self._picture.model
        sites = picture.sites.copy()
        sites[list(moves)] = list(moves.values())
        if not np.all(picture.movable[list(moves)]) or np.any(picture.lost[list(moves.values())]):
            return False
        before, after = (model.site_loads(each, picture.rates) for each in (picture.sites, sites))
        allowed = np.maximum(self._options.threshold * model.capacity_cores, before)
        memory_mb = np.bincount(sites, model.memory_mb, model.site_count)
        if np.any(after > allowed + 1e-9) or np.any(memory_mb > model.memory_limit_mb):
            return False
        allowed_ms = np.maximum(self._limits, self._latency_ms)
        if trouble >= 0:
            allowed_ms[trouble] = self._limits[trouble]
        then_ms = self._latency_ms + self._latencies(sites) - self._latencies(picture.sites)
        return bool(np.all(then_ms <= allowed_ms + LATENCY_SLACK_MS))


def _steps(picture: Picture, moves: list[tuple[int, int]]) -> Iterator[ProposedMove]:
    sites, problem = picture.sites.copy(), picture.problem
    for fragment, to in moves:
        origin = problem.sites[sites[fragment]].name
        sites[fragment] = to
        move = Move(problem.fragment_names[fragment], origin, problem.sites[to].name)
        yield ProposedMove(move, picture.predict(sites, in_full=True))


def decider(wish: DeciderWish) -> OverlayDecider:
    if wish.options is None:
        return OverlayDecider(seed=wish.seed)
    set_by_hand: OverlaySettings = wish.options
    options = OverlayOptions(candidates=set_by_hand.candidates, least_saving=set_by_hand.least_saving)
    return OverlayDecider(options, wish.seed)
