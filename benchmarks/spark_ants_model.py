"""Does the model of micro-batches rank placements on Spark as they are measured to be?

    python -m benchmarks spark_ants_model[:PLACEMENTS]

Six fragments with set CPU per row, a chain of three, one of two and one alone, on three embedded sites of
half a core each, in several placements. Latency is measured from when a row lands to when the file with its
result is there, for every table that nobody reads.

The model of `mooring/load/micro_batches.py` is told what CPU was measured: costs per row and per micro-batch
are fitted to what the sites' process trees used in the same looks. Latencies are not fitted to anything. The
ranking counts pairs of placements whose measured latencies of one table differ by more than 10% and 20%.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import msgspec

from benchmarks._adapting_run import weigh_more
from benchmarks._record import Measurement, carry_out, prose_of
from benchmarks._user_run import command_lines
from mooring.experiments.result_table import ResultTable, Value
from mooring.experiments.spark.quota_trials import describe, measured_problem
from mooring.load.build import build_load_model
from mooring.load.micro_batches import micro_batches
from mooring.placement.placement import OperatorSites, Placement
from mooring.problem.problem import Problem
from mooring.problem.query import Query
from mooring.spark.quota_bench.bench import Bench, BenchParams, bench
from mooring.spark.quota_bench.looks import BenchLook
from mooring.spark.quota_bench.operator_costs import MeasuredCosts, SiteEquation, fit_costs
from mooring.spark.quota_bench.workload import DelayOperator

TRIGGER_S = 4.0
WARM_UP_TRIGGERS, SETTLE_TRIGGERS, TRIGGERS = 2, 4, 5
FIRST_TRIGGERS = 15
"""At first, that are not looked at: code that Java has not compiled yet costs half as much again."""
OPERATORS = (
    DelayOperator("a0", None, 1500.0, 1.0),
    DelayOperator("a1", "a0", 2500.0, 1.0),
    DelayOperator("a2", "a1", 3000.0, 1.0),
    DelayOperator("b0", None, 1500.0, 1.0),
    DelayOperator("b1", "b0", 3000.0, 1.0),
    DelayOperator("c0", None, 3000.0, 1.0),
)
RATES = {"a": 34.0, "b": 34.0, "c": 34.0}
LEAVES = ("a2", "b1", "c0")
PLACEMENTS: Sequence[Mapping[str, str]] = tuple(
    dict(zip(("a0", "a1", "a2", "b0", "b1", "c0"), sites, strict=True))
    for sites in (
        ("ada", "bea", "cleo", "ada", "bea", "cleo"),  # spread
        ("ada", "ada", "ada", "bea", "bea", "cleo"),  # each chain at home
        ("bea", "bea", "ada", "cleo", "ada", "ada"),  # all that ends at one site
        ("ada", "bea", "bea", "bea", "bea", "cleo"),  # a full site
        ("cleo", "cleo", "ada", "cleo", "bea", "cleo"),
        ("bea", "bea", "cleo", "bea", "cleo", "ada"),
    )
)
CLEAR = (0.1, 0.2)
"""Pairs of measured latencies that differ by more are to be ranked right."""


def weigh_sites(up: Bench) -> None:
    """The quotas limit the sites then, not what else runs on the machine."""
    folder = str(up.landing.parent.parent)
    for site in up.params.quotas:
        for pid, words in command_lines():
            if words.split(b"\0")[0].endswith(b"java") and f"{folder}/sites/{site}/".encode() in words:
                weigh_more(site, pid)


def named(up: Bench, sites: Mapping[str, str]) -> OperatorSites:
    """By the operators of the problem; a fragment has its table's name."""
    return OperatorSites({o.name: sites[str(o.fragment)] for o in up.problem.operators})


def look_at(up: Bench, sites: Mapping[str, str], rates: Mapping[str, float]) -> BenchLook:
    with up.deployed(named(up, sites)) as running:
        weigh_sites(up)
        running.look(rates, 0, WARM_UP_TRIGGERS)
        return running.look(rates, SETTLE_TRIGGERS, TRIGGERS)


def stream_rates(problem: Problem) -> dict[str, float]:
    return {stream.name: RATES[stream.name[0]] for stream in problem.streams}


def predicted_s(problem: Problem, sites: OperatorSites, trigger_s: float) -> dict[str, float]:
    """Per leaf, in seconds."""
    of_table = {str(o.fragment): o.name for o in problem.operators}
    home = problem.sites[0].name
    asked = tuple(Query(name=leaf, reads=of_table[leaf], site=home) for leaf in LEAVES)
    whole = replace(problem, queries=asked)
    placement = Placement.from_dict(whole, sites)
    found = micro_batches(whole, build_load_model(whole), placement.site_of_fragment, trigger_s)
    return dict(zip(LEAVES, found.query_s.tolist(), strict=True))


