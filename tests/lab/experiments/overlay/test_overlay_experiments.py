"""The experiments of the overlays paper at a size for tests: what they must show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lab.experiments.overlay import figure3, figure4, search
from lab.experiments.overlay.shared_chains import draw_chains
from lab.experiments.registry import EXPERIMENTS
from lab.experiments.trials import Row
from mooring.model.placement.admission import without_queries
from mooring.model.placement.network_metrics import network_metrics
from mooring.model.placement.placement import Placement
from mooring.planning import evaluate


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


@pytest.mark.parametrize(("limits", "seed"), [("loose", 0), ("loose", 1), ("loose", 2), ("tight", 0)])
def test_three_steps_ahead_leave_at_most_55_percent_of_the_plans(limits: str, seed: int) -> None:
    """Candidates as the paper asks for them: sites with enough CPU, wherever they are (section 3.3.1)."""
    three, none = search.explore_plans(search.SearchTrial("plans", "any", limits, (3, 0), 100, seed))
    assert float(three["explored"]) <= 0.55 * float(none["explored"])


def test_of_near_candidates_most_plans_are_needed_and_little_else_is_explored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "EXPLORED_CHAINS", 10)
    three, none = search.explore_plans(search.SearchTrial("plans", "near", "loose", (3, 0), 100, 0))
    needed = float(none["needed"])
    assert needed > 0.55 * float(none["explored"]), "so much has to be explored, however it is eliminated"
    assert needed <= float(three["explored"]) <= 1.05 * needed


def test_a_query_takes_as_many_messages_on_400_sites_as_on_50(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a fixed number of candidates; the record of `overlay_search` goes to 1000 sites."""
    monkeypatch.setattr(search, "REGISTERED_CHAINS", 4)
    small, large = (
        search.count_messages(search.SearchTrial("messages", "near", "loose", (3,), sites, 0))[0]
        for sites in (50, 400)
    )
    sent = [float(row["exchange"]) + float(row["within"]) for row in (small, large)]
    assert sent[1] == pytest.approx(sent[0], rel=0.05)
    assert float(large["exchange"]) <= 1.2 * float(small["exchange"])
    assert all(int(row["most_hops"]) <= int(row["log2_sites"]) for row in (small, large))


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


def test_latencies_of_chains_are_those_of_moorings_metrics() -> None:
    chains = draw_chains(20, 0.6, 0, chains=4)
    sites = np.random.default_rng(0).integers(20, size=chains.cores.shape)
    problem = chains.problem()
    placement = Placement(problem, sites.ravel())
    latency_ms = evaluate(problem, placement).latency_ms
    assert isinstance(latency_ms, dict)
    assert chains.latencies_ms(chains.sites_of(placement)).ravel() == pytest.approx(list(latency_ms.values()))
    assert chains.possible().all()


def test_the_least_bandwidth_is_that_of_the_best_of_all_placements() -> None:
    for seed in range(2):
        chains = draw_chains(3, 0.6, seed, chains=1)
        problem = without_queries(chains.problem(rate=0.5), {"q0_1", "q0_4"})
        placements = [Placement(problem, np.array(at)) for at in itertools.product(range(3), repeat=4)]
        bandwidths = [float(np.asarray(network_metrics(each).bandwidth)) for each in placements]
        admitted = chains.admitted(placements[0])
        assert admitted.sum() == 3
        assert chains.least_bandwidth(admitted, rate=0.5) == pytest.approx(min(bandwidths))


def test_the_best_plan_takes_far_less_than_a_random_one_and_adapting_less_than_waiting() -> None:
    experiment = EXPERIMENTS["overlay_figure4"]
    rows = experiment.run(seed=0, quick=True, report=lambda done, what: None)
    random, best, left, adapted = (float(row["operators_kb_s"]) for row in rows)
    assert [row["stage"] for row in rows] == list(figure4.STAGES)
    assert best <= 0.4 * random, "16 to 27% in three draws"
    assert left == pytest.approx(best / 2)
    assert adapted <= 0.3 * left, "nothing at all in three draws: whole chains fit at one site"
    _, _, left, adapted = (float(row["everything_kb_s"]) for row in rows)
    assert adapted <= 0.98 * left, "91 to 96% in three draws: feeds and results stay where they are"
    assert all(row["late"] == 0 for row in rows)
    assert all(float(row["least_kb_s"]) <= float(row["everything_kb_s"]) for row in rows)
    assert list(rows[0]) == list(experiment.columns)
    assert experiment.draw(rows).axes
    assert experiment.conclude is not None
    assert "10 sites" in experiment.conclude(rows)[0]
