"""Figure 18 in simulation: ROD is the last to overload, and does not pay for it in latency."""

from __future__ import annotations

import pytest

from lab.experiments.rod.figure18 import MULTIPLIERS, POLICIES, Draw, draw, run_draw, summarise, workload
from lab.experiments.trials import Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return summarise(run_draw(Draw(number=0, seed=0, multipliers=(1.0, 3.0, 4.0))))


def by_policy(rows: list[Row], multiplier: float, column: str) -> dict[str, float]:
    return {str(row["policy"]): float(row[column]) for row in rows if row["multiplier"] == multiplier}


def test_the_workload_is_the_papers() -> None:
    work = workload(0)
    assert len(work.problem.operators) == 160
    assert len(work.problem.sites) == 5
    assert {operator.kind for operator in work.problem.operators} == {"aggregate"}
    assert len(work.instants) == 10
    assert len(MULTIPLIERS) == 5


def test_rod_survives_four_times_the_rate_and_nobody_else_does(rows: list[Row]) -> None:
    """On this draw; over draws it is an order of averages (see MEMORY_TUPLES)."""
    overloaded = by_policy(rows, 4.0, "overloaded")
    assert overloaded.pop("rod") == 0
    assert set(overloaded.values()) == {1.0}


def test_where_all_survive_no_policy_has_a_lower_average_latency_than_rod(rows: list[Row]) -> None:
    for multiplier in (1.0, 3.0):
        assert not any(by_policy(rows, multiplier, "overloaded").values())
        latency = by_policy(rows, multiplier, "mean_ms")
        assert set(latency) == set(POLICIES)
        # On idle machines rod and correlation tie to a percent: both spread every sub-stream evenly.
        assert latency["rod"] <= (1.02 if multiplier == 1.0 else 1.0) * min(latency.values())


def test_utilisation_is_near_what_the_paper_reports(rows: list[Row]) -> None:
    for multiplier, paper in ((1.0, 0.26), (3.0, 0.69), (4.0, 0.91)):
        assert by_policy(rows, multiplier, "utilisation")["rod"] == pytest.approx(paper, abs=0.05)


def test_the_figure_shows_every_policy(rows: list[Row]) -> None:
    legend = draw(rows).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(POLICIES)
