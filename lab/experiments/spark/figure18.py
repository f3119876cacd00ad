"""Figure 18 on Spark: rates multiplied until a site is overloaded, each policy beside its predictions.

The ROD paper (section 7.3.5) replays a packet trace in sub-streams on five machines. Here: three sites with
enforced CPU quotas, three sub-streams of the shipped trace, delay operators in trees. Policies see the mean
rates of the trace's first half, scaled so that all sites together would be full at four times them. What is
played is one stretch of the second half, at its mean rates, times 1, 1.5, 2 and so on.

Small problems often have policies agree by chance. So the operators and addresses (of a few drawn), by the
costs asked for, and then the stretch, by the costs measured, are those for which the *predicted* first
overloads of the policies lie farthest apart, whoever comes first. The measured first overload is the middle
between the largest multiplier kept up with and the smallest not; the planner's is its headroom; the
simulator's comes from running the same multipliers in virtual time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.spark.quota_trials import (
    DRAIN_S,
    FULL,
    POLICIES,
    QUICK,
    MeasuredBench,
    Pace,
    gather_statistics,
    load_error,
    load_sentence,
    place,
    steady_look,
    utilisations,
    warm_up,
    with_rates,
)
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row
from mooring.arrays import Floats
from mooring.figure_style import colour_of, tidy
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.headroom import headroom
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.progress import Report
from mooring.simulator.data_plane.report import SimulationReport
from mooring.simulator.data_plane.simulate import simulate
from mooring.traces.extracts import ARRIVALS_NAME
from mooring.traces.rates import rate_series
from mooring.traces.read import arrival_instants
from mooring.traces.substreams import split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.quota_bench.bench import Bench
    from lab.quota_bench.looks import BenchLook, Deployment
    from lab.quota_bench.workload import DelayOperator


QUICK_POLICIES = ("rod", "connected")
STRETCH_S = 10.0
FULL_AT = 4.0
"""All sites would be full at this multiple of the mean rates, with the load spread ideally (section
7.3.5)."""
CANDIDATES = 12
CLEAR_GAP = 0.1
"""Policies whose predicted first overloads are closer than this are not ranked."""
SIMULATED_S = 300.0


@dataclass(frozen=True, eq=False)
class Trace:
    """Rates of the sub-streams in units of the trace: the mean that policies see, the stretches to play."""

    mean: Floats
    stretches: Floats


def trace_rates(seed: int, streams: int) -> Trace:
    instants = arrival_instants(ARRIVALS_NAME)
    span_s = float(instants[-1]) // STRETCH_S * STRETCH_S
    series = np.column_stack([rate_series(p, STRETCH_S, span_s) for p in split(instants, seed, streams)])
    half = len(series) // 2
    return Trace(series[:half].mean(axis=0), series[half:])


@dataclass(frozen=True, eq=False)
class Scene:
    """A problem with its placements and the rates that are multiplied."""

    placements: Mapping[str, Placement]
    first_overloads: Mapping[str, float]
    """Predicted, per policy."""
    rates: Floats


def stage(problem: Problem, trace: Trace, policies: Sequence[str], seed: int) -> Scene:
    """Place at the mean rates; of the stretches with more load than that, take the one that tells the
    placements apart best.
    """
    model = build_load_model(problem)
    unit = model.capacity_left_cores / FULL_AT / float(trace.mean @ model.totals)
    seen = with_rates(problem, trace.mean * unit)
    placements = {policy: place(policy, seen, seed) for policy in policies}
    bursts = trace.stretches[trace.stretches @ model.totals >= trace.mean @ model.totals]
    best: Scene | None = None
    for stretch in bursts if len(bursts) else trace.stretches:
        rates = stretch * unit
        ahead = {
            p: headroom(model, made.site_of_fragment, rates).all.factor for p, made in placements.items()
        }
        if best is None or spread(ahead) > spread(best.first_overloads):
            best = Scene(placements, ahead, rates)
    assert best is not None
    return best


def spread(first_overloads: Mapping[str, float]) -> float:
    """How clearly predictions differ: relative gaps between neighbours, more than .2 not counting as more."""
    values = np.sort(np.array(list(first_overloads.values())))
    return float(np.minimum(np.diff(np.log(values)), 0.2).sum())


def asked_problem(operators: Sequence[DelayOperator], quotas: Mapping[str, float]) -> Problem:
    """The costs asked for, as a problem: to choose among drawn workloads before any is run."""
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": cores} for name, cores in quotas.items()},
            "streams": {f"{o.name} rows": {"rate": 1.0} for o in operators if o.reads is None},
            "operators": {
                o.name: {
                    "inputs": [o.reads or f"{o.name} rows"],
                    "cost_us": o.cost_us,
                    "selectivity": o.selectivity,
                }
                for o in operators
            },
        }
    )


def choose_workload(seed: int, quotas: Mapping[str, float]) -> tuple[tuple[DelayOperator, ...], int]:
    """Of a few draws, the operators and the seed of the addresses with the clearest predictions."""
    from lab.quota_bench.workload import draw_workload, roots

    def clearness(number: int) -> float:
        operators = draw_workload(np.random.default_rng([seed, number]))
        trace = trace_rates(CANDIDATES * seed + number, len(roots(operators)))
        return spread(stage(asked_problem(operators, quotas), trace, POLICIES, seed).first_overloads)

    number = max(range(CANDIDATES), key=clearness)
    return draw_workload(np.random.default_rng([seed, number])), CANDIDATES * seed + number


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    from lab.quota_bench.bench import BenchParams, bench

    pace, policies = (QUICK, QUICK_POLICIES) if quick else (FULL, POLICIES)
    params = BenchParams(trigger_s=pace.trigger_s)
    report(0.0, "choosing a workload")
    operators, trace_seed = choose_workload(seed, params.quotas)
    with bench(operators, params, report) as up:
        measured = gather_statistics(up, pace, report, 0.25)
        trace = trace_rates(trace_seed, len(measured.problem.streams))
        scene = stage(measured.problem, trace, POLICIES, seed)
        rows: list[Row] = []
        for number, policy in enumerate(policies):
            done = 0.25 + 0.75 * number / len(policies)
            rows += _climb(up, measured, scene, policy, pace, report, done)
        return rows


def _climb(
    up: Bench, measured: MeasuredBench, scene: Scene, policy: str, pace: Pace, report: Report, done: float
) -> list[Row]:
    """Multiply the rates until a site is overloaded, then look more closely."""
    placement, predicted = scene.placements[policy], scene.first_overloads[policy]
    looks: dict[float, BenchLook] = {}
    report(done, f"{policy}: starting")
    with up.deployed(placement.as_dict()) as running:
        warm_up(running, measured.problem, scene.rates)
        for multiplier in climb_steps(predicted, quick=pace == QUICK):
            report(done, f"{policy} x {multiplier:g}, predicted to hold until x {predicted:.2f}")
            looks[multiplier] = _look(running, measured, scene, multiplier, pace)
            if is_over([looks[each].feasible for each in sorted(looks)]):
                break
        while (
            again := refinement({m: look.feasible for m, look in looks.items()}, pace == QUICK)
        ) is not None:
            report(done, f"{policy} x {again:g}")
            running.drain(DRAIN_S)
            looks[again] = _look(running, measured, scene, again, pace)
    kept, lost = bracket({m: look.feasible for m, look in looks.items()})
    middle = (kept + lost) / 2 if kept > 0.0 and np.isfinite(lost) else float("nan")
    return [_row(measured, scene, policy, m, looks[m], middle) for m in sorted(looks)]


def _look(
    running: Deployment, measured: MeasuredBench, scene: Scene, multiplier: float, pace: Pace
) -> BenchLook:
    return steady_look(running, measured.problem, multiplier * scene.rates, pace)


def _row(
    measured: MeasuredBench,
    scene: Scene,
    policy: str,
    multiplier: float,
    look: BenchLook,
    first_overload: float,
) -> Row:
    placement, rates = scene.placements[policy], multiplier * scene.rates
    shares = utilisations(measured.model, placement, rates)
    ahead = simulated(measured, placement, rates)
    feasible = look.feasible
    return {
        "policy": policy,
        "multiplier": multiplier,
        "kept_up": -1 if feasible is None else int(feasible),
        "mean_ms": 1e3 * look.mean_latency_s,
        "max_ms": 1e3 * look.max_latency_s,
        "utilisation": max(verdict.utilisation for verdict in look.verdicts.values()),
        "overloaded_site": " ".join(look.overloaded_sites),
        "first_overload": first_overload,
        "predicted_overload": scene.first_overloads[policy],
        "predicted_utilisation": float(shares.max()),
        "predicted_site": measured.problem.sites[int(shares.argmax())].name,
        "load_error": load_error(look, measured.site_cores(placement, rates)),
        "simulated_kept_up": int(not ahead.overloaded),
        "simulated_mean_ms": ahead.latency.mean_ms + 1e3 * measured.trigger_s / 2,
        "load_average": look.load_average,
    }


def simulated(measured: MeasuredBench, placement: Placement, rates: Floats) -> SimulationReport:
    """The simulator knows no micro-batches. A row waits half a trigger for its first batch, which the caller
    adds, and from one batch to the next a whole one, which every channel adds.
    """
    problem = with_rates(measured.problem, rates)
    problem = replace(problem, network=replace(problem.network, channel_ms=1e3 * measured.trigger_s))
    return simulate(problem, placement.as_dict(), seconds=SIMULATED_S, warm_up_s=20.0)


def ranking(first_overloads: Mapping[str, float]) -> list[str]:
    """Policies by first overload, latest first; unknown ones are left out."""
    known = {policy: value for policy, value in first_overloads.items() if value == value}
    return sorted(known, key=lambda policy: -known[policy])


def compare_ranks(
    predicted: Mapping[str, float], measured: Mapping[str, float]
) -> tuple[int, list[str], list[str]]:
    """How many pairs of policies are clearly apart by prediction, which of them broke at the same step, and
    which came out the other way.
    """
    clear = 0
    level: list[str] = []
    wrong: list[str] = []
    names = ranking(measured)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            high, low = sorted((one, other), key=lambda policy: -predicted[policy])
            if predicted[high] < (1.0 + CLEAR_GAP) * predicted[low]:
                continue
            clear += 1
            if measured[high] < measured[low]:
                wrong.append(f"{high} before {low}")
            elif measured[high] == measured[low]:
                level.append(f"{high} with {low}")
    return clear, level, wrong


def conclude(rows: Sequence[Row]) -> list[str]:
    """Whether the ranking of policies by first overload agrees with the prediction."""
    predicted = {str(row["policy"]): float(row["predicted_overload"]) for row in rows}
    measured = {str(row["policy"]): float(row["first_overload"]) for row in rows}
    order = ranking(measured)
    each = ", ".join(f"{p} x {measured[p]:.2f} (predicted {predicted[p]:.2f})" for p in order)
    clear, level, wrong = compare_ranks(predicted, measured)
    if clear:
        agree = clear - len(level) - len(wrong)
        verdict = f"of {clear} pairs predicted more than {CLEAR_GAP:.0%} apart, {agree} agree"
        verdict += f", {len(level)} broke at the same step ({'; '.join(level)})" if level else ""
        verdict += f", {len(wrong)} came out otherwise ({'; '.join(wrong)})" if wrong else ""
        verdict += ": the ranking agrees" if agree == clear else ""
    else:
        verdict = "no two policies that were predicted clearly apart have both been measured"
    lines = [f"First overload: {each or 'none found'}; {verdict}."]
    unknown = [policy for policy in predicted if policy not in order]
    if unknown:
        lines.append(f"Undecided, because the machine was disturbed or nothing broke: {', '.join(unknown)}.")
    known = [row for row in rows if row["kept_up"] != -1]
    same = sum(row["kept_up"] == row["simulated_kept_up"] for row in known)
    lines.append(f"The simulator had {same} of {len(known)} looks right.")
    return [*lines, load_sentence([float(row["load_error"]) for row in rows])]


def draw(rows: Sequence[Row]) -> Figure:

    figure, (latency, load) = panels(11, 4, 2)
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own, colour = [row for row in rows if row["policy"] == policy], colour_of(policy)
        at = [float(row["multiplier"]) for row in own]
        latency.plot(at, [float(row["mean_ms"]) / 1e3 for row in own], "o-", color=colour, label=policy)
        simulated_s = [float(row["simulated_mean_ms"]) / 1e3 for row in own]
        latency.plot(at, simulated_s, ":", color=colour)
        load.plot(at, [float(row["utilisation"]) for row in own], "o-", color=colour)
        load.plot(at, [float(row["predicted_utilisation"]) for row in own], ":", color=colour)
        for row in own:
            if row["kept_up"] == 0:
                load.plot(float(row["multiplier"]), float(row["utilisation"]), "kx", markersize=11)
    latency.set(yscale="log", ylabel="average end-to-end latency, s", title="dotted: simulated")
    load.axhline(1.0, color="black", linewidth=0.8)
    load.set(ylabel="CPU over quota, busiest site", title="dotted: predicted; x: overloaded")
    latency.legend(frameon=False)
    for axes in (latency, load):
        axes.set_xlabel("rate multiplier")
        tidy(axes)
    return figure


SPARK_FIGURE_18 = Experiment(
    name="spark_figure18",
    title="Latency and first overload of each policy on Spark, beside the predictions",
    source="Resilient operator distribution, Figure 18, section 7.3.5, on the quota bench",
    columns={
        "policy": "policy",
        "multiplier": "of all rates",
        "kept_up": "1: every site kept up, 0: one did not, -1: undecided",
        "mean_ms": "average end-to-end latency of the rows delivered, measured",
        "max_ms": "the largest",
        "utilisation": "CPU over quota of the busiest site, measured",
        "overloaded_site": "those that did not keep up",
        "first_overload": "multiplier between the last kept up with and the first that was not",
        "predicted_overload": "the planner's headroom",
        "predicted_utilisation": "of the busiest site, by the measured statistics",
        "predicted_site": "the busiest by prediction",
        "load_error": "largest |predicted / measured load - 1| of a site where all kept up",
        "simulated_kept_up": "whether the simulator kept up",
        "simulated_mean_ms": "its average latency, with what micro-batches add",
        "load_average": "of the machine meanwhile",
    },
    summaries=(
        Summary(
            by=("policy",),
            shown=(
                Shown("first_overload", "first overload", how="mean alone"),
                Shown("predicted_overload", "predicted", how="mean alone"),
                Shown("load_error", "load error", how="mean alone"),
                Shown("load_error", "largest", how="largest"),
            ),
            counted="looks",
        ),
        Summary(
            title="every look, latencies in ms",
            by=("policy", "multiplier"),
            shown=(
                Shown("kept_up", "kept up"),
                Shown("mean_ms", "measured"),
                Shown("simulated_mean_ms", "simulated"),
                Shown("utilisation", "utilisation"),
                Shown("predicted_utilisation", "predicted"),
            ),
            counted="",
        ),
    ),
    setting="Three sites of half a core, nine delay operators in three trees, rates of a packet trace.",
    run=run,
    draw=draw,
    conclude=conclude,
    drives_sites=True,
)


STEP = 0.5
MOST = 8.0
"""Multipliers 1, 1.5, 2, ... up to this."""


def climb_steps(predicted: float, *, quick: bool) -> list[float]:
    """1, 1.5, 2, ...; a quick climb begins a step below the predicted edge."""
    steps = np.arange(1.0, MOST + STEP / 2, STEP)
    if quick:
        steps = steps[steps > predicted - 1.5 * STEP]
    return [float(step) for step in steps]


def is_over(feasible: Sequence[bool | None]) -> bool:
    """A climb ends with an overload, or when the machine has spoilt two steps in a row."""
    return feasible[-1] is False or list(feasible[-2:]) == [None, None]


def refinement(feasible: Mapping[float, bool | None], quick: bool) -> float | None:
    """Where to look next once something broke: a step lower if nothing was kept up with, else once in the
    middle of the last step (not when quick). None: enough.
    """
    kept, lost = bracket(feasible)
    if not np.isfinite(lost):
        return None
    if kept == 0.0:
        lower = lost - STEP
        return lower if lower > 0.0 and lower not in feasible else None
    middle = (kept + lost) / 2
    return middle if not quick and lost - kept >= STEP and middle not in feasible else None


def bracket(feasible: Mapping[float, bool | None]) -> tuple[float, float]:
    """The largest multiplier kept up with below every one that was not, and the smallest that was not."""
    lost = min((m for m, ok in feasible.items() if ok is False), default=float("inf"))
    kept = max((m for m, ok in feasible.items() if ok and m < lost), default=0.0)
    return kept, lost
