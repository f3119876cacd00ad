"""The experiments of the overlays paper at a size for tests: what they must show."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.experiments.overlay import figure3, search
from mooring.experiments.overlay.shared_chains import draw_chains
from mooring.experiments.registry import EXPERIMENTS
from mooring.experiments.trials import Row
from mooring.placement.placement import Placement
from mooring.run import evaluate


@pytest.fixture(scope="module")
def quick_figure() -> list[Row]:
    return EXPERIMENTS["overlay_figure3"].run(seed=0, quick=True, report=lambda done, what: None)


def test_overlay_meets_far_more_limits_than_random_and_breaks_none(quick_figure: list[Row]) -> None:
    random, ours = quick_figure
    assert (random["way"], ours["way"]) == (figure3.RANDOM, figure3.OPTIMIZED)
    assert float(ours["met"]) >= float(random["met"]) + 0.39
    assert ours["broken"] == 0
    assert float(ours["latency_ms"]) < 0.55 * float(random["latency_ms"])


def test_the_figure_has_the_documented_columns_and_can_be_drawn(quick_figure: list[Row]) -> None:
    experiment = EXPERIMENTS["overlay_figure3"]
    assert list(quick_figure[0]) == list(experiment.columns)
    assert experiment.draw(quick_figure).axes
    assert experiment.conclude is not None
    assert "50 sites" in experiment.conclude(quick_figure)[0]


@pytest.mark.parametrize("limits", ["loose", "tight"])
def test_three_steps_ahead_leave_at_most_55_percent_of_the_plans(limits: str) -> None:
    three, none = (
        float(search.explore_plans(search.SearchTrial("plans", "any", limits, k, 100, 0))[0]["explored"])
        for k in (3, 0)
    )
    assert three <= 0.55 * none


def test_of_near_candidates_most_plans_are_needed_and_little_else_is_explored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "EXPLORED_CHAINS", 10)
    three, none = (
        search.explore_plans(search.SearchTrial("plans", "near", "loose", k, 100, 0))[0] for k in (3, 0)
    )
    needed = float(none["needed"])
    assert needed > 0.55 * float(none["explored"]), "so much has to be explored, however it is eliminated"
    assert needed <= float(three["explored"]) <= 1.05 * needed


def test_networks_of_several_sizes_meet_one_workload() -> None:
    small, large = (draw_chains(sites, 0.9, 3, of_sites=50) for sites in (50, 200))
    assert (small.cores == large.cores).all()
    assert (small.selectivity == large.selectivity).all()
    assert small.capacity_cores == large.capacity_cores
    assert (small.utilisation, large.utilisation) == pytest.approx((0.9, 0.9 / 4))


def test_search_rows_have_the_documented_columns_and_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EXPLORED_CHAINS", 2)
    monkeypatch.setattr(search, "REGISTERED_CHAINS", 2)
    experiment = EXPERIMENTS["overlay_search"]
    rows = experiment.run(seed=0, quick=True, report=lambda done, what: None)
    assert all(list(row) == list(experiment.columns) for row in rows)
    assert all(int(row["most_hops"]) <= int(row["log2_sites"]) for row in rows)
    assert len(experiment.draw(rows).axes) == 2


def test_latencies_and_bandwidth_of_chains_are_those_of_moorings_metrics() -> None:
    rng = np.random.default_rng(0)
    chains = draw_chains(20, 0.6, 0, chains=4)
    sites = rng.integers(20, size=chains.cores.shape)
    problem = chains.problem()
    placement = Placement(problem, sites.ravel())
    metrics = evaluate(problem, placement)
    latency_ms = metrics["latency_ms"]
    assert isinstance(latency_ms, dict)
    assert chains.latencies_ms(chains.sites_of(placement)).ravel() == pytest.approx(list(latency_ms.values()))
    everything = chains.bandwidth_of_everything(sites, chains.admitted(placement))
    assert metrics["bandwidth"] == pytest.approx(everything, rel=0.2), "a site's readers are sent one copy"
    assert chains.possible().all()
