"""A search is asked for when frames keep taking longer or shorter than predicted, and not because of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.model import ArrayOperator, ArrayStream, ChunkProblem, ChunkSite, LoadStep
from mooring.chunks.search.drift import DriftLimits, DriftWatch
from mooring.chunks.search.planning import PlanningParams, plan_chunks
from mooring.chunks.timing.arrays import WorkTables
from mooring.chunks.timing.simulate import FrameSimulation
from mooring.errors import InputError

PROBLEM = ChunkProblem(
    (ArrayStream("in", (32, 32)),),
    (
        ArrayOperator("a", ("in",), (32, 32), ComplexityMap.even(500.0, 2)),
        ArrayOperator("b", ("a",), (32, 32), ComplexityMap(np.array([[900.0, 100.0]]))),
    ),
    tuple(ChunkSite(f"s{k}", 1e7) for k in range(4)),
    frames_per_s=10.0,
)


def told(watch: DriftWatch, *latencies_ms: float) -> list[bool]:
    return [watch.observe(each) for each in latencies_ms]


@pytest.mark.parametrize("lasting_ms", [140.0, 60.0])
def test_a_lasting_change_is_noticed_within_a_few_frames(lasting_ms: float) -> None:
    watch = DriftWatch(100.0)
    assert not any(told(watch, *[100.0] * 20))
    assert any(told(watch, *[lasting_ms] * 4))


def test_one_late_frame_is_not_a_change() -> None:
    watch = DriftWatch(100.0)
    assert not any(told(watch, *[100.0] * 10, 160.0, *[100.0] * 10))


def test_after_a_new_plan_its_own_prediction_counts_and_frames_of_the_old_one_do_not() -> None:
    watch = DriftWatch(100.0, DriftLimits(settling_frames=3))
    assert told(watch, *[150.0] * 10)[-1]
    watch.replanned(150.0)
    assert not any(told(watch, 300.0, 300.0, 300.0, *[150.0] * 20))
    assert watch.drift == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("wrong", [{"threshold": 0.0}, {"memory": 1.0}, {"settling_frames": -1}])
def test_wrong_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="found threshold"):
        DriftLimits(**wrong)  # type: ignore[arg-type]


def test_sites_that_lose_half_their_speed_lead_to_a_search_that_helps() -> None:
    """What is watched are frames under the old plan; the search begins from it, and its plan is in balance
    again."""
    params = PlanningParams(most_chunks=8, frames=6, skip=1)
    made = plan_chunks(PROBLEM, params).plan
    halved = tuple(
        replace(site, external_load=(LoadStep(0.0, 0.5),)) if k < 2 else site
        for k, site in enumerate(PROBLEM.sites)
    )
    changed = replace(PROBLEM, sites=halved)
    number = {site.name: k for k, site in enumerate(changed.sites)}
    work = WorkTables(changed, 20).of([each.partitioning for each in made.operators.values()])
    site_of = [number[name] for each in made.operators.values() for name in each.sites]
    observed_ms = FrameSimulation(changed).assigned(work, np.array(site_of), 20).latency_ms

    watch = DriftWatch(made.latency_ms)
    assert any(told(watch, *observed_ms.tolist()))
    again = plan_chunks(changed, params, before=made).plan
    assert again.latency_ms < 0.9 * observed_ms[-1]
    watch.replanned(again.latency_ms)
    assert not any(told(watch, *[again.latency_ms] * 20))
