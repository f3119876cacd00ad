"""The survey: coordinates predict latencies, figures reach everybody, and faults do it no harm."""

from __future__ import annotations

import numpy as np
import pytest

from lab.faults.exploration import Subject, explore
from lab.faults.faults import FaultParams
from lab.faults.gossip_invariants import gossip_checkers
from lab.faults.harness import Harness
from lab.faults.scenario import Scenario, draw_scenario
from mooring.contracts.site_machine import Output, Persist, Received, Send, Started, TimerDue
from mooring.coordination.gossip import Entry, GossipParams
from mooring.coordination.survey import (
    EchoAsked,
    Echoed,
    NetworkFigures,
    SiteFigures,
    Survey,
    SurveyParams,
    survey_machines,
)
from mooring.model.network.coordinate import Coordinate

QUICK = SurveyParams(50.0, rounds_per_publication=4, gossip=GossipParams(50.0))


def started(durable: object = None) -> Survey:
    machine = Survey(0, 3, np.random.default_rng(0), QUICK)
    machine.handle(Started(0, durable), 0.0)
    return machine


def due(machine: Survey) -> tuple[float, list[object]]:
    at_ms = machine.next_timer()
    assert at_ms is not None
    return at_ms, list(machine.handle(TimerDue(), at_ms))


def first_echo(machine: Survey) -> tuple[float, Send]:
    while True:
        at_ms, effects = due(machine)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, EchoAsked):
                return at_ms, effect


def test_half_a_round_trip_is_the_latency() -> None:
    machine = started()
    at_ms, echo = first_echo(machine)
    machine.handle(Received(echo.to, Echoed(at_ms, Coordinate((1.0, 1.0)))), at_ms + 60.0)
    assert machine._vivaldi.latency_ms(echo.to) == pytest.approx(30.0)


def test_an_answer_that_nobody_waits_for_counts_for_nothing() -> None:
    machine = started()
    at_ms, echo = first_echo(machine)
    before = machine.coordinate
    answer = Received(echo.to, Echoed(at_ms - 1.0, Coordinate((1.0, 1.0))))
    assert machine.handle(answer, at_ms + 60.0) == ()
    assert machine.coordinate == before
    assert machine._vivaldi.latency_ms(echo.to) is None
    right = Received(echo.to, Echoed(at_ms, Coordinate((1.0, 1.0))))
    machine.handle(right, at_ms + 60.0)
    moved = machine.coordinate
    machine.handle(right, at_ms + 900.0)
    assert machine.coordinate == moved != before, "an answer that comes twice counts once"


def test_a_site_that_answers_after_several_rounds_is_measured_all_the_same() -> None:
    """With two sites each round asks the same one: every answer came after the next question, and counted
    for nothing."""
    machine = Survey(0, 2, np.random.default_rng(0), QUICK)
    machine.handle(Started(0, None), 0.0)
    asked = [first_echo(machine) for _ in range(4)]
    for at_ms, echo in asked:
        machine.handle(Received(echo.to, Echoed(at_ms, Coordinate((1.0, 1.0)))), at_ms + 160.0)
        assert machine._vivaldi.latency_ms(1) == pytest.approx(80.0)


def test_a_site_that_comes_back_is_where_it_was() -> None:
    place = Coordinate((40.0, 30.0), 2.0, 0.1)
    assert started(Entry(0, 7, SiteFigures(place, ()))).coordinate == place
    nowhere = Coordinate((float("nan"), 0.0))
    assert started(Entry(0, 7, SiteFigures(nowhere, ()))).coordinate != nowhere


def test_figures_are_durable_before_they_are_told() -> None:
    machine = started()
    while True:
        _, effects = due(machine)
        kinds = [type(effect) for effect in effects]
        if Persist in kinds:
            assert kinds.index(Persist) < kinds.index(Output)
            return


def test_coordinates_predict_the_latencies_of_a_plane() -> None:
    """Six sites for half a minute: the median error over all pairs is below 5%."""
    generator = np.random.default_rng(5)
    place = generator.random((6, 2)) * 80.0
    latency_ms = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2)) + 5.0 * (1 - np.eye(6))
    scenario = Scenario(1, tuple(map(tuple, latency_ms.tolist())), 30_000.0)
    harness = Harness(scenario, survey_machines(QUICK), recorded=False)
    assert harness.finish() is None
    known: dict[int, NetworkFigures] = {site: harness.machine(site)._network() for site in range(6)}
    assert {len(figures.sites) for figures in known.values()} == {6}
    figures = dict(known[3].sites)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    errors = [
        abs(figures[i].coordinate.latency_ms(figures[j].coordinate) / latency_ms[i, j] - 1.0)
        for i, j in pairs
    ]
    assert float(np.median(errors)) < 0.05
    assert dict(figures[1].latency_ms)[4] == pytest.approx(latency_ms[1, 4], rel=0.01)


def test_no_schedule_of_faults_makes_up_figures_or_turns_them_back() -> None:
    """Sites publish as long as they live, so they never come to rest: all checkers but the last one."""

    def draw(seed: int) -> Scenario:
        return draw_scenario(seed, lambda *_: (), lambda *_: 200.0, FaultParams(1200.0), sites=(3, 4))

    subject = Subject(survey_machines(QUICK), lambda: gossip_checkers()[:2])
    found = explore(subject, draw, range(30))
    assert found.finding is None, str(found.finding)
