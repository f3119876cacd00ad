"""Latencies of whole placements where they can be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.model.load.queued.latencies import queued_latencies
from mooring.model.load.queueing import mg1_wait_s
from mooring.model.problem.problem import Problem


def chain(**stream: Any) -> dict[str, Any]:
    """A filter that lets half pass, then a dear operator, both 1 ms at one core."""
    return {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 2}},
        "latency_ms": {"a": {"b": 10}, "b": {"a": 10}},
        "streams": {"s": {"rate": 200, "site": "a", "bytes": 100, **stream}},
        "operators": {
            "f": {"inputs": ["s"], "cost_us": 1000, "selectivity": 0.5},
            "g": {"inputs": ["f"], "cost_us": 2000},
        },
        "queries": {"q": {"reads": "g", "site": "b"}},
    }


def latency_ms(data: dict[str, Any], *sites: int, form: Any = "corrected") -> float:
    return 1000.0 * float(queued_latencies(Problem.from_dict(data), sites, form).query_s[0])


def test_a_message_passes_all_operators_of_a_site_as_one_service() -> None:
    """Half of the messages take 1 ms, half 3: an M/G/1 queue, of which only the long ones become results."""
    mean, square = 2e-3, (1e-6 + 9e-6) / 2
    wait_ms = 1000.0 * float(mg1_wait_s(200, mean, square / mean**2 - 1.0))
    assert latency_ms(chain(), 0, 0) == pytest.approx(wait_ms + 3.0 + 10.0)
    assert latency_ms(chain(), 0, 0, form="paper") == pytest.approx(wait_ms + 2.0 + 10.0)


def test_apart_each_site_has_its_own_queue_and_the_network_lies_between() -> None:
    first_ms = 1000.0 * float(mg1_wait_s(200, 1e-3, 0.0)) + 1.0
    found = latency_ms(chain(), 0, 1)
    idle = first_ms + 10.0 + 1.0  # 2 ms of work on two cores
    assert idle < found < idle + 1000.0 * float(mg1_wait_s(100, 1e-3, 0.0))


def test_fixed_load_takes_speed_away_and_beyond_capacity_there_is_no_latency() -> None:
    slow = chain()
    slow["operators"]["f"]["fixed_cores"] = 0.5
    assert latency_ms(slow, 0, 1) > latency_ms(chain(), 0, 1) + 1.0
    slow["operators"]["f"]["fixed_cores"] = 1.0
    assert latency_ms(slow, 0, 1) == np.inf
    assert latency_ms(chain(rate=600), 0, 0) == np.inf


def test_bursts_wait_longer_and_even_arrivals_less() -> None:
    even, chance, bursts = (latency_ms(chain(variability=v), 0, 0) for v in (0.0, 1.0, 4.0))
    assert even < chance < bursts


def test_a_narrow_link_is_a_server_too() -> None:
    narrow = chain()
    narrow["network"] = {"bandwidth": {"a": {"b": 20_000}, "b": {"a": 20_000}}}  # 5 ms a tuple
    wide = latency_ms(chain(), 0, 1)
    found = latency_ms(narrow, 0, 1)
    assert found > wide + 5.0 + 0.3 * 1000.0 * float(mg1_wait_s(100, 5e-3, 0.0))
    narrow["network"]["bandwidth"]["a"]["b"] = 9_000
    assert latency_ms(narrow, 0, 1) == np.inf


def test_two_readers_of_one_stream_at_a_site_are_served_one_after_the_other() -> None:
    data = chain()
    data["operators"] = {
        "f": {"inputs": ["s"], "cost_us": 1000},
        "g": {"inputs": ["s"], "cost_us": 1000},
    }
    data["queries"] = {"q1": {"reads": "f", "site": "a"}, "q2": {"reads": "g", "site": "a"}}
    found = 1000.0 * queued_latencies(Problem.from_dict(data), [0, 0]).query_s
    assert found[1] - found[0] == pytest.approx(1.0)
    assert found[0] == pytest.approx(1000.0 * float(mg1_wait_s(200, 2e-3, 0.0)) + 1.0)


def test_a_problem_without_tuples_has_no_latency_but_the_way() -> None:
    assert latency_ms(chain(rate=0), 0, 1) == 0.0
