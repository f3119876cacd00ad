"""The feasible set measured on Spark against the planner's prediction (ROD paper, sections 7.1 and 7.3.1).

The paper runs 100 random points of the ideal feasible set per placement and counts those at which no node is
at full CPU. A point takes half a minute on Spark, so here they lie on rays from the origin: a direction is
drawn, and points along it stand for shells of the ideal set of equal volume, so that every point weighs the
same. Load grows along a ray, hence a point beyond an overloaded one need not be run, nor one before a point
at which all kept up: those are *inferred*. Looking starts at the predicted edge, where it tells most.

When a site keeps up on Spark is defined in lab/quota_bench/verdict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import panels
from lab.experiments.spark.quota_trials import (
    DRAIN_S,
    FULL,
    GREY,
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
from mooring.model.placement.placement import Placement
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.quota_bench.bench import Bench
    from lab.quota_bench.looks import BenchLook

SHELLS = 6
RAYS = 4
QUICK_RAYS = 1
QUICK_POLICIES = ("rod", "connected")


def draw_points(rng: np.random.Generator, streams: int, rays: int, shells: int = SHELLS) -> Floats:
    """Points of the unit simplex's inside (rays x shells x streams), each standing for an equal volume."""
    directions = rng.dirichlet(np.ones(streams), rays)
    radii = ((np.arange(shells) + 0.5) / shells) ** (1.0 / streams)
    return np.asarray(directions[:, None, :] * radii[None, :, None])


def settle_ray(
    predicted: Sequence[bool], probe: Callable[[int], bool | None]
) -> list[tuple[bool | None, bool]]:
    """Per point of a ray, from the origin outwards: is it feasible, and was it looked at?

    `probe` may return None (disturbed); looking then stops in that direction.
    """
    seen: dict[int, bool | None] = {}
    at = max(sum(predicted) - 1, 0)
    while 0 <= at < len(predicted) and at not in seen:
        seen[at] = probe(at)
        if seen[at] is None:
            break
        at += 1 if seen[at] else -1
    result: list[tuple[bool | None, bool]] = []
    for k in range(len(predicted)):
        if k in seen:
            result.append((seen[k], True))
        elif any(ok for j, ok in seen.items() if j > k):
            result.append((True, False))
        elif any(ok is False for j, ok in seen.items() if j < k):
            result.append((False, False))
        else:
            result.append((None, False))
    return result


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    from lab.quota_bench.bench import BenchParams, bench
    from lab.quota_bench.workload import draw_workload

    rng = np.random.default_rng(seed)
    pace, policies = (QUICK, QUICK_POLICIES) if quick else (FULL, POLICIES)
    with bench(draw_workload(rng), BenchParams(trigger_s=pace.trigger_s), report) as up:
        measured = gather_statistics(up, pace, report, 0.2)
        points = draw_points(rng, len(measured.problem.streams), QUICK_RAYS if quick else RAYS)
        rows: list[Row] = []
        for number, policy in enumerate(policies):
            done = 0.2 + 0.8 * number / len(policies)
            placement = _placement(policy, measured, rng, seed)
            rows += _placement_rows(up, measured, policy, placement, points, pace, report, done)
        return rows


def _placement(policy: str, measured: MeasuredBench, rng: np.random.Generator, seed: int) -> Placement:
    """Policies that balance one rate point get a random one (section 7.3.1)."""
    model = measured.model
    at = 0.5 * rng.dirichlet(np.ones(model.stream_count)) * model.capacity_left_cores / model.totals
    return place(policy, with_rates(measured.problem, at), seed)


def _placement_rows(
    up: Bench,
    measured: MeasuredBench,
    policy: str,
    placement: Placement,
    points: Floats,
    pace: Pace,
    report: Report,
    done: float,
) -> list[Row]:
    model, problem = measured.model, measured.problem
    rates = points * model.capacity_left_cores / model.totals
    rows: list[Row] = []
    report(done, f"{policy}: starting")
    with up.deployed(placement.as_dict()) as running:
        warm_up(running, problem, rates[0, 0])
        for ray in range(len(points)):
            predicted = [float(utilisations(model, placement, each).max()) for each in rates[ray]]
            looks: dict[int, BenchLook] = {}

            def probe(
                at: int,
                own_rates: Floats = rates[ray],
                looks: dict[int, BenchLook] = looks,
                predicted: list[float] = predicted,
                ray: int = ray,
            ) -> bool | None:
                report(done, f"{policy}, ray {ray + 1}: predicted {predicted[at]:.0%} at the busiest site")
                looks[at] = steady_look(running, problem, own_rates[at], pace)
                if not looks[at].feasible:
                    running.drain(DRAIN_S)
                return looks[at].feasible

            verdicts = settle_ray([value <= 1.0 for value in predicted], probe)
            for at, (feasible, looked) in enumerate(verdicts):
                rows.append(
                    {
                        "policy": policy,
                        "ray": ray,
                        "ideal_share": float(points[ray, at].sum()),
                        "predicted_utilisation": predicted[at],
                        "predicted": int(predicted[at] <= 1.0),
                        "measured": -1 if feasible is None else int(feasible),
                        "how": "looked" if looked else "unknown" if feasible is None else "inferred",
                        **_look_fields(looks.get(at), measured, placement, rates[ray, at]),
                    }
                )
    return rows


