"""Optimisers propose, the mover decides: nothing runs twice, nothing leaks, and fragments end up where they
belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from lab.faults.exploration import explore
from lab.faults.faults import Partition
from lab.faults.harness import Harness
from lab.faults.optimiser_invariants import (
    chain_belonging,
    chain_homes,
    chain_layout,
    optimiser_checkers,
    optimiser_scenarios,
    some_refused,
)
from lab.faults.runner_model import Ground, MoveByHand, RunnerNode, RunSubject
from lab.faults.scenario import Request, Scenario
from mooring.algorithms.relaxation.machines.messages import (
    FragmentLink,
    FragmentSpec,
    MeasuredCapacity,
    MeasuredFlows,
)
from mooring.algorithms.relaxation.machines.optimiser import Optimiser, optimiser_machines
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.machines.residence import Residence
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.contracts.site_machine import Asked, Effect, Received, Send
from mooring.coordination.move_messages import Inquiry, Proposed, Refused, StartedAt, Whereabouts
from mooring.coordination.mover import MoverMachine
from mooring.coordination.proposer import Proposer

PARAMS = OptimiserParams(
    period_ms=40.0,
    rounds_per_review=8,
    patience=2,
    migration=MigrationParams(displacement_ms=1.0, least_saving=0.05, look_again=4),
)
SUBJECT = RunSubject(
    optimiser_machines(chain_layout, PARAMS),
    optimiser_checkers,
    homes=chain_homes,
    judge=some_refused,
    belonging=chain_belonging,
)


def test_no_invariant_breaks_under_random_faults() -> None:
    moves = 0
    for seed in range(25):
        harness = SUBJECT.run(optimiser_scenarios()(seed))
        assert harness.violation is None, f"seed {seed}: {harness.violation}"
        moves += sum(harness.machine(harness.sites - 1).ground.epochs)
    assert moves > 40


@pytest.mark.soak
def test_no_invariant_breaks_in_a_long_campaign() -> None:
    result = explore(SUBJECT, optimiser_scenarios(), range(1000, 11_000))
    assert result.finding is None, str(result.finding)


def test_with_propose_everything_is_refused_and_nothing_moves() -> None:
    def propose(proposed: Proposed) -> str | None:
        return "the run only proposes moves (--act propose)"

    subject = RunSubject(SUBJECT.make_machine, optimiser_checkers, homes=chain_homes, judge=propose)
    for seed in (1, 2, 3):
        harness = subject.run(Scenario(seed, line(6), 5_000.0))
        assert harness.violation is None, f"seed {seed}: {harness.violation}"
        runner: RunnerNode = harness.machine(5)
        assert runner.ground.epochs == [0, 0, 0, 0]
        assert len(runner.mover.memory.answers) > 0
        assert all(isinstance(answer, Refused) for answer in runner.mover.memory.answers)


def test_no_site_promises_room_before_it_knows_of_everything_that_runs() -> None:
    """A site was told of one of its two fragments, as of the whole, and word of the other one was lost."""
    latency_ms = ((0.0, 33.1, 42.4), (33.1, 0.0, 12.9), (42.4, 12.9, 0.0))
    cut = Partition(at_ms=82.0, until_ms=85.0, side=(1, 2))
    assert SUBJECT.run(Scenario(2235, latency_ms, 9000.0, (cut,))).violation is None


# Planted bugs.


def expires(self: Optimiser) -> Sequence[Effect]:
    """Room is given up when nothing was heard for a while."""
    for id in list(self.residence.held):
        if self._round - self._heard.setdefault(id, self._round) >= 2 * PARAMS.rounds_per_review:
            self.residence.let_go(id)
    return ()


def never_asks(self: Optimiser) -> Sequence[Effect]:
    return ()


def says_once(self: Proposer) -> Sequence[Effect]:
    return ()


def forgets_refusals(self: MoverMachine, sender: int, id: tuple[int, int, int]) -> Sequence[Effect]:
    known = self._answer_to(id)
    return (Send(sender, known or Refused(id, "never heard of it")),)


def takes_no_epoch(self: Ground, fragment: int) -> int:
    return self.epochs[fragment]


def keeps_it_to_itself(self: MoverMachine, places: Sequence[StartedAt]) -> Sequence[Effect]:
    self.where |= {place.fragment: place for place in places}
    return ()


def crowds(self: Residence, id: tuple[int, int, int], fragment: int, cores: float) -> bool:
    """Room is promised to everybody."""
    with patch.object(Residence, "spare_cores", 100.0):
        return sound_hold(self, id, fragment, cores)


sound_hold = Residence.hold


@pytest.mark.parametrize(
    ("owner", "name", "bug", "broken"),
    [
        (Optimiser, "_ask_about_held_room", expires, "what was accepted is held"),
        (Optimiser, "_ask_about_held_room", never_asks, "proposals and leases come to an end"),
        (Proposer, "repeat", says_once, "proposals and leases come to an end"),
        (MoverMachine, "_asked_about", forgets_refusals, "answers do not change"),
        (Ground, "take_epoch", takes_no_epoch, "a fragment runs exactly once"),
        (MoverMachine, "_learn", keeps_it_to_itself, "whereabouts reach everybody"),
        (Residence, "hold", crowds, "capacities and pins hold"),
    ],
)
def test_planted_bugs_are_found(owner: type, name: str, bug: object, broken: str) -> None:
    with patch.object(owner, name, bug):
        for seed in range(150):
            violation = SUBJECT.run(optimiser_scenarios()(seed)).violation
            if violation is not None:
                assert violation.checker == broken, violation
                return
    pytest.fail("150 scenarios and not found")


# One fragment on a line of sites.


def line(count: int, latency_ms: float = 15.0) -> tuple[tuple[float, ...], ...]:
    """Seven sites are within the longest link that the checkers reckon with."""
    return tuple(tuple(latency_ms * abs(i - j) for j in range(count)) for i in range(count))


def one_fragment(home: int, *, movable: bool = True, params: OptimiserParams = PARAMS) -> RunSubject:
    """A fragment between a stream at site 0 and a query at site 5 of a line of six sites."""

    def layout(sites: int) -> tuple[list[FragmentSpec], list[float]]:
        links = (FragmentLink(-1, 0, 100.0), FragmentLink(-1, 5, 10.0))
        return [FragmentSpec(0, 0.5, links, movable)], [1.0] * sites

    machines = optimiser_machines(layout, params)
    return RunSubject(machines, optimiser_checkers, homes=lambda sites: [home], judge=lambda proposed: None)


def run_line(subject: RunSubject, end_ms: float, requests: tuple[Request, ...] = ()) -> Harness:
    harness = subject.run(Scenario(0, line(7), end_ms, requests=requests))
    assert harness.violation is None, harness.violation
    return harness


def home_of(harness: Harness) -> tuple[int, int]:
    """Site and epoch."""
    ground: Ground = harness.machine(6).ground
    return ground.committing(0)[0], ground.epochs[0]


def test_a_fragment_goes_to_the_heavy_end_and_stays() -> None:
    subject = one_fragment(home=5)
    half, full = run_line(subject, 8_000.0), run_line(subject, 14_000.0)
    assert home_of(half)[0] == 0
    assert home_of(full) == home_of(half)
    assert home_of(full)[1] <= 3


def test_measured_rates_bring_it_to_the_other_end() -> None:
    news = tuple(
        Request(8_000.0 + 100 * k, site, MeasuredFlows(0, (10.0, 500.0)))
        for k in range(20)
        for site in range(6)
    )
    assert home_of(run_line(one_fragment(home=5), 16_000.0, news))[0] == 5


def test_what_was_moved_by_hand_is_reconsidered_where_it_is() -> None:
    harness = run_line(one_fragment(home=0), 10_000.0, (Request(3_000.0, 6, MoveByHand(0, 5)),))
    site, epoch = home_of(harness)
    assert site == 0
    assert epoch >= 2
    assert harness.machine(0).machine.residence.where[0] == StartedAt(0, site, epoch)


def test_what_may_not_move_stays() -> None:
    assert home_of(run_line(one_fragment(home=5, movable=False), 6_000.0)) == (5, 0)


def test_a_saving_below_the_threshold_moves_nothing() -> None:
    calm = replace(PARAMS, migration=MigrationParams(displacement_ms=1.0, least_saving=0.99, look_again=4))
    assert home_of(run_line(one_fragment(home=5, params=calm), 6_000.0)) == (5, 0)


def two_fragments(cores: float, params: OptimiserParams) -> RunSubject:
    """Both are at site 0, where their streams and queries are too."""

    def layout(sites: int) -> tuple[list[FragmentSpec], list[float]]:
        here = (FragmentLink(-1, 0, 100.0), FragmentLink(-1, 0, 10.0))
        return [FragmentSpec(0, cores, here), FragmentSpec(1, cores, here)], [1.0] * sites

    machines = optimiser_machines(layout, params)
    return RunSubject(machines, optimiser_checkers, homes=lambda sites: [0, 0], judge=lambda proposed: None)


@pytest.mark.parametrize(
    ("cores", "fill", "full", "moves"),
    [(0.44, 0.8, 0.9, 0), (0.46, 0.8, 0.9, 1), (0.6, 1.0, 1.0, 1), (0.85, 0.8, 0.9, 0)],
    ids=["it is not too full", "it is", "more than it has", "nobody has room"],
)
def test_a_site_that_is_too_full_lets_one_go_where_there_is_room(
    cores: float, fill: float, full: float, moves: int
) -> None:
    """It costs network usage, and nothing goes back while both together would be too much."""
    harness = run_line(two_fragments(cores, replace(PARAMS, fill=fill, full=full)), 12_000.0)
    ground: Ground = harness.machine(6).ground
    assert sum(ground.epochs) == moves
    assert sorted(ground.committing(f)[0] for f in (0, 1)) == [0, 1 if moves else 0]


def test_what_is_at_a_lost_site_is_left_to_others() -> None:
    lost = Request(0.0, 0, MeasuredCapacity(0.0))
    harness = run_line(two_fragments(0.3, PARAMS), 6_000.0, (lost,))
    assert sum(harness.machine(6).ground.epochs) == 0


# A single machine.


def site_one() -> Optimiser:
    links = (FragmentLink(-1, 0, 100.0), FragmentLink(-1, 2, 10.0))
    specs = [FragmentSpec(7, 1.0, links), FragmentSpec(8, 0.5, links)]
    site = Optimiser(1, 3, np.random.default_rng(0), PARAMS, specs, 1.0)
    site.handle(Received(3, Whereabouts((StartedAt(7, 1, 0), StartedAt(8, 0, 0)), whole=True)), 0.0)
    return site


def test_impossible_rates_and_rates_of_what_runs_elsewhere_are_not_believed() -> None:
    site = site_one()
    for wrong in (
        MeasuredFlows(7, (float("nan"), -1.0)),
        MeasuredFlows(7, (1.0,)),
        MeasuredFlows(8, (1.0, 2.0)),
    ):
        site.handle(Asked(wrong), 0.0)
    assert site.rates(7) == site.rates(8) == (100.0, 10.0)
    site.handle(Asked(MeasuredFlows(7, (50.0, 20.0))), 0.0)
    assert site.rates(7) == (50.0, 20.0)


def test_only_the_mover_is_believed_where_fragments_are() -> None:
    site = site_one()
    site.handle(Received(2, Whereabouts((StartedAt(7, 2, 9),), whole=True)), 0.0)
    site.handle(Received(2, Refused((0, 0, 1), "says a peer")), 0.0)
    assert site.residence.runs(7)


def test_a_mover_refuses_for_good_what_it_has_not_heard_of() -> None:
    mover = MoverMachine(3)
    asked = mover.handle(Received(2, Inquiry((1, 0, 4))), 0.0)
    assert isinstance(asked[-1], Send)
    assert isinstance(asked[-1].message, Refused)
