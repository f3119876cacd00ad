"""The story in one page: problem -> load model -> placement -> verdict.

Every front end (the command line, notebooks, a run on Spark) comes through here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, log
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from mooring.algorithms.catalogue import POLICIES, policy_of
from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.contracts.policy import Policy, place
from mooring.errors import InfeasibleError, UnsupportedError
from mooring.figure_style import colour_of
from mooring.model.bounds.log_bound import log_upper_bound
from mooring.model.bounds.upper_bound import upper_bound
from mooring.model.evaluation.explanation import Explanation, Subject, explain
from mooring.model.evaluation.metrics import HeadroomMetric, Metrics, evaluate_placement, headroom_metric
from mooring.model.evaluation.network_explanation import NetworkExplanation
from mooring.model.goals.overload import PresentOverload, overload_of
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.log_volume import LogEstimate
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.placement_file import SomePlacement, SomeProblem, placement_of, problem_of
from mooring.model.placement.signatures import shared_operators
from mooring.model.problem.fingerprint import fingerprint
from mooring.model.problem.problem import Problem
from mooring.notebook import Cell, bars, data_frame, html_table, save_json
from mooring.progress import Report, silent

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_NAMES = 8
"""Fragments of a site that a table names."""
_COMPARED = (
    "feasible_ratio",
    "feasible_ratio_log10",
    "true_feasible_ratio",
    "plane_distance",
    "headroom",
    "max_utilisation",
    "bandwidth",
    "network_usage",
    "qos_met",
    "qos_queued_met",
)
"""Metrics that tell plans apart."""


@dataclass(frozen=True, repr=False)
class Plan:
    """A placement with its metrics and explanation, which are computed when first read."""

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

    @cached_property
    def overload(self) -> PresentOverload | None:
        """What it overloads at the present or minimum rates; None: nothing."""
        return overload_of(self.model, self.placement)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in plain words; what the placement overloads comes first."""
        first = () if self.overload is None else (self.overload.sentence,)
        return (*first, *self.placement.notes, *self.explanation.sentences)

    def _repr_html_(self) -> str:
        notes = [*self.sentences, *(f"{q} rejected: {why}" for q, why in self.rejected.items())]
        return html_table(f"Placed by {self.policy}", self._sites, notes)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each operator."""
        placed = self.placement.problem
        rows: dict[str, dict[str, Cell]] = {
            each.name: {"site": site, "fragment": each.fragment or each.name}
            for each, site in zip(placed.operators, self.placement.as_dict().values(), strict=True)
        }
        return data_frame(rows, "operator")

    def save(self, file: str | PathLike[str]) -> Path:
        """As `mooring plan --output` writes it."""
        return save_json(file, self.document())

    def figure(self) -> Figure:
        """The utilisation of each site at the present rates."""
        used = {name: float(row["used"] or 0.0) for name, row in self._sites.items()}
        return bars(
            {f"{self.policy}: share of the cores in use": used}, dict.fromkeys(used, colour_of(self.policy))
        )

    @property
    def _sites(self) -> dict[str, dict[str, Cell]]:
        problem, sites = self.placement.problem, self.placement.by_fragment()
        loads = self.model.site_loads(self.placement.site_of_fragment, problem.rates)
        running = {site.name: [f for f, at in sites.items() if at == site.name] for site in problem.sites}
        return {
            site.name: {
                "load": float(load),
                "cores": site.capacity,
                "used": float(load) / site.capacity,
                "runs": ", ".join(running[site.name][:_NAMES])
                + (", ..." if len(running[site.name]) > _NAMES else ""),
            }
            for site, load in zip(problem.sites, loads, strict=True)
        }

    def document(self, plan_seconds: float | None = None) -> dict[str, object]:
        """The plan as its readers know it; `replicas` is reserved beside `placement`. `plan_seconds` is null
        where nobody measured how long it took."""
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
            "overload": None if self.overload is None else self.overload.as_json(),
            "explanation": list(self.sentences),
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
    chosen = policy_of(policy, settings)
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


class PolicyComparison(Mapping[str, Plan | str]):
    """Policy -> its plan, or the reason why it has none, in the given order."""

    def __init__(self, problem: Problem, results: Mapping[str, Plan | str]) -> None:
        self.problem, self._results = problem, dict(results)

    def __getitem__(self, policy: str) -> Plan | str:
        return self._results[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"PolicyComparison({', '.join(self)}; best: {self.best or 'none'})"

    @property
    def plans(self) -> dict[str, Plan]:
        """Of the policies that have one."""
        return {name: made for name, made in self.items() if isinstance(made, Plan)}

    @property
    def best_by(self) -> str:
        """Where joins bend the load, the true set is what survives; over many streams the
        ratio is there as a logarithm."""
        known = ("true_feasible_ratio", "feasible_ratio_log10")
        made = [each.metrics for each in self.plans.values()]
        stated = (name for name in known if any(getattr(own, name) is not UNSET for own in made))
        return next(stated, "feasible_ratio")

    @property
    def best(self) -> str | None:
        """The policy whose plan survives the most, of those that place all queries and carry the present
        rates; if none carries them, of those that are closest to it."""
        whole = {name: made for name, made in self.plans.items() if not made.rejected}
        return max(whole, key=lambda name: (-_overloaded(whole[name]), self.worth(name)), default=None)

    def worth(self, policy: str) -> float:
        """By `best_by`; minus infinity where the logarithm is missing: nothing is feasible."""
        value = getattr(self.plans[policy].metrics, self.best_by)
        return float(value) if isinstance(value, float) else -inf

    def document(self, plan_seconds: Mapping[str, float] | None = None) -> dict[str, object]:
        """As `mooring compare --json` prints it."""
        return {
            "version": 1,
            "problem": fingerprint(self.problem),
            "policies": {
                name: {"reason": made}
                if isinstance(made, str)
                else {
                    "placement": made.placement.as_dict(),
                    "rejected": dict(made.rejected),
                    "metrics": made.metrics.as_json(),
                    "plan_seconds": (plan_seconds or {}).get(name),
                }
                for name, made in self.items()
            },
            "best": self.best,
            "best_by": self.best_by,
        }

    def _repr_html_(self) -> str:
        notes = [f"{name} has no plan: {why}" for name, why in self.items() if isinstance(why, str)]
        notes += [f"{self.best} survives the most."] if self.best else []
        return html_table("Policies compared", self._rows, notes)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each policy that has a plan."""
        return data_frame(self._rows, "policy")

    def save(self, file: str | PathLike[str]) -> Path:
        return save_json(file, self.document())

    def figure(self) -> Figure:
        """A panel for each metric, a bar for each policy."""
        panels = {
            column: {
                name: float(row[column] or 0.0)
                for name, row in self._rows.items()
                if row.get(column) is not None
            }
            for column in _COMPARED
        }
        return bars(
            {name: own for name, own in panels.items() if own}, {name: colour_of(name) for name in self}
        )

    @property
    def _rows(self) -> dict[str, dict[str, Cell]]:
        return {
            name: {
                "headroom": made.metrics.headroom.factor,
                **{
                    column: getattr(made.metrics, column)
                    for column in _COMPARED
                    if column != "headroom" and getattr(made.metrics, column) is not UNSET
                },
            }
            for name, made in self.plans.items()
        }


