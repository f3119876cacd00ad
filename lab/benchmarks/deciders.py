"""What one look costs a decider where there is much to decide about.

    python -m lab.benchmarks deciders

So many fragments at 100 sites, with PlanetLab's latencies between them; a quarter of the streams have doubled
their rates, so that there is something to decide. First: the first look, at which plans are made and tables
laid out. Later: the look after it. *relaxation, run session* is what the session does for the optimisers of
all sites at a look; *relaxation, one site* is a whole review of all fragments at the site that has most of
them, probes, answers and all. Seconds are of CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.networks.measured_series import planetlab_series
from mooring.algorithms.catalogue import Deciding, make_decider
from mooring.algorithms.relaxation.briefing import OptimiserBriefing
from mooring.algorithms.relaxation.machines.fragment_specs import fragment_specs
from mooring.algorithms.relaxation.machines.messages import Ping, Pong, Probe, Probed
from mooring.algorithms.relaxation.machines.optimiser import Optimiser
from mooring.algorithms.relaxation.machines.params import AGENTS
from mooring.arrays import Floats
from mooring.cli.output.result_table import ResultTable
from mooring.contracts.decider import Decider, Observation
from mooring.contracts.engine import FragmentReport
from mooring.contracts.engine import Measurement as Measured
from mooring.contracts.picture import Picture, picture_of
from mooring.contracts.site_machine import Data, Effect, Received, Send, Started, TimerDue
from mooring.coordination.move_messages import StartedAt, Whereabouts, mover_of
from mooring.coordination.site_decider import ProtocolDecider
from mooring.model.network.coordinate import Coordinate
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.places import Places
from mooring.model.problem.problem import Problem
from mooring.planning import plan

SITES, STREAMS, QUERIES = 100, 20, 60
SIZES = (1_000, 10_000)
NAMES = ("none", "headroom", "replan", "overlay-central", "ants-central")
GROWN = STREAMS // 4


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    rows: dict[str, dict[str, str | float]] = {}
    for size in SIZES:
        problem, placement, rates = busy_world(size)
        for name, step in steps(problem, placement, rates):
            first_s, later_s = seconds(step), seconds(step)
            row = rows.setdefault(name, {"decider": name})
            row |= {f"{size:,} first": first_s, f"{size:,} later": later_s}
    yield ResultTable.of("CPU seconds of a look, by fragments", list(rows.values()))


def busy_world(fragments: int) -> tuple[Problem, Placement, Floats]:
    latency_ms = planetlab_series()[0, :SITES, :SITES] / 2.0
    parameters = GraphParameters(
        streams=STREAMS,
        operators=fragments,
        sites=SITES,
        queries=QUERIES,
        stream_bytes=100.0,
        utilisation=0.6,
    )
    places = Places(tuple(f"n{i}" for i in range(SITES)), latency_ms)
    problem = generate_problem(parameters, np.random.default_rng(0), places)
    rates = problem.rates.copy()
    rates[:GROWN] *= 2.0
    return problem, plan(problem, "llf", seed=0).placement, rates


def steps(
    problem: Problem, placement: Placement, rates: Floats
) -> Iterator[tuple[str, Callable[[], object]]]:
    capacity, latency_ms = problem.capacity_cores, problem.network.latency_ms

    def picture() -> Picture:
        """As at a look: nothing is known of it yet but what was measured."""
        seen = problem.in_circumstances(rates=rates, capacity_cores=capacity, latency_ms=latency_ms)
        return replace(picture_of(problem, placement, rates), problem=seen)

    for name in NAMES:
        yield name, _Looks(make_decider(name, Deciding("llf")), [picture(), picture()]).look
    session = ProtocolDecider("relaxation", problem, _NoPeers(), OptimiserBriefing)
    seen, pictures = _observed(placement), iter([picture(), picture()])

    def look() -> None:
        session.observe(seen, busy=False)
        session.decide(next(pictures))

    yield "relaxation, run session", look
    yield "relaxation, one site", _BusySite(placement).review


class _Looks:
    def __init__(self, decider: Decider, pictures: list[Picture]) -> None:
        self._decider, self._pictures = decider, pictures

    def look(self) -> None:
        self._decider.decide(self._pictures.pop())


def seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


class _NoPeers:
    def poll(self) -> Sequence[tuple[int, Data]]:
        return ()

    def send(self, site: int, message: Data) -> None:
        pass

    def ask(self, site: int, request: Data) -> None:
        pass

    def out_of_reach(self) -> Sequence[int]:
        return ()


def _observed(placement: Placement) -> Observation:
    homes = placement.by_fragment()
    reports = {name: FragmentReport(site, True, 1.0, 1.0, 0.1, epoch=1) for name, site in homes.items()}
    sites = FragmentSites(dict(homes))
    return Observation(0.0, sites, Measured(5.0, 5.0, fragments=reports), {}, sites)


class _BusySite:
    """The optimiser of the site with most fragments, among peers that answer at once."""

    def __init__(self, placement: Placement) -> None:
        problem, where = placement.problem, placement.site_of_fragment
        self._site = int(np.argmax(np.bincount(where)))
        self._latency_ms = problem.network.latency_ms
        self._machine = Optimiser(
            self._site,
            SITES,
            np.random.default_rng(0),
            AGENTS,
            fragment_specs(problem),
            float(problem.capacity_cores[self._site]),
        )
        self._take(self._machine.handle(Started(0, None), 0.0), 0.0)
        self._places = tuple(StartedAt(f, int(site), 1) for f, site in enumerate(where))
        self._now_ms = 0.0
        for _ in range(4 * SITES):  # several measurements of every other site
            self._round()

    def review(self) -> None:
        """At the first one it hears what runs, and reconsiders everything that runs here."""
        self._machine.handle(Received(mover_of(SITES), Whereabouts(self._places, whole=True)), self._now_ms)
        for _ in range(AGENTS.rounds_per_review):
            self._round()

    def _round(self) -> None:
        self._now_ms += AGENTS.period_ms
        self._take(self._machine.handle(TimerDue(), self._now_ms), self._now_ms)

    def _take(self, effects: Sequence[Effect], now_ms: float) -> None:
        """Peers say where they are and how far from everything, and have room for nothing."""
        assert self._latency_ms is not None
        for effect in effects:
            if not isinstance(effect, Send) or effect.to >= SITES:
                continue
            far_ms = float(self._latency_ms[self._site, effect.to])
            answer: Data = None
            if isinstance(effect.message, Ping):
                at = Coordinate((float(effect.to), far_ms, 0.0)[: AGENTS.vivaldi.dimensions])
                answer = Pong(now_ms - 2.0 * far_ms, at, 0.0)
            elif isinstance(effect.message, Probe):
                asked = effect.message
                ends_ms = tuple(float(self._latency_ms[effect.to, end]) for end in asked.ends)
                answer = Probed(asked.fragment, asked.attempt, ends_ms, 0.0, 1.0)
            if answer is not None:
                self._take(self._machine.handle(Received(effect.to, answer), now_ms), now_ms)


DECIDERS = Measurement(
    "deciders",
    "What one look costs a decider",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(DECIDERS, sys.argv[1:])
