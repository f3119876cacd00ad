"""Policy `resilient`: search for the plan with the largest feasible set, where ROD takes one greedy pass.

It starts from the best of several greedies (ROD's among them, so it never does worse), all of them improved
on a cheap surrogate of the volume, and anneals the best on the volume itself: hot on few directions, where
mistakes are cheap, then cold on many, where they would be fitted to. The candidates are judged in the end on
directions that no search has seen. The objective is a parameter of its own: see `objective`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from mooring.algorithms.resilient.annealing import Annealer, MoveRules
from mooring.algorithms.resilient.budget import Budget, Used
from mooring.algorithms.resilient.reoptimisation import improve_running
from mooring.algorithms.resilient.starts import best_of, greedy_plans
from mooring.arrays import Ints
from mooring.contracts.policy import Context
from mooring.errors import UnsupportedError
from mooring.model.bounds.upper_bound import root_bound
from mooring.model.evaluation.bounded_rates import VolumeBelow, upper_bounds
from mooring.model.evaluation.explanation import Subject
from mooring.model.goals.rules import RuleBook
from mooring.model.load.feasible.directions import MANY_VARIABLES
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.objective import Objective, Volume
from mooring.model.rate_scenarios.rate_samples import SurvivedSamples
from mooring.model.rate_scenarios.robust import Robust
from mooring.model.rate_scenarios.scenarios import Scenarios
from mooring.model.rate_scenarios.true_rate_space import TrueVolume, degree

Goal = Literal["auto", "linear", "true", "below_max_rates", "history"]
CLOSE_ENOUGH = 0.998
"""Of the upper bound: a search that has come this far stops."""
MOST_CELLS = 40_000_000
"""Numbers (rows x powers x scenarios) that a search keeps, 4 bytes each."""
MOST_DRAWN = 2**24
"""Scenarios x variables that are drawn at once."""
LEAST_SCENARIOS = 64
ENOUGH_FOR = 10
"""Variables up to which the numbers of scenarios stated are enough; the volume hangs on ever fewer directions
as variables are added."""
LARGE = 500
"""Fragments up to which annealing starts hot."""
RESTARTED, MOST_RESTARTS = 60, 6
"""A few fragments are cooled through in a fraction of a second: the budget is then shared by several
coolings, since the best of six does better than one six times as long (by .9% at 25 fragments; at 50 one
long cooling is better). Their number falls with the square of the fragments; from 60 / sqrt(2) on there is
one."""
PROBING = 0.1
"""The part of a budget in seconds that looking for the first temperature may take."""
AGREED = 3
"""Coolings that end at the same best value, after which the search stops: nothing better is likely."""


@dataclass(frozen=True)
class Resilient:
    """Policy `resilient`. Anytime: a budget in seconds, or steps for results that repeat exactly."""

    name: ClassVar[str] = "resilient"
    about: ClassVar[Subject] = "resilience"

    objective: Goal = "auto"
    """Objective: the linearised feasible set (`linear`), the true one in rate space (`true`), the part of
    the ideal set below the streams' `max_rate` (`below_max_rates`), or the share of past rates without
    overload (`history`). `auto`: `true` where joins make it differ, else `linear`. A selectivity that varies
    does so in all of them but `history`, where the past decides."""
    error: float | None = None
    """Relative error of costs and selectivities, 0 to 1; None: what the operators state. Above zero the
    plan is made for draws of the truth instead of the statistics as measured (section 7.3.6)."""
    scenarios: int = 1024
    """Directions of the cold phase up to ten variables, growing with their square beyond. At ten streams 128
    to 256 overfit, and 4096 only cost time; at fifty, a search along 1024 of them made the set it saw twice
    as large and the true one a third."""
    coarse_scenarios: int = 256
    """Directions of the hot phase, likewise."""
    default_steps: int = 1_000_000
    """Steps (candidates looked at) where neither a budget nor steps are given: about a second. In true rate
    space a step takes several times as long, and there are as many fewer."""
    hot_acceptance: float = 0.15
    """The share of candidates accepted at the temperature where annealing begins."""
    cooling: float = 150.0
    """Hottest temperature over coldest."""
    hot_share: float = 0.55
    """The part of the budget spent on the coarse scenarios."""
    move_worth: float | None = None
    """With a running placement: the relative gain that moving a fragment without state has to bring. None:
    a tenth of one fragment's share of all (0.1% with a hundred fragments), because a move pauses that
    share; never below the noise of the directions."""
    reserve: float = 0.03
    """The share of every site that is left free at the present rates, where that is possible; with little
    free in all, half of that."""
    state_mb: float = 64.0
    """Megabytes of state that make a move cost as much again: heavy state stays, light operators move."""

    def unsupported(self, problem: Problem) -> str | None:
        if self.objective == "history" and problem.history is None:
            return "objective=history needs the streams' past rates (`rates: FILE.csv`)"
        if self.objective == "below_max_rates" and all(s.max_rate is None for s in problem.streams):
            return "objective=below_max_rates needs a `max_rate` on some stream"
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        model = context.load
        book = RuleBook(model, problem, self.reserve)
        objective = self.objective_for(problem, model)
        if context.current is not None:
            sites = improve_running(self, problem, model, objective, context, book)
            return Placement(problem, sites)
        plans = greedy_plans(problem, context, book)
        judge = _Judge(objective, book)
        can_search = len(model.active) and (model.pinned_site < 0).any() and model.site_count > 1
        if can_search and not context.deadline.expired:
            plans = self._search(model, judge, plans, context)
        return Placement(problem, max(plans, key=judge.rank))

    def count_for(self, model: LoadModel, wanted: int) -> int:
        """As many scenarios as wanted for ten variables, more for more, or as many as fit in memory."""
        variables = max(len(model.active), 1)
        # Levels are raised to no higher power than that, so more variables ask for no more.
        wanted = round(wanted * max(1.0, min(variables, MANY_VARIABLES) / ENOUGH_FOR) ** 2)
        rows = max(model.fragment_count + len(model.arcs.source_site) * (model.arcs.comm_us > 0.0), 1)
        return int(max(LEAST_SCENARIOS, min(wanted, MOST_CELLS // rows, MOST_DRAWN // variables)))

    def objective_for(self, problem: Problem, model: LoadModel) -> Objective:
        """What is maximised."""
        stated = np.array([operator.error for operator in problem.operators])
        errors = stated if self.error is None else np.full(len(stated), self.error)
        if self.objective == "history" and problem.history is not None:
            return SurvivedSamples(model, problem.history.rates)
        if self.objective == "below_max_rates":
            return VolumeBelow(model, upper_bounds(problem, model))
        if self.objective == "true" or (self.objective == "auto" and model.bends):
            if TrueVolume.supports(model):
                return TrueVolume(model)
            if self.objective == "true":
                raise UnsupportedError(
                    "the true feasible set cannot be searched: it is the linear one, unbounded, or of too"
                    " high a degree",
                    remedy="use objective=linear",
                )
        if (errors > 0.0).any():
            return Robust(problem, model, errors)
        return Volume(model)

    def _search(self, model: LoadModel, judge: _Judge, plans: list[Ints], context: Context) -> list[Ints]:
        """Anneal the best plan; returns ROD's (or the first) and what the search found."""
        objective = judge.objective
        rules = MoveRules.fresh(model)
        # What many variables are searched by is no ratio, and has no bound.
        bound = root_bound(model) if len(model.active) <= MANY_VARIABLES else np.inf
        found = [plans[0]]
        powers = degree(model) if isinstance(objective, TrueVolume) else 0
        times = self._restarts(rules)
        ends: list[float] = []
        budget = Budget.of(context, self.default_steps // (1 + 4 * powers))
        for number in range(times):
            part = _Part(budget, context.progress, number / times, (number + 1) / times)
            found += self._anneal_once(judge.book, objective, rules, plans, part, context)
            ends.append(judge(found[-1]))
            if ends[-1] >= CLOSE_ENOUGH * bound or _settled(ends):
                break
        return found

    def _restarts(self, rules: MoveRules) -> int:
        return int(np.clip((RESTARTED / max(len(rules.free), 1)) ** 2, 1, MOST_RESTARTS))

    def _anneal_once(
        self,
        book: RuleBook,
        objective: Objective,
        rules: MoveRules,
        plans: list[Ints],
        part: _Part,
        context: Context,
    ) -> list[Ints]:
        """The best plan to start from and what one cooling makes of it, hot on few directions, then cold on
        many."""
        model = book.model
        coarse = objective.scenarios(self.count_for(model, self.coarse_scenarios), context.rng)
        start = best_of(book, coarse, plans)
        hot = self._hot_temperature(book, coarse, rules, start, context)
        middle = hot * self.cooling**-self.hot_share
        annealer = Annealer(model, coarse, rules, start, context.rng, book)
        first, second = part.stretch(0.0, self.hot_share), part.stretch(self.hot_share, 1.0)
        annealer.run(hot, middle, first.used(), first.reports("annealing on few directions"))
        if context.deadline.expired:
            return [start, annealer.best]
        fine = objective.scenarios(self.count_for(model, self.scenarios), context.rng)
        plans_so_far = [start, annealer.sites, annealer.best]
        annealer = Annealer(model, fine, rules, best_of(book, fine, plans_so_far), context.rng, book)
        cold = hot / self.cooling
        annealer.run(middle, cold, second.used(), second.reports("annealing on many directions"))
        return [start, annealer.best]

    def _hot_temperature(
        self, book: RuleBook, scenarios: Scenarios, rules: MoveRules, start: Ints, context: Context
    ) -> float:
        """The temperature at which the wanted share of candidates is accepted, by halving; where that takes
        more than its part of the budget, the coldest."""
        # A large plan is never cooled through in seconds: it starts nearly cold, from where the surrogate
        # left it.
        wanted = self.hot_acceptance * min(1.0, LARGE / book.model.fragment_count) ** 2
        temperature = 0.3
        latest = context.deadline.share_spent + PROBING
        while temperature > 1e-6:
            if context.deadline.share_spent > latest:
                return 1e-6
            probe = Annealer(book.model, scenarios, rules, start, context.rng, book)
            if probe.acceptance(temperature) <= wanted:
                break
            temperature /= 1.6
        return temperature


def _settled(ends: list[float]) -> bool:
    """Whether several coolings ended at the best value: another would hardly end elsewhere."""
    return sum(value >= max(ends) * (1.0 - 1e-9) for value in ends) >= AGREED


@dataclass(frozen=True, eq=False)
class _Judge:
    """An objective's judge, which receives no plan twice."""

    objective: Objective
    book: RuleBook
    known: dict[bytes, float] = field(default_factory=dict)

    def __call__(self, site_of_fragment: Ints) -> float:
        key = np.asarray(site_of_fragment, dtype=np.int64).tobytes()
        if key not in self.known:
            self.known[key] = self.objective.judge(site_of_fragment)
        return self.known[key]

    def rank(self, site_of_fragment: Ints) -> tuple[float, float]:
        """Rules come first, then the value."""
        return -self.book.broken(site_of_fragment), self(site_of_fragment)


@dataclass(frozen=True)
class _Part:
    """The share of a budget that one cooling has, or one stretch of it."""

    budget: Budget
    progress: Callable[[float, str], None]
    begin: float
    end: float

    def at(self, share: float) -> float:
        """Where in the whole budget this share of the part is used up."""
        return self.begin + (self.end - self.begin) * share

    def stretch(self, begin: float, end: float) -> _Part:
        return replace(self, begin=self.at(begin), end=self.at(end))

    def used(self) -> Used:
        return self.budget.part(self.begin, self.end)

    def reports(self, what: str) -> Callable[[float], None]:
        """Takes the share of this part that is done, and tells of the whole."""
        return lambda done: self.progress(self.at(done), what)
