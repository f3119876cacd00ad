"""Points of the ideal set in equal shells, rays settled with few looks, and conclusions that can be bad."""

from __future__ import annotations

import numpy as np
import pytest

from lab.experiments.spark.feasible_set import (
    SPARK_FEASIBLE_SET,
    conclude,
    draw,
    draw_points,
    settle_ray,
)
from lab.experiments.summary import summarise
from lab.experiments.trials import Row


def test_points_lie_inside_the_ideal_set_and_weigh_the_same() -> None:
    points = draw_points(np.random.default_rng(3), streams=3, rays=50, shells=6)
    sums = points.sum(axis=2)
    assert points.shape == (50, 6, 3)
    assert (points >= 0.0).all()
    assert (sums < 1.0).all()
    # Uniform by volume: the cube of the radius is uniform.
    assert (sums**3).mean() == pytest.approx(0.5)
    assert np.diff(sums, axis=1).min() > 0.0


@pytest.mark.parametrize("edge", range(7))
@pytest.mark.parametrize("guess", range(7))
def test_a_ray_is_settled_rightly_wherever_the_edge_was_predicted(edge: int, guess: int) -> None:
    probed: list[int] = []

    def probe(at: int) -> bool:
        probed.append(at)
        return at < edge

    verdicts = settle_ray([k < guess for k in range(6)], probe)
    assert [ok for ok, _ in verdicts] == [k < edge for k in range(6)]
    assert sorted(probed) == [k for k, (_, looked) in enumerate(verdicts) if looked]
    if edge == guess:
        assert len(probed) <= 2


def test_a_disturbed_look_leaves_undecided_what_it_alone_could_tell() -> None:
    verdicts = settle_ray([True, True, False], lambda at: None if at == 1 else True)
    assert [ok for ok, _ in verdicts] == [None, None, None]
    verdicts = settle_ray([True, False, False], lambda at: True if at == 0 else None)
    assert verdicts == [(True, True), (None, True), (None, False)]


def row(policy: str, utilisation: float, measured: int, ray: int = 0) -> Row:
    return {
        "policy": policy,
        "ray": ray,
        "ideal_share": 0.5,
        "predicted_utilisation": utilisation,
        "predicted": int(utilisation <= 1.0),
        "measured": measured,
        "how": "looked",
        "utilisation": utilisation,
        "load_error": 0.1 if measured == 1 else float("nan"),
        "load_average": 1.0,
        "lost_ground": "",
    }


def test_points_near_the_edge_are_counted_apart() -> None:
    rows = [
        row("rod", 0.5, 1),
        row("rod", 0.95, 0),
        row("rod", 1.4, 0),
        row("connected", 0.6, 0),
        row("connected", 1.2, -1),
    ]
    first, *rest = conclude(rows)
    assert "2 of 4 points came out as predicted" in first
    assert "2 of 3" in first
    assert "1 undecided" in first
    assert rest[0].startswith("rod: 33% of the ideal set measured, 67% predicted")
    assert "1 looks: median 10% off" in rest[-1]


def test_the_figure_is_drawn_from_the_rows_alone() -> None:
    rows = [row("rod", 0.5, 1), row("rod", 1.5, 0), row("connected", 1.2, -1, ray=1)]
    assert len(draw(rows).axes) == 2


def test_the_summary_leaves_out_what_is_undecided() -> None:
    rows = [row("rod", 0.5, 1), row("rod", 0.95, 0), row("rod", 1.4, -1), row("connected", 0.6, -1)]
    (summary,) = SPARK_FEASIBLE_SET.summaries
    assert summarise(summary, rows).rows == (("rod", "0.500", "1", "0.100", "0.100", "2"),)
