"""What a move does to how far rates go is found from the sites that it changes."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.model.evaluation.suggestion import ReachOfMoves, Relocation, Yardstick
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem


@pytest.mark.parametrize("comm_us", [0.0, 40.0])
def test_a_moves_gain_is_that_of_the_whole_placement_measured_again(comm_us: float) -> None:
    rng = np.random.default_rng(3)
    problem = generate_problem(GraphParameters(streams=70, operators=210, sites=6, comm_us=comm_us), rng)
    model = build_load_model(problem)
    placement = Placement(problem, rng.integers(6, size=210))
    yardstick = Yardstick.draw(model, 0)
    assert yardstick.measure == "reach"
    moves = ReachOfMoves(model, placement.site_of_fragment, yardstick.directions)
    for _ in range(20):
        own = tuple(
            (int(f), int(rng.integers(6))) for f in rng.choice(210, rng.integers(1, 3), replace=False)
        )
        whole = yardstick.log_size(model, Relocation(own, 0.0).apply(placement))
        assert moves.log_size(own) == pytest.approx(whole, rel=1e-12)
