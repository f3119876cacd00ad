"""Latencies of a project: fragments run in micro-batches, and rows wait for triggers."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from mooring.errors import InfeasibleError
from mooring.model.evaluation.latency_explanation import explain_latency
from mooring.model.evaluation.metrics import Metrics, evaluate_placement
from mooring.model.load.build import build_load_model
from mooring.model.load.micro_batches import micro_batches
from mooring.model.placement.network_metrics import least_latencies_ms, ways_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan

TRIGGER_S = 5.0


def chain(length: int, limit_ms: float, trigger_s: float = TRIGGER_S, cost_us: float = 100.0) -> Problem:
    """A chain of fragments from a stream at one site to a query at the other, 40 ms away; and a query over
    one fragment.
    """
    names = [f"o{k}" for k in range(length)]
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 2}, "b": {"capacity": 2}},
            "latency_ms": {"a": {"b": 40}, "b": {"a": 40}},
            "streams": {"s": {"rate": 100, "site": "a"}},
            "operators": {
                name: {"inputs": [before], "cost_us": cost_us}
                for before, name in zip(["s", *names], names, strict=False)
            }
            | {"w": {"inputs": ["s"], "cost_us": 50}},
            "queries": {
                "deep": {"reads": names[-1], "site": "b", "max_latency_ms": limit_ms},
                "flat": {"reads": "w", "site": "b", "max_latency_ms": 4000},
            },
        }
    )
    return replace(problem, network=replace(problem.network, trigger_s=trigger_s))


def metrics_of(problem: Problem) -> tuple[Placement, Metrics]:
    placement = Placement(problem, np.zeros(len(problem.fragments), dtype=np.int64))
    return placement, evaluate_placement(build_load_model(problem), placement)


@pytest.mark.parametrize(("length", "ways"), [(1, 2540.0), (2, 7540.0), (3, 12_540.0)])
def test_half_a_trigger_passes_before_the_first_batch_and_one_per_channel(length: int, ways: float) -> None:
    placement, metrics = metrics_of(chain(length, 2000.0))
    assert ways_ms(placement)[0] == pytest.approx(ways)
    assert isinstance(metrics.latency_ms, dict)
    assert list(metrics.latency_ms.values()) == pytest.approx([ways, 2540.0])
    assert metrics.qos_met == 0.5


def test_mean_latencies_of_a_project_are_those_of_the_model_of_micro_batches() -> None:
    problem = chain(3, 2000.0, cost_us=3000.0)
    placement, metrics = metrics_of(problem)
    model = build_load_model(problem)
    found = 1e3 * micro_batches(problem, model, placement.site_of_fragment, TRIGGER_S).query_s
    assert isinstance(metrics.latency_queued_ms, dict)
    assert list(metrics.latency_queued_ms.values()) == pytest.approx(found.tolist())
    assert found[0] > 12_540.0
    told = " ".join(explain_latency(placement, metrics).sentences)
    assert "triggers of 5 s" in told
    assert "1 of 2 latency limits is not met" in told


def test_queries_behind_a_full_site_have_no_mean_latency() -> None:
    _, metrics = metrics_of(chain(3, 2000.0, cost_us=9000.0))
    assert metrics.latency_queued_ms == {"deep": None, "flat": None}


def test_overlay_admits_what_micro_batches_allow_and_says_what_is_short() -> None:
    made = plan(chain(3, 2000.0), policy="overlay", seed=1).placement
    assert set(made.rejected) == {"deep"}
    assert made.rejected["deep"].startswith("its limit is 2000 ms, and the best plan takes 12.54 s")
    assert "with a trigger of 5 s" in made.rejected["deep"]
    assert not plan(chain(3, 13_000.0), policy="overlay", seed=1).placement.rejected
    with pytest.raises(InfeasibleError, match="no query can be admitted"):
        plan(replace_limits(chain(3, 2000.0), 2000.0), policy="overlay", seed=1)


def replace_limits(problem: Problem, limit_ms: float) -> Problem:
    strict = (msgspec.structs.replace(query, max_latency_ms=limit_ms) for query in problem.queries)
    return replace(problem, queries=tuple(strict))


def test_no_placement_is_below_the_waits_for_triggers() -> None:
    assert least_latencies_ms(chain(3, 2000.0)) == [pytest.approx(12_540.0), pytest.approx(2540.0)]


def test_a_channel_counts_between_fragments_and_not_before_the_end_of_a_query() -> None:
    """Where the problem states how long channels take; the last one delivers to the query itself."""
    problem = chain(1, 4000.0, trigger_s=0.0)
    slow = replace(problem, network=replace(problem.network, channel_ms=5000.0))
    assert not plan(slow, policy="overlay", seed=1).placement.rejected
