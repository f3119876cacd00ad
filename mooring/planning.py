"""The story in one page: problem -> load model -> placement -> verdict.

Every front end (the command line, notebooks, a run on Spark) comes through here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, log

from msgspec import UNSET

from mooring.algorithms.catalogue import make_policy
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.contracts.policy import Policy, place
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.model.bounds.log_bound import log_upper_bound
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.evaluation.explanation import Explanation, Subject, explain
from mooring.model.evaluation.metrics import HeadroomMetric, Metrics, evaluate_placement, headroom_metric
from mooring.model.evaluation.network_explanation import NetworkExplanation
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.log_volume import LogEstimate
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.placement_file import SomePlacement, SomeProblem, placement_of, problem_of
from mooring.model.placement.signatures import shared_operators
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.progress import Report, silent


@dataclass(frozen=True, repr=False)
class Plan:
    """A placement, and the reasons to believe in it, which are worked out when they are asked for."""

    problem: Problem
    policy: str
    about: Subject
    placement: Placement
    model: LoadModel = field(repr=False)
    seed: int = 0
    thorough: bool = False
    """Whether what takes longer than planning is computed for large problems too."""

    def __repr__(self) -> str:
        problem = self.placement.problem
        return f"Plan({self.policy}: {len(problem.operators)} operators on {len(problem.sites)} sites)"

    @cached_property
    def metrics(self) -> Metrics:
        return evaluate_placement(self.model, self.placement, seed=self.seed)

    @cached_property
    def bound(self) -> float | None:
        """No placement of this problem has a larger feasible ratio; None where it is too small a number."""
        if self.metrics.feasible_ratio_log10 is UNSET:
            return upper_bound(self.model, self.placement.site_of_fragment)
        return 0.0 if self.bound_log10 is None else LogEstimate.of_log10(self.bound_log10).number

    @cached_property
    def bound_log10(self) -> float | None:
        """Its logarithm, where there are so many variables that the ratio is given as one."""
        if self.metrics.feasible_ratio_log10 is UNSET:
            return None
        reached = self.metrics.feasible_ratio_log10
        bound = log_upper_bound(self.model, self.seed) / log(10.0)
        return max(bound, reached) if isinstance(reached, float) else bound if isfinite(bound) else None

    @cached_property
    def explanation(self) -> Explanation:
        return explain(
            self.about, self.model, self.placement, self.metrics, self.seed, thorough=self.thorough
        )

    def document(self, plan_seconds: float) -> dict[str, object]:
        """The plan as its readers know it; `replicas` is reserved beside `placement`."""
        bounds = {"bound_log10": self.bound_log10, "network_usage_bound": self.network_usage_bound}
        return {
            "version": 1,
            "problem": fingerprint(self.problem),
            "policy": self.policy,
            "placement": self.placement.as_dict(),
            "shared": self.shared,
            "rejected": dict(self.rejected),
            "metrics": self.metrics.as_json(),
            "bound": self.bound,
            **{name: bound for name, bound in bounds.items() if bound is not None},
            "plan_seconds": plan_seconds,
            "explanation": list(self.explanation.sentences),
        }

    @property
    def network_usage_bound(self) -> float | None:
        """No placement has fewer bytes in flight. Of policies that are about the network, where sizes are
        known."""
        why = self.explanation
        return why.least if isinstance(why, NetworkExplanation) and why.unit == "B" else None

    @property
    def rejected(self) -> Mapping[str, str]:
        """Queries that the policy turned away, each with the reason; the placement is that of the rest."""
        return self.placement.rejected

    @cached_property
    def shared(self) -> dict[str, str]:
        """Operators that need not run, and the one at the same site that computes the same for each."""
        return shared_operators(self.placement)


def plan(
    problem: SomeProblem,
    policy: str | Policy = "rod",
    *,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    steps: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    progress: Report = silent,
    current: SomePlacement | None = None,
    max_moves: int | None = None,
    thorough: bool = False,
) -> Plan:
    """Place a problem's operators and judge the result.

    `thorough`: judge with what is left out of large problems.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
    ...     "streams": {"x": {"rate": 100}, "y": {"rate": 100}},
    ...     "operators": {
    ...         "x1": {"inputs": ["x"], "cost_us": 50}, "x2": {"inputs": ["x"], "cost_us": 50},
    ...         "y1": {"inputs": ["y"], "cost_us": 50}, "y2": {"inputs": ["y"], "cost_us": 50},
    ...     },
    ... })
    >>> round(plan(problem, "rod").metrics.feasible_ratio, 3)
    1.0
    """
    problem = problem_of(problem)
    current = None if current is None else placement_of(current, problem)
    chosen = make_policy(policy, settings or {}) if isinstance(policy, str) else policy
    placement, model = place(
        chosen,
        problem,
        seed=seed,
        steps=steps,
        deadline=deadline,
        progress=progress,
        current=current,
        max_moves=max_moves,
    )
    return Plan(problem, chosen.name, chosen.about, placement, model, seed, thorough)


def evaluate(
    problem: SomeProblem, placement: SomePlacement, *, points: int | None = None, seed: int = 0
) -> Metrics:
    """The metrics of any placement of the problem; where it leaves out queries, of the rest.

    `points`: how many combinations of rates are looked at.
    """
    problem = problem_of(problem)
    placement = placement_of(placement, problem)
    judged = placement.problem if placement.rejected else problem
    return evaluate_placement(build_load_model(judged), placement, points=points, seed=seed)


def compare(
    problem: SomeProblem,
    policies: Sequence[str],
    *,
    seed: int = 0,
    progress: Report = silent,
) -> dict[str, Plan | str]:
    """Several policies on one problem; a policy that refuses or finds nothing is reported in words."""
    problem = problem_of(problem)
    results: dict[str, Plan | str] = {}
    for done, name in enumerate(policies):
        progress(done / len(policies), name)
        try:
            results[name] = plan(problem, name, seed=seed)
        except (UnsupportedError, InfeasibleError) as error:
            results[name] = str(error)
    progress(1.0, "done")
    return results


def headroom(problem: SomeProblem, placement: SomePlacement) -> HeadroomMetric:
    """By what factor all rates, and each stream's alone, can grow before which site saturates."""
    problem = problem_of(problem)
    placement = placement_of(placement, problem)
    judged = placement.problem if placement.rejected else problem
    return headroom_metric(build_load_model(judged), placement)
