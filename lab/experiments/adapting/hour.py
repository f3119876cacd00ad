"""An hour of change: every decider beside never moving, and beside replanning with what is to come.

Rates follow the World Cup site's requests, each stream another hour of its week, measured in what it had in
its first ten minutes; latencies follow PlanetLab's measurements. Deciders see what is measured every ten
seconds. Who foresees replans every ten minutes for the mean of the rates to come, and its moves cost nothing.

All begin with the same plan, which spreads load and does not look at the network. Deciders that do have good
reasons to move at first, whatever the rates. So before noise begins each of them settles: it has half an hour
of steady rates, in which guards let everything pass. The half hour of noise begins from where that leads to,
with the guards as they are.

By `relaxation` the optimisers of all sites decide by messages, in virtual time too. `ants-central` and
`overlay-central` take the place of machines and see all observations: an hour of the messages of a hundred
overlays takes longer to simulate than an hour of everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from lab.networks.measured_series import planetlab_series
from mooring.algorithms.catalogue import ALGORITHMS, Deciding, make_decider
from mooring.arrays import Floats
from mooring.controller.guards import GuardOptions
from mooring.model.placement.network_metrics import query_latencies_ms
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.changes.change import Change, Changes, LatencyChange, RateReplay
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.places import Places
from mooring.model.problem.problem import Problem
from mooring.model.problem.stream import Stream
from mooring.planning import plan
from mooring.progress import Report
from mooring.simulator.data_plane.workload import workload
from mooring.simulator.runs.adapted_run import Circumstances, Way, run_adapted
from mooring.simulator.runs.variants import decided_by, foreseeing
from mooring.traces.counts import read_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES, STREAMS, OPERATORS, QUERIES = 100, 30, 300, 60
UTILISATION = 0.5
"""Of all sites together, at the rates that were planned for."""
SECONDS = 3600.0
LOOK_S = 10.0
MOVES_PER_HOUR = 100
FORESEEING = "foreseeing"
BY_MESSAGES = ("relaxation",)
WAYS = (
    *(
        each.deciders[0] if each.name in BY_MESSAGES else each.deciders[-1]
        for each in ALGORITHMS.values()
        if each.decider
    ),
    FORESEEING,
)
NOTABLE = 0.25
"""The share by which a latency has to change, and by ten milliseconds at least, to count as a change."""
LENIENT = GuardOptions(
    moves_per_hour=10**6,
    moves_of_one_per_hour=10**6,
    most_share=1.0,
    pause_s=0.0,
    looks=1,
    least_gain=0.0,
    hysteresis=1.0,
    worth=0.0,
)
"""While deciders settle: how far they would go is not a matter of how long guards make them wait."""
SLOWER = 40.0
"""Every tuple stands for so many: costs are higher by this, and rates lower."""


@dataclass(frozen=True)
class Case:
    way: str
    kind: str
    number: int
    seed: int
    seconds: float = SECONDS


def hour(case: Case) -> list[Row]:
    """One way through one hour."""
    scenario, settling = circumstances(case), 0
    if case.kind == "noise":
        scenario, settling = _settled(case, scenario)
    course = run_adapted(scenario, _way(case.way, scenario))
    figures = course.summary() | {"settling_moves": float(settling)}
    known = {name: float("nan") if value is None else value for name, value in figures.items()}
    return [{"rates": case.kind, "way": case.way, "number": case.number, **known}]


def _settled(case: Case, scenario: Circumstances) -> tuple[Circumstances, int]:
    """The same, begun where the way leads to in as much time at steady rates; how many moves that took."""
    calm = replace(circumstances(replace(case, kind="steady")), guards=LENIENT)
    moves = run_adapted(calm, _way(case.way, calm)).moves
    at = dict(scenario.start.by_fragment()) | {move.fragment: move.to_site for move in moves}
    start = Placement.from_fragments(scenario.problem, FragmentSites(at))
    return replace(scenario, start=start), len(moves)


def circumstances(case: Case) -> Circumstances:
    rng = np.random.default_rng([case.seed, case.number])
    problem = _problem(rng)
    changes = _changes(problem, rng, case)
    start = plan(problem, "rod", seed=case.seed).placement
    latencies = query_latencies_ms(start, channel_ms=problem.network.channel_ms)
    queries = [
        msgspec.structs.replace(query, max_latency_ms=1.5 * latency + 500.0)
        for query, latency in zip(problem.queries, latencies, strict=True)
    ]
    problem = replace(problem, queries=tuple(queries))
    return Circumstances(
        problem,
        replace(start, problem=problem),
        changes,
        case.seconds,
        tuple(workload(problem, changes=changes, seed=case.seed)),
        seed=case.seed,
        policy="llf",
        look_s=LOOK_S,
        guards=GuardOptions(moves_per_hour=MOVES_PER_HOUR),
    )


def _way(name: str, scenario: Circumstances) -> Way:
    if name == FORESEEING:
        return foreseeing(scenario)
    return decided_by(make_decider(name, Deciding("llf")), name)


def _problem(rng: np.random.Generator) -> Problem:
    first = planetlab_series()[0, :SITES, :SITES] / 2.0
    parameters = GraphParameters(
        streams=STREAMS,
        operators=OPERATORS,
        sites=SITES,
        queries=QUERIES,
        stream_bytes=100.0,
        cost_us=(100.0 * SLOWER, 1000.0 * SLOWER),
        utilisation=UTILISATION,
    )
    return generate_problem(parameters, rng, Places(tuple(f"n{i}" for i in range(SITES)), first))


def _changes(problem: Problem, rng: np.random.Generator, case: Case) -> Changes:
    week = read_counts("worldcup98-extract").rates
    changes: list[Change] = [_rates(stream, rng, case, week) for stream in problem.streams]
    if case.kind == "changing":
        changes += _latencies(problem, case.seconds)
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _rates(stream: Stream, rng: np.random.Generator, case: Case, week: Floats) -> RateReplay:
    """An hour of the World Cup's week, or the same rate all the time, with noise around it or not."""
    minutes = int(case.seconds // 60)
    if case.kind != "changing":
        deviation = 0.1 if case.kind == "noise" else 0.0
        return _replay(stream, 10.0, rng.lognormal(0.0, deviation, 6 * minutes))
    begin = int(rng.integers(0, len(week) - minutes))
    own = week[begin : begin + minutes]
    shape = own / max(float(own[:10].mean()), 1e-9)
    return _replay(stream, 60.0, shape)


def _replay(stream: Stream, step_s: float, shape: Floats) -> RateReplay:
    rates = tuple((step_s * k, stream.rate * float(share)) for k, share in enumerate(shape))
    return RateReplay(at_s=0.0, stream=stream.name, rates=rates)


def _latencies(problem: Problem, seconds: float) -> list[Change]:
    """PlanetLab's measurements, spread over the time: every pair whose latency changed notably."""
    series = planetlab_series()[:, :SITES, :SITES] / 2.0
    found: list[Change] = []
    known = series[0].copy()
    for k, later in enumerate(series[1:], start=1):
        at_s = seconds * k / len(series)
        differs = np.abs(later - known) > np.maximum(NOTABLE * known, 10.0)
        for i, j in zip(*np.nonzero(np.triu(differs, 1)), strict=True):
            known[i, j] = known[j, i] = later[i, j]
            link = problem.sites[int(i)].name, problem.sites[int(j)].name
            found.append(LatencyChange(at_s=at_s, link=link, latency_ms=float(later[i, j])))
    return found


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    numbers, seconds = 1, 900.0 if quick else SECONDS
    cases = [
        Case(way, kind, number, seed, seconds * share)
        for kind, share in (("changing", 1.0), ("noise", 0.5))
        for number in range(numbers)
        for way in WAYS
        if kind == "changing" or way != FORESEEING
    ]
    return run_trials(hour, cases, report)


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(8, 4)
    own = [row for row in rows if row["rates"] == "changing"]
    ways = list(dict.fromkeys(str(row["way"]) for row in own))
    columns = {
        "room_share": "with room",
        "enough_room_share": "with room enough",
        "limits_met_share": "in limits",
    }
    for offset, (column, label) in enumerate(columns.items()):
        means = [float(np.mean([float(row[column]) for row in own if row["way"] == way])) for way in ways]
        axes.bar(np.arange(len(ways)) + 0.27 * offset, means, 0.25, label=label)
    axes.set_xticks(np.arange(len(ways)) + 0.27, ways)
    axes.set(ylabel="share of the time", ylim=(0, 1))
    finish(axes, ncols=3)
    return figure


def conclude(rows: Sequence[Row]) -> list[str]:
    quiet = [row for row in rows if row["rates"] == "noise"]
    moved = sum(float(row["moves"]) for row in quiet)
    most = max(float(row["most_moves_of_one"]) for row in rows if row["way"] != FORESEEING)
    return [
        f"While rates had noise alone, {moved:.0f} moves were made in {len(quiet)} runs.",
        f"No decider moved a fragment more than {most:.0f} times.",
    ]


ADAPTING_HOUR = Experiment(
    name="adapting_hour",
    title="An hour of World Cup rates and PlanetLab latencies",
    source="deciders of Mooring; data: World Cup 98 requests, PlanetLab round trips",
    columns={
        "rates": "changing (World Cup hours, PlanetLab latencies) or noise (lognormal, 10%)",
        "way": "the decider; foreseeing: replanned every ten minutes for the rates to come, moves free",
        "number": "number of the draw",
        "room_share": "share of the looks with true headroom of at least 1",
        "enough_room_share": "the same with 1.25",
        "limits_met_share": "share of queries and looks with the mean latency within the limit",
        "tuples_within_limits": "share of the tuples within their query's limit",
        "mean_latency_ms": "of all tuples that arrived",
        "p99_latency_ms": "of all tuples that arrived",
        "mean_busiest": "utilisation of the busiest site, mean over the looks",
        "moves": "moves made",
        "most_moves_of_one": "most moves of one and the same fragment",
        "pauses_s": "seconds that fragments stood still in these moves, all together",
        "settling_moves": "moves made before, at steady rates and with guards that let all pass",
    },
    summaries=(
        Summary(
            title="shares of the time, and moves",
            by=("rates", "way"),
            shown=(
                Shown("room_share", "room"),
                Shown("enough_room_share", "room enough"),
                Shown("limits_met_share", "in limits"),
                Shown("mean_latency_ms", "mean ms"),
                Shown("moves", "moves"),
                Shown("most_moves_of_one", "of one", how="largest"),
                Shown("settling_moves", "settling"),
            ),
        ),
    ),
    run=run,
    draw=draw,
    setting=f"{SITES} sites, {OPERATORS} operators, {QUERIES} queries; rod, then llf; load {UTILISATION}.",
    conclude=conclude,
)
