"""What each decider is worth in scenarios, beside never moving and a planner that foresees everything.

Ten scenarios are told (`scenarios.py`), the others are drawn by their number. The planner that foresees
replans every fifteen seconds by `llf` for the rates to come, and its moves take no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.experiments.adapting.scenarios import SCENARIOS, Scenario, drawn
from lab.experiments.experiment import Experiment
from lab.experiments.figures import finish, panels
from lab.experiments.summary import Shown, Summary
from lab.experiments.trials import Row, run_trials
from mooring.algorithms.catalogue import DECIDERS
from mooring.progress import Report
from mooring.simulator.data_plane.workload import workload
from mooring.simulator.runs.adapted_run import Circumstances, run_adapted
from mooring.simulator.runs.variants import decided_by, foreseeing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORESEEING = "foreseeing"
DRAWN = 20
WAYS = (*dict.fromkeys(make_way for make_way in DECIDERS), FORESEEING)
LESS_ROOM, LATER, OF_HEADROOM, OF_FORESEEING = 0.02, 1.05, 0.05, 0.10
"""What a decider may be below never moving in room, and above it in mean latency; below `headroom` in room;
and `headroom` below the planner that foresees."""


@dataclass(frozen=True)
class Case:
    way: str
    scenario: str
    seed: int = 0


def circumstances(scenario: Scenario, seed: int) -> Circumstances:
    problem = scenario.problem
    return Circumstances(
        problem,
        scenario.start,
        problem.changes,
        scenario.seconds,
        tuple(workload(problem, changes=problem.changes, seed=seed)),
        seed=seed,
    )


def course(case: Case) -> list[Row]:
    scenario = SCENARIOS[case.scenario]() if case.scenario in SCENARIOS else drawn(int(case.scenario))
    made = circumstances(scenario, case.seed)
    way = foreseeing(made, 15.0, "llf") if case.way == FORESEEING else decided_by(case.way)
    report = run_adapted(made, way)
    known = {k: float("nan") if v is None else v for k, v in report.summary().items()}
    by_net = sum("safety net" in move.asked_by for move in report.moves)
    return [{"scenario": case.scenario, "way": case.way, **known, "by_net": by_net}]


def run(*, seed: int, quick: bool, report: Report) -> list[Row]:
    names = [*SCENARIOS, *(() if quick else map(str, range(DRAWN)))]
    ways = [way for way in WAYS if not quick or way in ("none", "headroom", FORESEEING)]
    return run_trials(course, [Case(way, name, seed) for name in names for way in ways], report)


def overloaded(rows: Sequence[Row]) -> set[str]:
    """Scenarios in which a site is too full for long if nothing moves, and need not be."""
    room = {(row["scenario"], row["way"]): float(row["room_share"]) for row in rows}
    return {
        str(name)
        for name, way in room
        if way == FORESEEING and room[name, FORESEEING] > room[name, "none"] + OF_HEADROOM
    }


def broken(rows: Sequence[Row]) -> list[str]:
    """Bounds that do not hold, in words."""
    at = {(str(row["scenario"]), str(row["way"])): row for row in rows}
    too_full, found = overloaded(rows), []
    for (name, way), row in at.items():
        if way in ("none", FORESEEING):
            continue
        none, room = at[name, "none"], float(row["room_share"])
        if room < float(none["room_share"]) - LESS_ROOM:
            found.append(f"{name}, {way}: room {room:.2f}, never moving {none['room_share']:.2f}")
        if float(row["mean_latency_ms"]) > LATER * float(none["mean_latency_ms"]):
            found.append(
                f"{name}, {way}: {row['mean_latency_ms']:,.0f} ms, never moving "
                f"{none['mean_latency_ms']:,.0f} ms"
            )
        best = float(at[name, "headroom"]["room_share"])
        if name in too_full and room < best - OF_HEADROOM:
            found.append(f"{name}, {way}: room {room:.2f}, headroom {best:.2f}")
        if name in too_full and way == "headroom":
            seen = float(at[name, FORESEEING]["room_share"])
            if room < seen - OF_FORESEEING:
                found.append(f"{name}, headroom: room {room:.2f}, foreseeing {seen:.2f}")
    return found


def conclude(rows: Sequence[Row]) -> list[str]:
    found = broken(rows)
    names = len({row["scenario"] for row in rows})
    bounds = (
        f"Bounds: at most {LESS_ROOM:g} less room than never moving and {LATER - 1:.0%} more latency; where "
        f"sites are too full, at most {OF_HEADROOM:g} less room than headroom, and headroom at most "
        f"{OF_FORESEEING:g} less than foreseeing."
    )
    return [
        f"{names} scenarios, {len(overloaded(rows))} of them overloads. {bounds}",
        f"Not held {len(found)} times" + (":" if found else "."),
        *found,
    ]


def draw(rows: Sequence[Row]) -> Figure:
    figure, (axes,) = panels(8, 4)
    ways = list(dict.fromkeys(str(row["way"]) for row in rows))
    too_full = overloaded(rows)
    rooms = [
        [float(r["room_share"]) for r in rows if r["way"] == way and r["scenario"] in too_full]
        for way in ways
    ]
    axes.boxplot(rooms, tick_labels=ways)
    axes.tick_params(axis="x", rotation=30)
    axes.set(ylabel="room, overloads", ylim=(0, 1.05))
    finish(axes)
    return figure


ADAPTING_SCENARIOS = Experiment(
    name="adapting_scenarios",
    title="Deciders in bursts, overloads, slow links, losses and joins",
    source="deciders of Mooring, in scenarios that are told and drawn",
    columns={
        "scenario": "its name, or its number where it is drawn",
        "way": "the decider; foreseeing: llf every 15 s for the rates to come, moves free",
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
        "by_net": "moves of the safety net, instead of the decider's",
    },
    summaries=(
        Summary(
            title="scenarios that are told",
            by=("scenario", "way"),
            shown=(
                Shown("room_share", "room"),
                Shown("mean_latency_ms", "mean ms"),
                Shown("limits_met_share", "in limits"),
                Shown("moves", "moves"),
                Shown("by_net", "by net"),
            ),
            where=lambda row: row["scenario"] in SCENARIOS,
            counted="",
        ),
        Summary(
            title="all scenarios",
            by=("way",),
            shown=(
                Shown("room_share", "room"),
                Shown("mean_latency_ms", "mean ms"),
                Shown("limits_met_share", "in limits"),
                Shown("moves", "moves"),
                Shown("by_net", "by net"),
            ),
        ),
    ),
    run=run,
    draw=draw,
    setting=f"Ten scenarios of 300 to 600 s that are told, and {DRAWN} that are drawn; placed by rod.",
    conclude=conclude,
)