def _look_fields(look: BenchLook | None, measured: MeasuredBench, placement: Placement, rates: Floats) -> Row:
    if look is None:
        nothing = float("nan")
        return {
            "utilisation": nothing,
            "load_error": nothing,
            "load_average": nothing,
            "lost_ground": "",
        }
    return {
        "utilisation": max(verdict.utilisation for verdict in look.verdicts.values()),
        "load_error": load_error(look, measured.site_cores(placement, rates)),
        "load_average": look.load_average,
        "lost_ground": " ".join(site for site, verdict in look.verdicts.items() if verdict.reasons),
    }


def conclude(rows: Sequence[Row]) -> list[str]:
    """How many points came out as predicted, apart from those too close to call, and the shares."""
    known = [row for row in rows if row["measured"] != -1]
    clear = [row for row in known if abs(float(row["predicted_utilisation"]) - 1.0) > GREY]
    agree = sum(row["predicted"] == row["measured"] for row in known)
    agree_clear = sum(row["predicted"] == row["measured"] for row in clear)
    lines = [
        f"{agree} of {len(known)} points came out as predicted; of those predicted more than {GREY:.0%} away "
        f"from the edge {agree_clear} of {len(clear)}; {len(rows) - len(known)} undecided (disturbed)."
    ]
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = [row for row in known if row["policy"] == policy]
        if own:
            measured, predicted = (
                np.mean([int(row[key]) for row in own]) for key in ("measured", "predicted")
            )
            lines.append(
                f"{policy}: {measured:.0%} of the ideal set measured, {predicted:.0%} predicted "
                f"(over {len(own)} points)."
            )
    return [*lines, load_sentence([float(row["load_error"]) for row in rows])]


def draw(rows: Sequence[Row]) -> Figure:

    figure, (shares, points) = panels(10, 4, 2)
    policies = list(dict.fromkeys(str(row["policy"]) for row in rows))
    for at, policy in enumerate(policies):
        known = [row for row in rows if row["policy"] == policy and row["measured"] != -1]
        for shift, key, alpha in ((-0.2, "predicted", 0.4), (0.2, "measured", 1.0)):
            value = float(np.mean([int(row[key]) for row in known])) if known else 0.0
            label = key if at == 0 else None
            shares.bar(at + shift, value, 0.36, color=colour_of(policy), alpha=alpha, label=label)
        for row in (row for row in rows if row["policy"] == policy):
            marker = {1: "o", 0: "x", -1: "$?$"}[int(row["measured"])]
            alpha = 1.0 if row["how"] == "looked" else 0.3
            points.plot(
                at + 0.08 * (int(row["ray"]) - 1.5),
                float(row["predicted_utilisation"]),
                marker=marker,
                color=colour_of(policy),
                alpha=alpha,
            )
    shares.set(ylabel="feasible share of the ideal set", ylim=(0, 1))
    shares.legend(frameon=False)
    points.axhline(1.0, color="black", linewidth=0.8)
    points.axhspan(1.0 - GREY, 1.0 + GREY, color="grey", alpha=0.15)
    points.set(
        ylabel="predicted utilisation of the busiest site",
        title="o kept up, x overloaded, ? undecided, faint: not run",
    )
    for axes in (shares, points):
        axes.set_xticks(range(len(policies)), policies)
        tidy(axes)
    return figure


SPARK_FEASIBLE_SET = Experiment(
    name="spark_feasible_set",
    title="Feasible set measured on Spark against the prediction",
    source="Resilient operator distribution, sections 7.1 and 7.3.1, on the quota bench",
    columns={
        "policy": "policy",
        "ray": "direction from the origin",
        "ideal_share": "how far out, the ideal set's edge being 1",
        "predicted_utilisation": "of the busiest site, by the measured statistics",
        "predicted": "1: feasible",
        "measured": "1: every site kept up, 0: one did not, -1: undecided",
        "how": "looked at, inferred from another point of the ray, or unknown",
        "utilisation": "CPU over quota of the busiest site, measured",
        "load_error": "largest |predicted / measured load - 1| of a site where all kept up",
        "load_average": "of the machine meanwhile",
        "lost_ground": "sites that did not keep up, overloaded or held back by the machine",
    },
    summaries=(
        Summary(
            by=("policy",),
            where=lambda row: row["measured"] != -1,
            shown=(
                Shown("measured", "feasible, measured", how="mean alone"),
                Shown("predicted", "predicted", how="mean alone"),
                Shown("load_error", "load error", how="mean alone"),
                Shown("load_error", "largest", how="largest"),
            ),
            counted="points",
        ),
    ),
    setting="Three sites of half a core, nine delay operators in three trees; points along rays.",
    run=run,
    draw=draw,
    conclude=conclude,
    drives_sites=True,
)
