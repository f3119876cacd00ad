"""What the experiments on the quota bench share: measured statistics, placements by policy, predictions.

As in section 7.1 of the ROD paper the statistics come from trial runs: the operators are spread over the
sites and run at several rates, and the planner then sees what was measured, never the costs asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from mooring.algorithms.catalogue import make_policy
from mooring.arrays import Floats
from mooring.contracts.policy import Context
from mooring.model.load.build import build_load_model
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import OperatorSites, Placement
from mooring.model.problem.problem import Problem
from mooring.progress import Report

if TYPE_CHECKING:
    from lab.quota_bench.bench import Bench
    from lab.quota_bench.looks import BenchLook, Deployment
    from lab.quota_bench.operator_costs import MeasuredCosts
    from lab.quota_bench.workload import DelayOperator

POLICIES = ("rod", "llf", "connected", "random")
STATISTICS_SHARE = 0.4
"""Of all capacity that the rows take while statistics are gathered: batches take as much again, and no site
may be full."""
STATISTICS_WARM_UP = 1.5
"""Times the rates of the statistics: code that Java has not compiled yet costs up to half as much again, and
what gets it compiled is work done."""
DRAIN_S = 120.0
"""Patience with a backlog; where it is over, the next look starts with what is left."""
WARM_UP_TRIGGERS = 2
WARM_UP_SHARE = 0.4
"""Of the first rates that are looked at."""
GREY = 0.1
"""Predicted utilisations this close to one could go either way: statistics and looks are that exact."""


@dataclass(frozen=True)
class Pace:
    """How long things are looked at."""

    trigger_s: float = 4.0
    settle_triggers: int = 4
    """After a change of rates, until rows of the new rate have gone through the deepest tree: three
    operators, each a trigger behind the one before, and the trigger that was under way.
    """
    triggers: int = 4
    statistics_steps: int = 7


FULL = Pace()
QUICK = Pace(trigger_s=3.0, triggers=3, statistics_steps=5)


@dataclass(frozen=True)
class MeasuredBench:
    """The planner's view of the bench."""

    problem: Problem
    costs: MeasuredCosts
    trigger_s: float

    @property
    def model(self) -> LoadModel:
        return build_load_model(self.problem)

    def site_cores(self, placement: Placement, rates: Floats) -> dict[str, float]:
        """Predicted CPU of every site's process tree."""
        loads = self.model.site_loads(placement.site_of_fragment, rates) + self.costs.idle_cores
        return {site.name: float(cores) for site, cores in zip(self.problem.sites, loads, strict=True)}


def with_rates(problem: Problem, rates: Floats) -> Problem:
    streams = tuple(
        msgspec.structs.replace(stream, rate=float(rate))
        for stream, rate in zip(problem.streams, rates, strict=True)
    )
    return replace(problem, streams=streams)


def place(policy: str, problem: Problem, seed: int) -> Placement:
    context = Context(load=build_load_model(problem), rng=np.random.default_rng(seed))
    return make_policy(policy, {}).place(problem, context)


def by_stream(problem: Problem, rates: Floats) -> dict[str, float]:
    return {stream.name: float(rate) for stream, rate in zip(problem.streams, rates, strict=True)}


def utilisations(model: LoadModel, placement: Placement, rates: Floats) -> Floats:
    """Predicted load of every site over its capacity."""
    loads = model.site_loads(placement.site_of_fragment, rates)
    return np.asarray(loads / model.capacity_cores)


def spread_placement(operators: Sequence[DelayOperator], problem: Problem) -> OperatorSites:
    """Every tree over all sites, so that rows of one site's fragments come from different streams."""
    sites = [site.name for site in problem.sites]
    found: dict[str, str] = {}
    position: dict[str, tuple[int, int]] = {}
    sizes: list[int] = []
    for operator in operators:
        if operator.reads is None:
            position[operator.name] = (len(sizes), 0)
            sizes.append(1)
        else:
            tree = position[operator.reads][0]
            position[operator.name] = (tree, sizes[tree])
            sizes[tree] += 1
    by_fragment = {str(operator.fragment): operator.name for operator in problem.operators}
    for name, (tree, number) in position.items():
        found[by_fragment[name]] = sites[(tree + number) % len(sites)]
    return OperatorSites(found)


