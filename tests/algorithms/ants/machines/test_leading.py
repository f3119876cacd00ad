"""What leaders do beside placing by the best of all reports: the early choice, what is deployed, paths that
fail, and chains that end or are placed anew."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from lab.faults.ants_invariants import QUICK, ring_facts, some_chain
from lab.faults.checkers import Step, WorldView
from lab.faults.harness import Harness
from lab.faults.placing_ants import (
    CurrentLatency,
    EndChain,
    FetchLatency,
    PlaceChain,
    PlacingSite,
    ReplaceChain,
    ants_machines,
    chain_spec,
)
from lab.faults.scenario import Scenario
from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.briefing import site_facts
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.machines.colony_params import ColonyParams
from mooring.algorithms.ants.machines.messages import (
    ChainSpec,
    Discouraging,
)
from mooring.algorithms.ants.machines.scouting import new_scout
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.contracts.site_machine import Data, Output, Received, Send, Started
from mooring.model.load.build import build_load_model
from mooring.model.problem.latencies import as_matrix
from tests.algorithms.ants.latency_problems import chains

FEW = AntParams(routing_ants=5, scouts=20)


class Told:
    """What machines tell their users."""

    name = "what is told"

    def __init__(self) -> None:
        self.values = list[Data]()

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self.values += [effect.value for effect in step.effects if isinstance(effect, Output)]
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class Placed:
    """One chain of three on ten sites, placed by machines."""

    def __init__(self, ants: AntParams) -> None:
        problem = chains(np.random.default_rng(5), sites=10, queries=1, tasks=(3, 3))
        self.search = LatencySearch.of(problem, build_load_model(problem))
        neighbours = neighbours_of(problem.network, 10, np.random.default_rng(0))
        facts = site_facts(self.search, neighbours)
        assert problem.network.latency_ms is not None
        latency_ms = tuple(map(tuple, as_matrix(problem.network.latency_ms).tolist()))
        self.told = Told()
        self.harness = Harness(
            Scenario(0, latency_ms, 1e12),
            ants_machines(lambda sites: facts, ColonyParams(ants, at_once=1)),
            (self.told,),
        )
        self.spec = chain_spec(0, self.search.chains[0], self.search.model.pinned_site.astype(np.int64))
        self.ask(PlaceChain(self.spec))

    def ask(self, request: Data) -> None:
        self.harness.ask(self.spec.source, request)
        self.harness.run_until(self.harness.now_ms + 20_000.0)
        assert self.harness.violation is None, self.harness.violation

    @property
    def leader(self) -> PlacingSite:
        found: PlacingSite = self.harness.machine(self.spec.source)
        return found

    @property
    def sites(self) -> list[int]:
        led = self.leader.leader.led[0]
        return [s.site for s in led.segments for _ in range(s.first, s.last + 1)]


def test_an_outstanding_report_is_taken_at_once() -> None:
    """Nothing else runs: the first report costs nobody anything."""
    ants = {outstanding: Placed(replace(FEW, outstanding=outstanding)) for outstanding in (0.0, 0.1)}
    assert all(len(each.sites) == 3 for each in ants.values())
    steps = {outstanding: each.harness.steps for outstanding, each in ants.items()}
    assert steps[0.1] < steps[0.0] / 2


def test_an_ant_fetches_the_latency_of_what_is_deployed() -> None:
    placed = Placed(FEW)
    placed.ask(FetchLatency(0))
    (told,) = (value for value in placed.told.values if isinstance(value, CurrentLatency))
    expected_s = placed.search.mean_latency_s(np.array(placed.sites))
    assert told.latency_s == pytest.approx(expected_s, rel=0.02)


def test_what_ends_is_free_and_what_is_placed_anew_is_counted_as_it_is_now() -> None:
    placed = Placed(FEW)

    def load() -> float:
        return sum(float(placed.harness.machine(s).deployed.totals[1]) for s in range(10))

    before = load()
    heavier: ChainSpec = msgspec.structs.replace(
        placed.spec, tasks=tuple((row[0], 1.5 * row[1], *row[2:]) for row in placed.spec.tasks)
    )
    placed.ask(ReplaceChain(heavier))
    assert load() == pytest.approx(1.5 * before)
    placed.ask(EndChain(0))
    assert (load(), placed.leader.leader.led[0].status) == (0.0, "ended")


def test_scouts_that_failed_wait_until_enough_of_different_greediness_have() -> None:
    """Then one goes back over their path and discourages it; the others are gone."""
    site = PlacingSite(2, ring_facts(4)[2], QUICK)
    site.handle(Started(0, None), 0.0)
    chain = msgspec.structs.replace(some_chain(0, 4), destination=2)
    drawn = new_scout(chain, 1, 0, 0, QUICK.ants)

    def arrives(greed: int, path: tuple[int, ...] = (0, 1, 2)) -> list[Data]:
        """With no room at all for what it carries."""
        scout = msgspec.structs.replace(drawn, greed=greed, limit=1e-6, path=path)
        return [e.message for e in site.handle(Received(1, scout), 0.0) if isinstance(e, Send)]

    failures = QUICK.ants.failures
    for greed in range(1, failures):
        assert arrives(greed) == arrives(greed) == []
    assert arrives(failures, (0, 3, 2)) == [], "another path"
    assert arrives(failures) == [Discouraging(2, (0, 1, 2), 1)]
    assert arrives(failures) == [], "the others of this path are gone"
