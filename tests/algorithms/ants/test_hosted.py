"""Ants as agents have them: few while nothing changes, and quick when something does.

Three sites of half a core in micro-batches of four seconds, a chain that begins at the first and one at the
second, as on Spark (`lab/benchmarks/spark_ants.py`).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from lab.faults.adaptive_run import Orders
from lab.faults.checkers import Step, WorldView
from lab.faults.harness import Harness
from lab.faults.runner_model import JudgedMover
from lab.faults.scenario import Scenario
from mooring.agents.transport.wire import StrictDecoder
from mooring.algorithms.ants.briefing import running_chain, site_facts
from mooring.algorithms.ants.hosted import AGENTS, OFTEN, hosted_ants
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.machines.messages import (
    ChainSpec,
    RoutingAnt,
    RoutingReturn,
    ScoutAnt,
    ScoutReturn,
    Segment,
)
from mooring.algorithms.ants.machines.running_messages import KnownColony, OtherFragment
from mooring.algorithms.ants.machines.running_site import running_machines
from mooring.algorithms.ants.machines.scout_encoding import light, whole
from mooring.contracts.site_machine import Send, SiteMachine
from mooring.coordination.move_messages import StartedAt, Whereabouts
from mooring.coordination.mover import CarriedOut
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem

ADA, BEA, CLEO, MOVER = range(4)
HOMES = (ADA, ADA, ADA, BEA, BEA)
"""Of a0, a1, a2, b0 and b1."""


def problem(a_per_s: float = 25.0, bea_cores: float = 0.5) -> Problem:
    def operator(reads: str, cost_us: float, **more: object) -> dict[str, object]:
        return {"inputs": [reads], "cost_us": cost_us, "fixed_cores": 0.06, **more}

    return Problem.from_dict(
        {
            "sites": {"ada": {"capacity": 0.5}, "bea": {"capacity": bea_cores}, "cleo": {"capacity": 0.5}},
            "latency_ms": {"ada": {"bea": 20, "cleo": 20}, "bea": {"cleo": 20}},
            "streams": {"a": {"rate": a_per_s, "site": "ada"}, "b": {"rate": 25, "site": "bea"}},
            "operators": {
                "a0": operator("a", 500, site="ada"),
                "a1": operator("a0", 2000),
                "a2": operator("a1", 2000),
                "b0": operator("b", 500, site="bea"),
                "b1": operator("b0", 2000),
            },
            "queries": {"of_a": {"reads": "a2", "site": "ada"}, "of_b": {"reads": "b1", "site": "bea"}},
        }
    )


def known(problem: Problem, beta: float) -> list[KnownColony]:
    """As the run session tells it."""
    model = build_load_model(problem)
    search = LatencySearch.of(problem, model, 4.0)
    rows = np.arange(len(problem.fragments))
    chains = tuple(running_chain(number, chain, rows) for number, chain in enumerate(search.chains))
    chained = {fragment for chain in search.chains for fragment in chain.fragments}
    others = tuple(
        OtherFragment(
            f, (*search.fragments.flow[f].tolist(), float(model.fixed_cores[f]), float(model.memory_mb[f]))
        )
        for f in range(len(rows))
        if f not in chained
    )
    neighbours = [(BEA, CLEO), (ADA, CLEO), (ADA, BEA)]
    return [KnownColony(facts, chains, others, beta) for facts in site_facts(search, neighbours)]


class BetweenSites:
    """Bytes that agents send others."""

    name = "bytes are counted"

    def __init__(self) -> None:
        self.bytes_sent = 0

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Send) and step.site != MOVER and effect.to != step.site:
                self.bytes_sent += len(msgspec.msgpack.encode(effect.message))
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class Running:
    """The three sites and a mover that carries out at once whatever is proposed."""

    def __init__(self, beta: float, seed: int) -> None:
        self.beta, self.sent, self._orders = beta, BetweenSites(), Orders()
        self.moves: list[tuple[float, int, int]] = []
        """When, fragment and site."""
        first = known(problem(), beta)
        make_site = running_machines(lambda sites: first, replace(AGENTS, seed=seed), OFTEN)

        def make(site: int, count: int, generator: np.random.Generator) -> SiteMachine:
            if site == MOVER:
                return JudgedMover(MOVER, lambda proposed: None, 500.0)
            return make_site(site, MOVER, generator)

        latency_ms = tuple(tuple(5.0 * (a != b) for b in range(4)) for a in range(4))
        self.harness = Harness(Scenario(0, latency_ms, 1e9), make, (self._orders, self.sent))
        self.harness.ask(MOVER, Whereabouts(tuple(StartedAt(f, s, 0) for f, s in enumerate(HOMES)), True))

    def change(self, problem: Problem) -> None:
        for site, colony in enumerate(known(problem, self.beta)):
            self.harness.ask(site, colony)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.harness.run_until(self.harness.now_ms + 1e3)
            assert self.harness.violation is None, self.harness.violation
            orders, self._orders.waiting = self._orders.waiting, []
            for move in [m for order in orders for each in order.proposals for m in each.plan.moves]:
                self.moves.append((self.harness.now_ms / 1e3, move.fragment, move.to_site))
                place = StartedAt(move.fragment, move.to_site, move.epoch + 1)
                self.harness.ask(MOVER, Whereabouts((place,)))
            if orders:
                self.harness.ask(MOVER, CarriedOut())


@pytest.mark.parametrize("seed", range(3))
def test_a_burst_and_a_lowered_capacity_are_answered_at_the_next_looks(seed: int) -> None:
    """Although most scouts find no room then: nobody waits for those that fail, and where none finds any,
    more go up to the limits."""
    running = Running(1.5, seed)
    running.run(60)
    assert running.moves == []
    running.change(problem(a_per_s=125.0))
    running.run(12)
    assert [move[1:] for move in running.moves] == [(2, CLEO)]
    running.run(60)
    running.change(problem(a_per_s=125.0, bea_cores=0.12))
    running.run(12)
    assert [move[1:] for move in running.moves] == [(2, CLEO), (4, CLEO)]
    running.run(60)
    assert len(running.moves) == 2


def test_while_nothing_changes_ants_become_few() -> None:
    """And no more of them for a small change, to the byte."""
    calm, running, sent = Running(1.5, 0), Running(1.5, 0), list[int]()
    for _ in range(4):
        for each in (calm, running):
            each.run(60)
        sent.append(calm.sent.bytes_sent)
    running.change(problem(a_per_s=26.0))
    for each in (calm, running):
        each.run(180)
    sent.append(calm.sent.bytes_sent)
    assert calm.moves == running.moves == []
    first, later = sent[0], (sent[-1] - sent[1]) / 5
    assert later < first / 4
    assert running.sent.bytes_sent == sent[-1], "a small change stirs nobody"
    running.change(problem(a_per_s=60.0))
    running.run(60)
    assert running.sent.bytes_sent - sent[-1] > first / 2, "a large one stirs leaders"


def test_leaders_elsewhere_hear_of_a_capacity_that_nobody_tells_them() -> None:
    running = Running(1.5, 0)
    running.run(200)
    before = running.harness.machine(ADA).leader._attempt
    smaller = known(problem(bea_cores=0.3), running.beta)[BEA]
    running.harness.ask(BEA, smaller)
    running.run(12)
    assert running.harness.machine(ADA).leader._attempt > before


def test_what_ants_carry_is_read_as_it_was_sent() -> None:
    """Under the types that agents take from one another."""
    chain = ChainSpec(3, ((0.37,) * 9,) * 2, (), ADA, False, 1.1, BEA, True, 0.1)
    segments = (Segment(ADA, 0, 1, 0.7, 0.3, 0.1),)
    scout = ScoutAnt(chain, 1, 45, 2**30, 2, 0.9, 0.3, 0.1, (ADA,), segments, 2, 1.1)
    back = ScoutReturn(scout, 0.3, 1, ((0.3, 0.1),), looks_by=True, onward=0.2)
    routing = RoutingAnt(3, 45, BEA, 2**30, (ADA, CLEO), (0.0, 0.1), (0.0, 0.1), 0.1, 0.1)
    read = StrictDecoder(hosted_ants().messages)
    for ant in (scout, light(scout), light(back), routing, RoutingReturn(routing, 0)):
        assert read(msgspec.msgpack.encode(ant)) == ant
    without_path = msgspec.structs.replace(scout, path=())
    assert whole(light(back), chain) == msgspec.structs.replace(back, scout=without_path)
