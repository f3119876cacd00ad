"""Scenarios and fault schedules: they survive printing, are checked when built, and cover every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.faults.faults import Crash, FaultParams, Noise, Partition, Pause, draw_faults
from lab.faults.gossip_invariants import gossip_scenarios
from lab.faults.scenario import Request, Scenario
from mooring.coordination.gossip import GossipParams
from mooring.errors import InputError

DRAW = gossip_scenarios(GossipParams())
SQUARE = ((0.0, 1.0), (1.0, 0.0))


def test_a_printed_scenario_is_the_scenario() -> None:
    for seed in range(50):
        assert Scenario.from_json(DRAW(seed).as_json()) == DRAW(seed)


def test_a_description_names_every_fault_and_request() -> None:
    scenario = DRAW(3)
    text = scenario.describe()
    assert "seed 3" in text
    assert all(str(item) in text for item in (*scenario.faults, *scenario.requests))


def test_all_faults_are_over_by_the_horizon() -> None:
    params = FaultParams(horizon_ms=500.0)
    for seed in range(200):
        for fault in draw_faults(np.random.default_rng(seed), 5, params):
            assert 0 <= fault.at_ms <= fault.until_ms <= 500.0


def test_schedules_cover_every_kind_and_also_few_at_once() -> None:
    kinds = [frozenset(type(fault) for fault in DRAW(seed).faults) for seed in range(200)]
    assert frozenset() in kinds
    assert frozenset({Crash, Pause, Partition, Noise}) in kinds
    assert all(frozenset({kind}) in kinds for kind in (Crash, Pause, Partition, Noise))


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency_ms": ((0.0, 1.0),)},
        {"latency_ms": ()},
        {"latency_ms": ((0.0, float("nan")), (1.0, 0.0))},
        {"latency_ms": ((0.0, -1.0), (1.0, 0.0))},
        {"end_ms": float("inf")},
        {"seed": -1},
        {"faults": (Crash(1.0, 2, 1.0),)},
        {"faults": (Crash(float("nan"), 0, 1.0),)},
        {"faults": (Pause(5.0, 4.0, 0),)},
        {"faults": (Partition(0.0, 1.0, (0, 5)),)},
        {"faults": (Noise(0.0, 1.0, loss=1.5),)},
        {"requests": (Request(0.0, 2, "x"),)},
    ],
)
def test_a_scenario_without_meaning_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Scenario(**{"seed": 0, "latency_ms": SQUARE, "end_ms": 10.0, **wrong})


@pytest.mark.parametrize("text", ["", "{}", '{"seed": 1, "surprise": 2}', "[1, 2]"])
def test_text_that_is_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no scenario"):
        Scenario.from_json(text)
