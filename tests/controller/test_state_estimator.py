"""A picture is made of what was observed; what was not observed is missing, and said so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mooring.contracts.decider import Observation
from mooring.contracts.engine import FragmentReport, Measurement, SiteReport
from mooring.contracts.picture import Picture
from mooring.controller.state_estimator import Surveyor
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 10}, "y": {"rate": 10}},
        "operators": {"f": {"inputs": ["x"], "cost_us": 1000}, "g": {"inputs": ["y"], "cost_us": 1000}},
    }
)
HOMES = {"f": "a", "g": "b"}


def look(
    rates: Mapping[str, float], sites: Mapping[str, str] = HOMES, capacity: float | None = None, **more: Any
) -> Observation:
    reports = {"a": SiteReport(0.5, None, capacity)}
    measured = Measurement(0.0, 5.0, stream_rates=rates, sites=reports)
    belongs = FragmentSites(HOMES)
    return Observation(0.0, FragmentSites(sites), measured, placement=belongs, **more)


def surveyed(surveyor: Surveyor, *looks: Observation) -> Picture | str:
    found: Picture | str = "no look"
    for each in looks:
        found = surveyor.survey(each)
    return found


def test_a_stream_that_was_not_measured_is_missing_and_not_silent() -> None:
    assert surveyed(Surveyor(PROBLEM), look({"x": 5.0})) == "the rate of the stream y is not measured yet"


def test_a_single_burst_changes_nothing_and_a_lasting_one_does() -> None:
    surveyor = Surveyor(PROBLEM)
    rates = [10.0] * 5 + [90.0]
    seen = surveyed(surveyor, *(look({"x": rate, "y": 1.0}) for rate in rates))
    assert isinstance(seen, Picture)
    assert seen.rates.tolist() == [10.0, 1.0]
    seen = surveyed(surveyor, *(look({"x": 90.0, "y": 1.0}) for _ in range(4)))
    assert isinstance(seen, Picture)
    assert seen.rates.tolist() == [90.0, 1.0]


def test_a_step_beyond_all_that_varied_so_far_counts_after_three_looks() -> None:
    surveyor, rng = Surveyor(PROBLEM), np.random.default_rng(0)
    for rate in rng.normal(10.0, 0.2, 12):
        surveyor.survey(look({"x": rate, "y": 1.0}))
    seen = surveyed(surveyor, *(look({"x": rate, "y": 1.0}) for rate in (20.0, 30.0)))
    assert isinstance(seen, Picture)
    assert seen.rates[0] < 11.0
    seen = surveyor.survey(look({"x": 30.0, "y": 1.0}))
    assert isinstance(seen, Picture)
    assert seen.rates[0] == 30.0


def test_what_varies_as_it_always_did_is_no_step() -> None:
    surveyor, rng = Surveyor(PROBLEM), np.random.default_rng(1)
    means = []
    for rate in rng.lognormal(0.0, 0.15, 400):
        seen = surveyor.survey(look({"x": 10.0 * rate, "y": 1.0}))
        means += [seen.rates[0]] if isinstance(seen, Picture) else []
    assert max(means) < 13.0


def test_the_more_a_rate_varies_the_less_is_made_of_it() -> None:
    surveyor = Surveyor(PROBLEM)
    for x, y in zip([8, 12, 9, 11, 10, 10], [10.0] * 6, strict=True):
        seen = surveyor.survey(look({"x": x, "y": y}))
    assert isinstance(seen, Picture)
    assert seen.low_rates[0] < 10.0 == seen.low_rates[1]


def test_the_capacity_that_was_observed_counts_and_is_kept_when_missing() -> None:
    surveyor, rates = Surveyor(PROBLEM), {"x": 5.0, "y": 5.0}
    seen = surveyed(surveyor, look(rates), look(rates, capacity=0.4), look(rates))
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores.tolist() == [0.4, 1.0]
    assert seen.problem.sites[0].capacity == 0.4
    assert PROBLEM.sites[0].capacity == 1.0


def test_what_should_run_and_does_not_is_said() -> None:
    surveyor, rates = Surveyor(PROBLEM), {"x": 5.0, "y": 5.0}
    assert "f does not run" in str(surveyor.survey(look(rates, {"g": "b"})))
    lost = [look(rates, {"g": "b"}, lost_sites=frozenset({"a"})) for _ in range(3)]
    seen = surveyed(surveyor, *lost)
    assert isinstance(seen, Picture)
    assert seen.running.tolist() == [False, True]
    assert seen.movable.tolist() == [False, True]
    assert seen.lost.tolist() == [True, False]
    assert seen.predict(seen.sites).site_loads_cores["a"] == 0.0


def test_noise_alone_rarely_brings_the_low_rate_above_the_true_one() -> None:
    rng, surveyor, above = np.random.default_rng(1), Surveyor(PROBLEM), 0
    for _ in range(100):
        for x in rng.normal(100.0, 10.0, 6):
            seen = surveyor.survey(look({"x": float(x), "y": 1.0}))
        assert isinstance(seen, Picture)
        above += bool(seen.low_rates[0] > 100.0)
    assert above <= 7


def test_what_has_lasted_is_known_better_until_a_step_changes_it() -> None:
    surveyor, rng = Surveyor(PROBLEM), np.random.default_rng(3)
    lows = []
    for rate in rng.normal(100.0, 10.0, 30):
        seen = surveyor.survey(look({"x": float(rate), "y": 1.0}))
        lows += [seen.low_rates[0]] if isinstance(seen, Picture) else []
    assert np.mean(100.0 - np.array(lows[-6:])) < 0.7 * np.mean(100.0 - np.array(lows[:6]))
    for rate in (40.0, 41.0, 39.0):
        seen = surveyor.survey(look({"x": rate, "y": 1.0}))
    assert isinstance(seen, Picture)
    assert seen.low_rates[0] <= seen.rates[0] == 40.0


def test_a_rate_that_falls_is_never_taken_to_be_at_least_what_it_was() -> None:
    surveyor = Surveyor(PROBLEM)
    for k in range(40):
        seen = surveyor.survey(look({"x": 200.0 - 4.0 * k + (-1.0) ** k, "y": 1.0}))
        if isinstance(seen, Picture):
            assert seen.low_rates[0] <= seen.rates[0]


def full(share: float, *, saturated: bool = True, capacity: float | None = 1.0) -> Observation:
    """Site a at a share of its capacity, though it got done all that it could."""
    reports = {"a": SiteReport(share, None, capacity, saturated=saturated)}
    measured = Measurement(0.0, 5.0, stream_rates={"x": 5.0, "y": 5.0}, sites=reports)
    return Observation(0.0, FragmentSites(HOMES), measured, placement=FragmentSites(HOMES))


def test_a_site_that_is_held_back_counts_with_what_it_gets_done() -> None:
    surveyor = Surveyor(PROBLEM)
    seen = surveyed(surveyor, full(0.6), full(0.6))
    assert surveyor.estimated == {}
    seen = surveyor.survey(full(0.6))
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores.tolist() == [0.6, 1.0]
    assert surveyor.estimated == {"a": 0.6}
    assert "a counts with 0.60 cores (estimated)" in seen.statistics
    # It is not forgotten as soon as there is less to do, but when more gets done or the limit changes.
    seen = surveyor.survey(full(0.3, saturated=False))
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == 0.6
    surveyor.survey(full(0.8, saturated=False))
    assert surveyor.estimated == {}
    surveyed(surveyor, full(0.5), full(0.5), full(0.5))
    assert surveyor.estimated == {"a": 0.5}
    surveyor.survey(full(0.5, capacity=0.8))
    assert surveyor.estimated == {}


def test_a_site_at_its_limit_has_the_capacity_that_the_limit_says() -> None:
    surveyor = Surveyor(PROBLEM)
    surveyed(surveyor, full(0.99), full(0.98), full(1.0))
    assert surveyor.estimated == {}


def test_of_a_site_that_cannot_be_seen_capacity_follows_from_what_its_fragments_took_in() -> None:
    """Stated is one core; its fragment falls behind at 400 tuples per second of 1 ms each."""
    surveyor = Surveyor(PROBLEM)
    report = SiteReport(1.0, estimated=True, saturated=True)
    took = FragmentReport("a", True, 400.0, 400.0, 1.0, cores_estimated=True)
    measured = Measurement(
        0.0, 5.0, stream_rates={"x": 500.0, "y": 5.0}, sites={"a": report}, fragments={"f": took}
    )
    seen = surveyed(
        surveyor, *[Observation(0.0, FragmentSites(HOMES), measured, placement=FragmentSites(HOMES))] * 3
    )
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == pytest.approx(0.4)
    assert surveyor.estimated == pytest.approx({"a": 0.4})


def endpoint(server_cores: float | None = None, batch_s: float = 1.0) -> Observation:
    """Site a serves others too; our fragment there should use 0.1 cores."""
    report = SiteReport(0.2, estimated=True, server_cores=server_cores)
    took = FragmentReport("a", True, 100.0, 100.0, 0.2, batch_s=batch_s, cores_estimated=True)
    rates = {"x": 100.0, "y": 5.0}
    measured = Measurement(0.0, 5.0, rates, {"a": report}, {"f": took}, trigger_s=5.0)
    return Observation(0.0, FragmentSites(HOMES), measured, placement=FragmentSites(HOMES))


def test_an_endpoint_counts_without_what_its_server_does_for_others() -> None:
    surveyor = Surveyor(PROBLEM)
    seen = surveyed(surveyor, *[endpoint(0.1)] * 3)
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == 1.0
    seen = surveyed(surveyor, *[endpoint(0.7)] * 3)
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == pytest.approx(0.4)
    assert "a counts with 0.40 cores (its server uses 0.60 beyond" in seen.statistics
    seen = surveyed(surveyor, *[endpoint(0.1)] * 3)
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == 1.0


def test_where_its_server_cannot_be_seen_batches_that_take_longer_tell_of_others() -> None:
    surveyor = Surveyor(PROBLEM)
    seen = surveyed(surveyor, *[endpoint()] * 6)
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == 1.0
    seen = surveyed(surveyor, *[endpoint(batch_s=2.5)] * 6)
    assert isinstance(seen, Picture)
    assert seen.model.capacity_cores[0] == pytest.approx(0.4)
    assert "a counts with 0.40 cores (batches take 2.5 times as long as at best)" in seen.statistics
