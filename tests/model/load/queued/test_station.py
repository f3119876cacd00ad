"""Flows added up at one server, against values known in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from mooring.model.load.queued.station import Flow, Flows, Form, Stations
from mooring.model.load.queueing import mg1_wait_s


@dataclass(frozen=True)
class FlowEffect:
    """Of one more flow on a server."""

    latency_s: float
    """Of the new flow here: its wait and its service (equation 10)."""
    added_s: float
    """To the latencies of the flows already there, all together."""
    utilisation: float


def effect_of(flow: Flow, present: Sequence[Flow], form: Form = "corrected") -> FlowEffect:
    """What a flow would find, and do to others, if it came to a server.

    >>> effect_of(Flow(0.25, 2.0), [Flow(0.25, 1.0)], "paper").utilisation
    0.75
    """
    flows = [*present, flow]
    both = Flows.of([0] * len(present) + [1] * len(flows), [*present, *flows])
    stations = Stations.of(both, 2)
    was_s, wait_s = stations.wait_s(form).tolist()
    added_s = len(present) * (wait_s - was_s) if np.isfinite(was_s) else 0.0
    return FlowEffect(wait_s + flow.service_s, added_s, float(stations.utilisation[1]))


def one(*flows: Flow) -> Stations:
    return Stations.of(Flows.of([0] * len(flows), flows), 1)


def test_two_poisson_flows_of_unlike_service_are_an_exact_mg1_queue() -> None:
    """Equations 4 and 5 give the mixture's first two moments; Pollaczek and Khinchine the wait."""
    station = one(Flow(0.2, 1.0, 1.0), Flow(0.1, 3.0, 0.0))
    mean = (0.2 * 1.0 + 0.1 * 3.0) / 0.3
    square = (0.2 * 2.0 + 0.1 * 9.0) / 0.3
    expected = mg1_wait_s(0.3, mean, square / mean**2 - 1.0)
    for form in ("paper", "corrected"):
        assert station.wait_s(form)[0] == pytest.approx(expected)
    assert station.utilisation[0] == pytest.approx(0.5)


def test_flows_by_chance_stay_so_when_they_join_and_many_regular_ones_become_so() -> None:
    assert one(Flow(1.0, 0.1), Flow(2.0, 0.2)).arrival_variability[0] == pytest.approx(1.0)
    few, many = (
        one(*(Flow(0.5 / n, 1.0, 0.0, 0.0) for _ in range(n))).arrival_variability[0] for n in (2, 50)
    )
    assert 0.0 < few < many < 1.0


def test_a_busy_server_sets_the_pace_and_an_idle_one_passes_it_on() -> None:
    idle, busy = one(Flow(0.001, 1.0, 0.0, 4.0)), one(Flow(0.999, 1.0, 0.0, 4.0))
    assert idle.departure_variability[0] == pytest.approx(4.0, rel=1e-3)
    assert busy.departure_variability[0] == pytest.approx(0.0, abs=0.01)


def test_full_servers_and_those_without_speed_wait_for_ever() -> None:
    flows = Flows.of([0, 1, 2], [Flow(1.0, 1.0), Flow(1.0, np.inf), Flow(0.0, 0.0)])
    np.testing.assert_array_equal(Stations.of(flows, 4).wait_s(), [np.inf, np.inf, 0.0, 0.0])


def test_a_new_flow_pays_its_own_way_and_what_it_does_to_others() -> None:
    present = [Flow(0.2, 1.0), Flow(0.2, 1.0)]
    effect = effect_of(Flow(0.2, 1.0), present)
    assert effect.utilisation == pytest.approx(0.6)
    assert effect.latency_s == pytest.approx(float(mg1_wait_s(0.6, 1.0, 0.0)) + 1.0)
    added = float(mg1_wait_s(0.6, 1.0, 0.0) - mg1_wait_s(0.4, 1.0, 0.0))
    assert effect.added_s == pytest.approx(2 * added)
    assert effect_of(Flow(0.7, 1.0), present).latency_s == np.inf