def _overloaded(made: Plan) -> float:
    """The busiest site's load beyond its cores, as a share of them."""
    return 0.0 if made.overload is None else max([0.0, made.metrics.max_utilisation - 1.0])


def compare(
    problem: SomeProblem,
    policies: Sequence[str | Policy] = POLICIES,
    *,
    seed: int = 0,
    progress: Report = silent,
) -> PolicyComparison:
    """Several policies on one problem, all of the catalogue if none are named. A policy that refuses or finds
    nothing is reported in words."""
    problem = problem_of(problem)
    # A name that is not known is an error before any work, not a row of the table.
    chosen = {each if isinstance(each, str) else each.name: policy_of(each) for each in policies}
    results: dict[str, Plan | str] = {}
    for done, (name, policy) in enumerate(chosen.items()):
        progress(done / len(chosen), name)
        try:
            results[name] = plan(problem, policy, seed=seed)
        except (UnsupportedError, InfeasibleError) as error:
            results[name] = str(error)
    progress(1.0, "done")
    return PolicyComparison(problem, results)


def headroom(problem: SomeProblem, placement: SomePlacement) -> HeadroomMetric:
    """By what factor all rates, and each stream's alone, can grow before which site saturates."""
    problem = problem_of(problem)
    placement = placement_of(placement, problem)
    judged = placement.problem if placement.rejected else problem
    return headroom_metric(build_load_model(judged), placement)
