"""What a fragment has in flight at each site, against placing it there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.model.evaluation.fragment_usage import flights, usage_at_sites, usage_by_fragment
from mooring.model.load.build import build_load_model
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from tests.model.bounds.test_network_bound import random_problem, usage


def placed(seed: int) -> Placement:
    problem = random_problem(seed)
    pinned = build_load_model(problem).pinned_site
    anywhere = np.random.default_rng(seed).integers(0, len(problem.sites), len(pinned))
    return Placement(problem, np.where(pinned >= 0, pinned, anywhere))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_moving_a_fragment_changes_the_usage_by_the_difference_between_its_sites(seed: int) -> None:
    """Shared outputs, instances and operators that run together included."""
    placement = placed(seed)
    latency_ms = placement.problem.network.latency_ms
    assert latency_ms is not None
    for fragment in range(len(placement.problem.fragments)):
        at = usage_at_sites(placement, fragment, latency_ms)
        here = placement.site_of_fragment[fragment]
        for site in range(len(placement.problem.sites)):
            sites = placement.site_of_fragment.copy()
            sites[fragment] = site
            moved = usage(Placement(placement.problem, sites))
            assert moved - usage(placement) == pytest.approx(at[site] - at[here], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_flights_add_up_to_the_metric_and_belong_to_the_fragments_at_their_ends(seed: int) -> None:
    placement = placed(seed)
    latency_ms = placement.problem.network.latency_ms
    assert latency_ms is not None
    found = flights(placement, latency_ms)
    total = network_metrics(placement).network_usage
    assert sum(flight.usage for flight in found) == pytest.approx(total)
    by_fragment = usage_by_fragment(placement, found)
    for fragment, own in enumerate(by_fragment):
        here = placement.site_of_fragment[fragment]
        assert own >= usage_at_sites(placement, fragment, latency_ms)[here] - 1e-9
    assert by_fragment.max(initial=0.0) <= total + 1e-9  # type: ignore[operator]
