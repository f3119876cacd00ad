"""The optimisers' protocol: nothing runs twice, nothing is lost, and operators end up where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from mooring.placement.relaxation.migration import MigrationParams
from mooring.protocols.operator_moves import MoveMessage, OperatorMoves
from mooring.protocols.optimiser import Optimiser, optimiser_machines
from mooring.protocols.optimiser_messages import (
    AskMove,
    Feed,
    Hosted,
    MeasuredFlows,
    OperatorLink,
    Transfer,
    TransferRefused,
)
from mooring.protocols.optimiser_params import OptimiserParams
from mooring.protocols.protocol import Asked, Effect, MakeMachine
from mooring.simulator.harness.exploration import Subject, explore
from mooring.simulator.harness.harness import Harness
from mooring.simulator.harness.optimiser_invariants import (
    chain_layout,
    optimiser_checkers,
    optimiser_scenarios,
)
from mooring.simulator.harness.scenario import Request, Scenario

PARAMS = OptimiserParams(
    period_ms=40.0,
    rounds_per_review=8,
    migration=MigrationParams(displacement_ms=1.0, least_saving=0.05, look_again=4),
)


def test_no_invariant_breaks_under_random_faults() -> None:
    subject = Subject(optimiser_machines(chain_layout, PARAMS), optimiser_checkers)
    moves = 0
    for seed in range(30):
        harness = subject.run(optimiser_scenarios()(seed))
        assert harness.violation is None, f"seed {seed}: {harness.violation}"
        moves += sum(h.epoch for site in range(harness.sites) for h in harness.machine(site).running)
    assert moves > 60


@pytest.mark.soak
def test_no_invariant_breaks_in_a_long_campaign() -> None:
    subject = Subject(optimiser_machines(chain_layout, PARAMS), optimiser_checkers)
    result = explore(subject, optimiser_scenarios(), range(1000, 4000))
    assert result.finding is None, str(result.finding)


class Impatient(OperatorMoves):
    """Runs an operator here again when the target does not answer at once."""

    def repeat(self) -> Sequence[Effect]:
        for leaving in self.durable.leaving:
            return self.receive(
                leaving.target, TransferRefused(leaving.hosted.operator, leaving.hosted.epoch)
            )
        return super().repeat()


class LeavesStateBehind(OperatorMoves):
    def receive(self, sender: int, message: MoveMessage) -> Sequence[Effect]:
        if isinstance(message, Transfer):
            message = Transfer(msgspec.structs.replace(message.hosted, state=0))
        return super().receive(sender, message)


class GrantsTwice(OperatorMoves):
    def receive(self, sender: int, message: MoveMessage) -> Sequence[Effect]:
        if isinstance(message, AskMove):
            self.durable = msgspec.structs.replace(self.durable, grant=None)
        return super().receive(sender, message)


def planted(kind: type[OperatorMoves]) -> MakeMachine:
    def make(site: int, sites: int, generator: np.random.Generator) -> Optimiser:
        sound = optimiser_machines(chain_layout, PARAMS)(site, sites, generator)
        assert isinstance(sound, Optimiser)
        sound.moves.__class__ = kind
        return sound

    return make


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Impatient, {"an operator runs at most once"}),
        (LeavesStateBehind, {"no state is lost"}),
        (GrantsTwice, {"one move at a time per group"}),
    ],
)
def test_planted_bugs_are_found(kind: type[OperatorMoves], broken: set[str]) -> None:
    subject = Subject(planted(kind), optimiser_checkers)
    for seed in range(100):
        violation = subject.run(optimiser_scenarios()(seed)).violation
        if violation is not None:
            assert violation.checker in broken
            return
    pytest.fail("100 scenarios and not found")


def line(sites: int, latency_ms: float = 20.0) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(latency_ms * abs(i - j) for j in range(sites)) for i in range(sites))


def one_operator(home: int, *, movable: bool = True, params: OptimiserParams = PARAMS) -> MakeMachine:
    """An operator between a stream at site 0 and a query at site 5 of a line of six."""

    def layout(sites: int) -> tuple[list[list[Hosted]], list[float]]:
        links = (OperatorLink(-1, 0, 100.0), OperatorLink(-1, 5, 10.0))
        hosted: list[list[Hosted]] = [[] for _ in range(sites)]
        hosted[home] = [Hosted(0, 0, 5, 0.5, links, movable)]
        return hosted, [1.0] * sites

    return optimiser_machines(layout, params)


def run_line(machines: MakeMachine, end_ms: float = 20_000.0, requests: tuple[Request, ...] = ()) -> Harness:
    harness = Harness(Scenario(0, line(6), end_ms, requests=requests), machines, optimiser_checkers()[1:])
    harness.run_until(end_ms)
    assert harness.violation is None, harness.violation
    return harness


def place_of(harness: Harness) -> tuple[int, Hosted]:
    return next((s, h) for s in range(harness.sites) for h in harness.machine(s).running)


def test_an_operator_goes_to_the_heavy_end_and_stays() -> None:
    machines = one_operator(home=5)
    half, full = run_line(machines, 10_000.0), run_line(machines, 20_000.0)
    assert place_of(half)[0] == 0
    assert place_of(full) == place_of(half)
    assert place_of(full)[1].epoch <= 3


def test_measured_rates_bring_it_to_the_other_end() -> None:
    news = tuple(
        Request(10_000.0 + 100 * k, site, MeasuredFlows(0, (10.0, 500.0)))
        for k in range(20)
        for site in range(6)
    )
    site, hosted = place_of(run_line(one_operator(home=5), 30_000.0, news))
    assert site == 5
    assert hosted.links[1].rate == pytest.approx(500.0, rel=0.01)


def test_impossible_rates_are_not_believed() -> None:
    news = (
        Request(10.0, 5, MeasuredFlows(0, (float("nan"), -1.0))),
        Request(20.0, 5, MeasuredFlows(0, (1.0,))),
    )
    assert place_of(run_line(one_operator(home=5), 100.0, news))[1].links[0].rate == 100.0


def test_what_may_not_move_stays() -> None:
    assert place_of(run_line(one_operator(home=5, movable=False)))[0] == 5


def test_a_saving_below_the_threshold_moves_nothing() -> None:
    calm = replace(PARAMS, migration=MigrationParams(displacement_ms=1.0, least_saving=0.99, look_again=4))
    assert place_of(run_line(one_operator(home=5, params=calm)))[0] == 5


def test_data_for_an_operator_that_is_elsewhere_is_not_taken() -> None:
    own = Hosted(7, 0, 0, 1.0, ())
    site = Optimiser(1, 3, np.random.default_rng(0), PARAMS, [own], 1.0, [])
    assert site.handle(Asked(Feed(3, 5)), 0.0) == ()
    assert len(site.handle(Asked(Feed(7, 5)), 0.0)) == 2
    assert site.running[0].state == 5
