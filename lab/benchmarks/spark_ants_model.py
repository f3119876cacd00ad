"""Does the model of micro-batches rank placements on Spark as they are measured to be?

    python -m lab.benchmarks spark_ants_model[:PLACEMENTS]

Six fragments with set CPU per row, a chain of three, one of two and one alone, on three embedded sites of
half a core each, in several placements. Latency is measured from when a row lands to when the file with its
result is there, for every table that nobody reads.

The model of `mooring/model/load/micro_batches.py` is told what CPU was measured: costs per row and per
micro-batch are fitted to what the sites' process trees used in the same looks, in one at a fifth of the
rates, which tells rows from batches, and in one without rows. Latencies are not fitted to anything. The
ranking counts pairs of placements whose measured latencies of one table differ by more than 10% and 20%, and
by more than chance, which the two halves of every look tell. Pairs that are the same to the model, such as a
table alone at its site, say how well a latency can be measured on this machine, and are counted apart.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from lab.benchmarks._adapting_run import weigh_more
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import command_lines
from lab.experiments.spark.quota_trials import describe, measured_problem
from lab.quota_bench.bench import Bench, BenchParams, bench
from lab.quota_bench.looks import BenchLook
from lab.quota_bench.operator_costs import MeasuredCosts, SiteEquation, fit_costs
from lab.quota_bench.workload import DelayOperator
from mooring.cli.output.result_table import ResultTable, Value
from mooring.model.load.build import build_load_model
from mooring.model.load.micro_batches import micro_batches
from mooring.model.placement.placement import OperatorSites, Placement
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query

TRIGGER_S = 4.0
WARM_UP_TRIGGERS, SETTLE_TRIGGERS, TRIGGERS = 2, 4, 8
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
RATE = 30.0
"""Rows per second of every stream: the fullest site of any placement is then at 85%, and keeps up."""
LOW = 0.2
"""The part of the rates that tells what a batch costs without its rows."""
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
        ("ada", "ada", "bea", "cleo", "cleo", "ada"),
        ("cleo", "bea", "bea", "cleo", "bea", "ada"),
    )
)
ALIKE = 0.01
"""Pairs whose predicted latencies differ by less are the same to the model."""
CLEAR = (0.1, 0.2)
"""Pairs of measured latencies that differ by more are to be ranked right."""
SURE = 2.0
"""Standard deviations by which a pair has to differ to differ by more than chance."""


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


def look_at(up: Bench, sites: Mapping[str, str], share: float = 1.0) -> BenchLook:
    """At so large a part of the rates."""
    rates = {stream.name: share * RATE for stream in up.problem.streams}
    with up.deployed(named(up, sites)) as running:
        weigh_sites(up)
        running.look(rates, 0, WARM_UP_TRIGGERS)
        return running.look(rates, SETTLE_TRIGGERS, TRIGGERS)


def predicted_s(problem: Problem, sites: OperatorSites, trigger_s: float) -> dict[str, float]:
    """Per leaf, in seconds."""
    of_table = {str(o.fragment): o.name for o in problem.operators}
    home = problem.sites[0].name
    asked = tuple(Query(name=leaf, reads=of_table[leaf], site=home) for leaf in LEAVES)
    whole = replace(problem, queries=asked)
    placement = Placement.from_dict(whole, sites)
    found = micro_batches(whole, build_load_model(whole), placement.site_of_fragment, trigger_s)
    return dict(zip(LEAVES, found.query_s.tolist(), strict=True))


@dataclass(frozen=True)
class Latency:
    """Of one table in one placement."""

    measured_s: float
    apart_s: float
    """Between the means of the first and the second half of the rows."""
    model_s: float = math.inf


def measured(look: BenchLook) -> dict[str, Latency]:
    found = {}
    for leaf in LEAVES:
        every = look.table_latencies_s[leaf]  # in the order of files
        halves = every[: len(every) // 2], every[len(every) // 2 :]
        means = [statistics.fmean(half) for half in halves]
        found[leaf] = Latency(statistics.fmean(every), abs(means[0] - means[1]))
    return found


def equations(look: BenchLook, share: float) -> list[SiteEquation]:
    """With the rows that were fed and a micro-batch of every fragment at each trigger, as the model has it:
    Spark keeps reports of the last few batches only, so not all are counted in a look."""
    rows, triggers = round(share * RATE * look.seconds), round(look.seconds / TRIGGER_S)
    return [
        replace(each, batches=len(each.rows_in) * triggers, rows_in=dict.fromkeys(each.rows_in, rows))
        for each in look.equations()
    ]


def compare(
    up: Bench, looks: Sequence[tuple[Mapping[str, str], BenchLook]], costs: MeasuredCosts
) -> tuple[list[dict[str, Value]], str]:
    """A row per placement and table, and what to say of ranking and errors."""
    problem = measured_problem(up.problem, costs, [look for _, look in looks], up.params.trigger_s)
    problem = problem.with_rates([RATE for _ in problem.streams])
    # Nothing is filtered; what was counted within a look differs by rows that were on their way.
    whole = tuple(msgspec.structs.replace(operator, selectivity=1.0) for operator in problem.operators)
    problem = replace(problem, operators=whole)
    rows: list[dict[str, Value]] = []
    by_leaf: dict[str, list[Latency]] = {leaf: [] for leaf in LEAVES}
    for number, (sites, look) in enumerate(looks, start=1):
        ahead = predicted_s(problem, named(up, sites), up.params.trigger_s)
        for leaf, came in measured(look).items():
            by_leaf[leaf].append(replace(came, model_s=ahead[leaf]))
            rows.append(
                {
                    "placement": number if leaf == LEAVES[0] else None,
                    "table": leaf,
                    "at": ", ".join(sites[o.name] for o in OPERATORS if o.name[0] == leaf[0]),
                    "busiest site": f"{max(v.utilisation for v in look.verdicts.values()):.0%}",
                    "measured, s": came.measured_s,
                    "halves apart, s": came.apart_s,
                    "model, s": ahead[leaf] if math.isfinite(ahead[leaf]) else "never",
                    "off by": f"{ahead[leaf] / came.measured_s - 1.0:+.0%}"
                    if math.isfinite(ahead[leaf])
                    else "",
                }
            )
    return rows, ranked(list(by_leaf.values()))


def ranked(groups: Sequence[Sequence[Latency]]) -> str:
    """`groups`: of one table each, in every placement."""
    pairs, sure = list[tuple[Latency, Latency]](), list[tuple[Latency, Latency]]()
    for group in groups:
        own = list(itertools.combinations(group, 2))
        # Halves differ by twice the standard deviation of a mean, two means by the square root of 2 times it.
        chance_s = math.sqrt(statistics.fmean(each.apart_s**2 for each in group) / 2.0)
        pairs += own
        sure += [pair for pair in own if abs(pair[0].measured_s - pair[1].measured_s) > SURE * chance_s]
    alike = [pair for pair in pairs if _apart(pair[0].model_s, pair[1].model_s) < ALIKE]
    told = []
    for apart in CLEAR:
        clear = [p for p in pairs if p not in alike and _apart(p[0].measured_s, p[1].measured_s) > apart]
        told.append(f"{_right(clear)} of {len(clear)} pairs that differ by more than {apart:.0%}")
    beyond = [pair for pair in sure if pair not in alike]
    told.append(f"{_right(beyond)} of {len(beyond)} that differ by more than chance")
    noise = sorted(_apart(one.measured_s, other.measured_s) for one, other in alike)
    same = (
        f"{len(noise)} pairs are the same to the model, and were measured {statistics.median(noise):.0%} "
        f"apart in the median, {noise[-1]:.0%} at most. "
        if noise
        else ""
    )
    every = [each.model_s / each.measured_s - 1.0 for group in groups for each in group]
    errors = sorted(abs(each) for each in every if math.isfinite(each))
    off = f"Off by {statistics.median(errors):.0%} in the median, {errors[-1]:.0%} at most"
    full = f"; {len(every) - len(errors)} of {len(every)} are behind a site that cannot keep up by the model."
    return f"Ranked right: {', '.join(told)}. {same}{off}{full if len(errors) < len(every) else '.'}"


def _right(pairs: Sequence[tuple[Latency, Latency]]) -> int:
    return sum((one.model_s > other.model_s) == (one.measured_s > other.measured_s) for one, other in pairs)


def _apart(one: float, other: float) -> float:
    """By how much the larger one is larger; nothing where both are endless."""
    return 0.0 if one == other else max(one, other) / min(one, other) - 1.0


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    chosen = PLACEMENTS[: int(words[0])] if words else PLACEMENTS
    with bench(OPERATORS, BenchParams(trigger_s=TRIGGER_S)) as up:
        with up.deployed(named(up, chosen[0])) as running:
            weigh_sites(up)
            running.look({stream.name: RATE for stream in up.problem.streams}, 0, FIRST_TRIGGERS)
        looks = []
        for sites in chosen:
            looks.append((sites, look_at(up, sites)))
            told = {leaf: round(each.measured_s, 2) for leaf, each in measured(looks[-1][1]).items()}
            print(sites, told, file=sys.stderr, flush=True)
        found = [each for _, look in looks for each in equations(look, 1.0)]
        found += equations(look_at(up, chosen[0], LOW), LOW)
        with up.deployed(named(up, chosen[0])) as running:
            found += running.look({}, 2, TRIGGERS).equations()
        costs = fit_costs(found)
        rows, told_ranks = compare(up, looks, costs)
    yield ResultTable.of("Latency from landing to result, mean of all rows", rows)
    yield told_ranks
    yield f"CPU {describe(costs)}."


SPARK_ANTS_MODEL = Measurement(
    "spark_ants_model", "Micro-batches: predicted latencies beside measured ones", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_ANTS_MODEL, sys.argv[1:])
