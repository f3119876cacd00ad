"""Beyond the SBON paper: placing queries while a tenth of the nodes are dead and a tenth lie.

Liars tell one kind of lie each: a false coordinate with great confidence, answers held back, or room they do
not have. Every node has room for a few operators. Compared with the same queries where everybody is up and
honest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.sbon.star_queries import StarQueries
from lab.experiments.sbon.table1 import Trial, networks
from lab.experiments.sbon.unreliable_sites import Deceit, UnreliableSites
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.relaxation.mapping import MappingParams
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.vivaldi import VivaldiParams
from mooring.progress import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEAD = LYING = 0.1
ROOM = 3
"""Operators per node: a thousand queries need a fifth to two thirds of all room."""
COORDINATE_DISTRUST = 6.0
"""Neighbours off by this many times the usual error are not listened to."""
CONTACT_DISTRUST = 0.4
"""Candidates whose measured latencies are off by more than this share of the predicted ones are passed
over."""
VARIANTS = {
    "relaxation": MappingParams(distrust=CONTACT_DISTRUST),
    "relaxation, estimated": MappingParams("estimated", distrust=CONTACT_DISTRUST),
    "relaxation, estimated, 25 probes": MappingParams("estimated", probes=25, distrust=CONTACT_DISTRUST),
}


@dataclass(frozen=True)
class Case:
    network: str
    number: int
    queries: int
    seed: int


def place_among_liars(case: Case) -> list[Row]:
    rng = np.random.default_rng([case.seed, case.number])
    latency_ms, _ = networks(Trial(case.network, case.number, case.queries, case.seed), rng)
    nodes = len(latency_ms)
    deceit, honest = Deceit.draw(nodes, rng, DEAD, LYING), Deceit.draw(nodes, rng, 0.0, 0.0)
    alive = np.flatnonzero(~deceit.dead)
    drawn = StarQueries.draw(case.queries, len(alive), rng)
    queries = StarQueries(alive[drawn.producers], alive[drawn.consumers])
    measured_ms, params = deceit.measured_ms(latency_ms, rng), VivaldiParams()
    spaces = [
        CostSpace(honest.embed(latency_ms, rng, None, params)),
        CostSpace(deceit.embed(measured_ms, rng, COORDINATE_DISTRUST, params)),
    ]
    room = np.full(nodes, ROOM)
    rows: list[Row] = []
    for name, mapping in VARIANTS.items():
        clean = UnreliableSites(honest, latency_ms, room)
        before, _ = queries.relaxation(
            latency_ms, spaces[0], rng, MappingParams(mapping.ranking, probes=mapping.probes), clean
        )
        dirty = UnreliableSites(deceit, measured_ms, room)
        after, report = queries.relaxation(latency_ms, spaces[1], rng, mapping, dirty)
        usage = [float(queries.usage(latency_ms, sites).mean()) for sites in (before, after)]
        overfull = np.bincount(after, minlength=nodes) > np.where(deceit.boasting, 0, ROOM)
        rows.append(
            {
                "network": case.network,
                "policy": name,
                "number": case.number,
                "extra_usage": usage[1] / usage[0] - 1.0,
                "on_dead": int(deceit.dead[after].sum()),
                "beyond_real_room": int(overfull.sum()),
                "dead_passed_over": report.ignored["it did not answer"],
                "contradictions_passed_over": report.ignored["its latency contradicts its coordinate"],
                "refusals": report.ignored["it refused the operator after advertising room"],
            }
        )
    return rows


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    count, numbers = (300, 1) if quick else (1000, 3)
    cases = [Case(net, k, count, seed) for net in ("transit-stub", "planetlab") for k in range(numbers)]
    return run_trials(place_among_liars, cases, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(7, 4)
    names = list(VARIANTS)
    for shift, network in ((-0.2, "transit-stub"), (0.2, "planetlab")):
        means = [
            100
            * np.mean([float(r["extra_usage"]) for r in rows if r["policy"] == n and r["network"] == network])
            for n in names
        ]
        axes.bar(np.arange(len(names)) + shift, means, 0.38, label=network)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="extra network usage, %", title="A tenth dead, a tenth lying")
    finish(axes)
    return figure


SBON_DECEIT = Experiment(
    name="sbon_deceit",
    title="Placement while a tenth of the nodes are dead and a tenth lie",
    source="beyond Network-aware operator placement (SBON), section 3.1.3",
    columns={
        "network": "transit-stub or planetlab",
        "policy": "policy with its settings",
        "number": "number of the network and query set",
        "extra_usage": "network usage over that of the same policy among honest nodes, all up, less 1",
        "on_dead": "operators placed on dead nodes",
        "beyond_real_room": "nodes with more operators than they have room for",
        "dead_passed_over": "times a node that did not answer was passed over",
        "contradictions_passed_over": "times a node whose latency contradicts its coordinate was passed over",
        "refusals": "times a node turned an operator down after claiming room",
    },
    summaries=(
        Summary(
            title="what it costs",
            by=("network", "policy"),
            shown=(
                Shown("extra_usage"),
                Shown("on_dead", how="largest"),
                Shown("beyond_real_room", how="largest"),
            ),
        ),
        Summary(
            title="who was passed over",
            by=("network", "policy"),
            shown=(
                Shown("dead_passed_over", "dead"),
                Shown("contradictions_passed_over", "contradicting"),
                Shown("refusals", "refusing"),
            ),
        ),
    ),
    setting="1000 queries per trial at full size, room for three operators on every node.",
    run=run,
    draw=draw,
)