def statistics_rates(totals: Floats, capacity_cores: float, steps: int) -> list[Floats]:
    """Rates at which one stream in turn is high, then all alike at two levels, and so on."""
    streams = len(totals)
    even = STATISTICS_SHARE * capacity_cores / streams / totals
    # The sharper the contrast, the less the costs of a site's fragments are taken for each other's.
    patterns = [np.where(np.arange(streams) == k, 2.2, 0.2) for k in range(streams)]
    patterns += [np.full(streams, 0.25)]
    patterns += [np.where(np.arange(streams) == k, 0.3, 1.3) for k in range(streams)]
    return [even * patterns[step % len(patterns)] for step in range(steps)]


def gather_statistics(bench: Bench, pace: Pace, report: Report, until: float) -> MeasuredBench:
    """Run the operators at several rates and fit what they cost. `until` is the part done afterwards."""
    from lab.quota_bench.operator_costs import fit_costs

    problem = bench.problem
    asked = build_load_model(problem)
    rates = statistics_rates(asked.totals, asked.capacity_left_cores, pace.statistics_steps)
    looks: list[BenchLook] = []
    with bench.deployed(spread_placement(bench.operators, problem)) as running:
        for step, each in enumerate(rates):
            report(until * 0.3 * step / len(rates), "warming up")
            running.look(by_stream(problem, STATISTICS_WARM_UP * each), 0, WARM_UP_TRIGGERS)
        running.drain(DRAIN_S)
        for step, each in enumerate(rates):
            report(until * (0.3 + 0.7 * step / len(rates)), f"statistics, step {step + 1} of {len(rates)}")
            looks.append(running.look(by_stream(problem, each), pace.settle_triggers, pace.triggers))
        # Batches come at every trigger whatever the rates, so only a look without any tells idling apart.
        running.drain(DRAIN_S)
        looks.append(running.look({}, 0, pace.triggers))
    costs = fit_costs([equation for look in looks for equation in look.equations()])
    report(until, describe(costs))
    return MeasuredBench(
        measured_problem(problem, costs, looks, bench.params.trigger_s), costs, bench.params.trigger_s
    )


def describe(costs: MeasuredCosts) -> str:
    each = ", ".join(f"{name} {cost / 1e3:.2f}" for name, cost in costs.cost_us.items())
    return (
        f"measured: {costs.batch_cpu_s:.2f} CPU s per batch, idle {costs.idle_cores:.3f} cores, "
        f"ms per row {each}; fit within {costs.error:.0%}"
    )


def measured_problem(
    problem: Problem, costs: MeasuredCosts, looks: Sequence[BenchLook], trigger_s: float
) -> Problem:
    """The problem with costs, fixed costs and selectivities as measured; idling is taken off the capacity."""
    operators = []
    for operator in problem.operators:
        name = str(operator.fragment)
        came = sum(look.fragments[name].rows_in for look in looks)
        left = sum(look.rows_out[name] for look in looks)
        operators.append(
            msgspec.structs.replace(
                operator,
                cost_us=costs.cost_us[name],
                selectivity=left / came if came else operator.selectivity,
                fixed_cores=costs.batch_cpu_s / trigger_s,
            )
        )
    sites = tuple(
        msgspec.structs.replace(site, capacity=max(site.capacity - costs.idle_cores, 1e-3))
        for site in problem.sites
    )
    return replace(problem, operators=tuple(operators), sites=sites)


def warm_up(running: Deployment, problem: Problem, rates: Floats) -> None:
    """Let every fragment run its first batches, which cost more than all that follow."""
    running.look(by_stream(problem, WARM_UP_SHARE * rates), 0, WARM_UP_TRIGGERS)


def steady_look(running: Deployment, problem: Problem, rates: Floats, pace: Pace) -> BenchLook:
    """One look, and a second one if the machine disturbed the first."""
    look = running.look(by_stream(problem, rates), pace.settle_triggers, pace.triggers)
    if look.feasible is None:
        look = running.look(by_stream(problem, rates), 1, pace.triggers)
    return look


def load_error(look: BenchLook, predicted_cores: Mapping[str, float]) -> float:
    """Largest |predicted / measured - 1| over the sites; not a number unless all of them kept up, since an
    overloaded site uses its quota whatever it was asked to do.
    """
    if not look.feasible:
        return float("nan")
    return max(abs(predicted_cores[site] / cores - 1.0) for site, cores in look.site_cores.items())


def load_sentence(errors: Sequence[float]) -> str:
    known = [error for error in errors if error == error]
    if not known:
        return "No look was undisturbed with all sites keeping up, so no predicted load was checked."
    return (
        f"Predicted site load against measured, worst site of each of {len(known)} looks: "
        f"median {np.median(known):.0%} off, largest {max(known):.0%}."
    )