def measured_s(look: BenchLook) -> dict[str, float]:
    return {leaf: statistics.fmean(look.table_latencies_s[leaf]) for leaf in LEAVES}


def equations(look: BenchLook) -> list[SiteEquation]:
    """With a micro-batch of every fragment at each trigger, as the model has it, whatever was counted."""
    return [replace(each, batches=len(each.rows_in) * TRIGGERS) for each in look.equations()]


def compare(
    up: Bench, looks: Sequence[tuple[Mapping[str, str], BenchLook]], costs: MeasuredCosts
) -> tuple[list[dict[str, Value]], str]:
    """A row per placement and table, and what to say of ranking and errors."""
    problem = measured_problem(up.problem, costs, [look for _, look in looks], up.params.trigger_s)
    problem = problem.with_rates([RATES[stream.name[0]] for stream in problem.streams])
    # Nothing is filtered; what was counted within a look differs by rows that were on their way.
    whole = tuple(msgspec.structs.replace(operator, selectivity=1.0) for operator in problem.operators)
    problem = replace(problem, operators=whole)
    rows: list[dict[str, Value]] = []
    by_leaf: dict[str, list[tuple[float, float]]] = {leaf: [] for leaf in LEAVES}
    for number, (sites, look) in enumerate(looks, start=1):
        ahead, came = predicted_s(problem, named(up, sites), up.params.trigger_s), measured_s(look)
        for leaf in LEAVES:
            rows.append(
                {
                    "placement": number if leaf == LEAVES[0] else None,
                    "table": leaf,
                    "at": ", ".join(sites[o.name] for o in OPERATORS if o.name[0] == leaf[0]),
                    "busiest site": f"{max(v.utilisation for v in look.verdicts.values()):.0%}",
                    "measured, s": came[leaf],
                    "model, s": ahead[leaf] if math.isfinite(ahead[leaf]) else "never",
                    "off by": f"{ahead[leaf] / came[leaf] - 1.0:+.0%}" if math.isfinite(ahead[leaf]) else "",
                }
            )
            by_leaf[leaf].append((came[leaf], ahead[leaf]))
    return rows, ranked(list(by_leaf.values()))


def ranked(groups: Sequence[Sequence[tuple[float, float]]]) -> str:
    """`groups`: measured and predicted of one table each, in every placement."""
    told = []
    for apart in CLEAR:
        clear = right = 0
        for group in groups:
            for (one_s, one), (other_s, other) in combinations(group, 2):
                if max(one_s, other_s) > (1.0 + apart) * min(one_s, other_s):
                    clear += 1
                    right += (one > other) == (one_s > other_s)
        told.append(f"{right} of {clear} pairs that differ by more than {apart:.0%}")
    every = [ahead / came - 1.0 for group in groups for came, ahead in group]
    errors = sorted(abs(each) for each in every if math.isfinite(each))
    off = f"Off by {statistics.median(errors):.0%} in the median, {errors[-1]:.0%} at most"
    full = f"; {len(every) - len(errors)} of {len(every)} are behind a site that cannot keep up by the model."
    return f"Ranked right: {', and '.join(told)}. {off}{full if len(errors) < len(every) else '.'}"


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    chosen = PLACEMENTS[: int(words[0])] if words else PLACEMENTS
    with bench(OPERATORS, BenchParams(trigger_s=TRIGGER_S)) as up:
        rates = stream_rates(up.problem)
        looks = []
        with up.deployed(named(up, chosen[0])) as running:
            weigh_sites(up)
            running.look(rates, 0, FIRST_TRIGGERS)
        for sites in chosen:
            looks.append((sites, look_at(up, sites, rates)))
            print(sites, measured_s(looks[-1][1]), file=sys.stderr, flush=True)
        with up.deployed(named(up, chosen[0])) as running:
            idle = running.look({}, 2, TRIGGERS)
        found = [each for _, look in looks for each in equations(look)]
        costs = fit_costs([*found, *idle.equations()])
        rows, told = compare(up, looks, costs)
    yield ResultTable.of("Latency from landing to result, mean of all rows", rows)
    yield told
    yield f"CPU {describe(costs)}."


SPARK_ANTS_MODEL = Measurement(
    "spark_ants_model", "Micro-batches: predicted latencies beside measured ones", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_ANTS_MODEL, sys.argv[1:])
