"""The queueing model (section 3.6 of the ants paper) against simulated queues: equation 9, with the factor of
Kraemer and Langenbach-Belz, and corrected at every load.

Part one is a single site under arrivals and services of many variabilities: waits of the three forms beside
those of tuples in virtual time. Part two are random placements of random chains:
mean latency of the queries, and whether pairs of placements that differ by more than a tenth are ranked
right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.ants.mixed_queries import drawn_queries
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.load.queued.station import Form
from mooring.model.placement.placement import Placement
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem
from mooring.progress import Report
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.simulate import simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS: tuple[Form, ...] = ("paper", "klb", "corrected")
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
VARIABILITIES = (0.25, 0.5, 1.0, 2.0, 4.0)
FULLEST, PLACEMENTS = 0.9, 4
AS_MODELLED = Behaviour(to_completion=True, drawn=True)
SERVICE_S = 0.001
SITES, QUERIES = 6, 9
NEARER = 50.0
"""Latencies are shorter by this, so that queues are what counts."""


@dataclass(frozen=True)
class Trial:
    part: str
    load: float
    arrivals: float
    service: float
    number: int
    tuples: int
    seed: int


def hold_against(trial: Trial) -> list[Row]:
    return _one_site(trial) if trial.part == "one site" else _random_placements(trial)


def _row(trial: Trial, form: str, model_ms: float, simulated_ms: float, service_ms: float = 0.0) -> Row:
    return {
        "part": trial.part,
        "form": form,
        "load": trial.load,
        "arrivals": trial.arrivals,
        "service": trial.service,
        "number": trial.number,
        "model_ms": model_ms,
        "simulated_ms": simulated_ms,
        "off": abs(model_ms / simulated_ms - 1.0),
        "off_latency": abs(model_ms - simulated_ms) / (simulated_ms + service_ms),
        "ranked_right": float("nan"),
    }


def _one_site(trial: Trial) -> list[Row]:
    """Its mean wait: latency less service, as the services were drawn; at light load they vary by more than
    the wait is."""
    rate = trial.load / SERVICE_S
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"x": {"rate": rate, "variability": trial.arrivals, "site": "a"}},
            "operators": {"f": {"inputs": ["x"], "cost_us": 1e6 * SERVICE_S, "variability": trial.service}},
            "queries": {"q": {"reads": "f", "site": "a"}},
        }
    )
    seconds = trial.tuples / rate
    report = simulate(
        problem, {"f": "a"}, seconds=seconds, warm_up_s=seconds / 20, behaviour=AS_MODELLED, seed=trial.seed
    )
    service_ms = 1e3 * report.sites["a"].utilisation / report.stream_rates["x"]
    simulated_ms = report.queries["q"].latency.mean_ms - service_ms
    waits_ms = {form: 1e3 * float(queued_latencies(problem, [0], form).site_wait_s[0]) for form in FORMS}
    return [_row(trial, form, waits_ms[form], simulated_ms, service_ms) for form in FORMS]


def _random_placements(trial: Trial) -> list[Row]:
    """Several of one problem: errors of the mean latency, and the share of pairs ranked right."""
    rng = np.random.default_rng([trial.seed, trial.number])
    problem = drawn_queries(rng, SITES, QUERIES, chains_only=True).problem
    assert problem.network.latency_ms is not None
    problem = replace(problem, network=Network(as_matrix(problem.network.latency_ms) / NEARER))
    found: list[tuple[float, dict[Form, float]]] = []
    for _ in range(200):
        sites = rng.integers(len(problem.sites), size=len(problem.fragments))
        where = Placement(problem, sites).site_of_operator.tolist()
        if queued_latencies(problem, where).site_utilisation.max() > FULLEST:
            continue
        report = simulate(
            problem,
            Placement(problem, sites),
            seconds=max(trial.tuples / 125.0, 60.0),
            warm_up_s=10,
            behaviour=AS_MODELLED,
            seed=trial.seed,
        )
        simulated = np.mean([report.queries[query.name].latency.mean_ms for query in problem.queries])
        own = {form: 1e3 * float(queued_latencies(problem, where, form).query_s.mean()) for form in FORMS}
        found.append((float(simulated), own))
        if len(found) == PLACEMENTS:
            break
    rows = []
    for form in FORMS:
        right = [
            (one[0] < other[0]) == (one[1][form] < other[1][form])
            for one, other in combinations(found, 2)
            if abs(one[0] / other[0] - 1.0) > 0.1
        ]
        for simulated_ms, own in found:
            row = _row(trial, form, own[form], simulated_ms)
            row["ranked_right"] = float(np.mean(right)) if right else float("nan")
            rows.append(row)
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    tuples, placements = (20_000, 2) if quick else (4_000_000, 15)
    loads = (0.5, 0.9) if quick else LOADS
    variabilities = VARIABILITIES[::2] if quick else VARIABILITIES
    trials = [
        Trial("one site", load, arrivals, service, 0, tuples, seed)
        for load in loads
        for arrivals in variabilities
        for service in variabilities
    ]
    trials += [
        Trial("placements", 0.0, 0.0, 0.0, n, min(tuples, 500_000) // 10, seed) for n in range(placements)
    ]
    return run_trials(hold_against, trials, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, sides = panels(9, 4, 2)
    for axes, part in zip(sides, ("one site", "placements"), strict=True):
        for form, marker in zip(FORMS, ("x", "+", "."), strict=True):
            own = [row for row in rows if (row["part"], row["form"]) == (part, form)]
            simulated = [float(row["simulated_ms"]) for row in own]
            axes.plot(simulated, [float(row["model_ms"]) for row in own], marker, label=form)
        both = [float(row["simulated_ms"]) for row in rows if row["part"] == part]
        axes.plot([min(both), max(both)], [min(both), max(both)], "k-", linewidth=0.5)
        axes.set(xscale="log", yscale="log", xlabel="simulated, ms", ylabel="model, ms", title=part)
        finish(axes)
    return figure


def _errors(part: str, by: tuple[str, ...], title: str) -> Summary:
    shown: tuple[Shown, ...] = (Shown("off"), Shown("off", "largest", how="largest"))
    if part == "placements":
        shown += (Shown("ranked_right", how="mean alone"),)
    else:
        shown += (Shown("off_latency", "largest of latency", how="largest"),)
    return Summary(title=title, by=by, shown=shown, where=lambda row: row["part"] == part)


def conclude(rows: Sequence[Row]) -> list[str]:
    alone = [row for row in rows if row["part"] == "one site"]
    own = [row for row in rows if (row["part"], row["form"]) == ("placements", "corrected")]
    right = [float(row["ranked_right"]) for row in own if float(row["ranked_right"]) >= 0.0]
    largest = max(float(row["off"]) for row in own)
    return [
        *(_worst(form, [row for row in alone if row["form"] == form]) for form in ("klb", "corrected")),
        f"Latencies of random placements are off by at most {largest:.1%} where corrected, and "
        f"{np.mean(right):.1%} of the pairs that differ by more than a tenth are ranked right.",
    ]


def _worst(form: str, rows: Sequence[Row]) -> str:
    worst = max(rows, key=lambda row: float(row["off"]))
    wrong = sum(float(row["off"]) > 0.1 for row in rows)
    of_latency = max(float(row["off_latency"]) for row in rows)
    return (
        f"{form}: off by at most {float(worst['off']):.1%} of the wait (load {worst['load']}, arrivals "
        f"{worst['arrivals']:g}, service {worst['service']:g}), by more than a tenth in {wrong} of "
        f"{len(rows)} cases, and by at most {of_latency:.1%} of the latency at the site, wait and service."
    )


ANTS_QUEUEING = Experiment(
    name="ants_queueing",
    title="Waits and latencies of the queueing model against simulations",
    source="Ants, section 3.6",
    columns={
        "part": "one site (its mean wait), or placements (mean latency of all queries)",
        "form": "paper (equation 9), klb (Kraemer and Langenbach-Belz) or corrected (the default)",
        "load": "utilisation of the site",
        "arrivals": "squared coefficient of variation of the times between tuples",
        "service": "the same of their costs",
        "number": "number of the problem",
        "model_ms": "by the model",
        "simulated_ms": "of tuples in virtual time",
        "off": "how far the model is off, relative to the simulation",
        "off_latency": "the same, relative to the latency: wait and service",
        "ranked_right": "share in the right order of pairs of placements that differ by more than a tenth",
    },
    summaries=(
        _errors("one site", ("form", "load"), "Mean wait at one site, variabilities .25 to 4"),
        _errors("placements", ("form",), "Mean latency of random placements at utilisations to .9"),
    ),
    setting="Four million tuples per load and variabilities; nine chains on six sites, placed four times.",
    run=run,
    draw=draw,
    conclude=conclude,
)
