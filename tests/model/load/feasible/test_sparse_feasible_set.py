"""What is kept sparse says the same as the dense computation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.arrays import Ints
from mooring.errors import InfeasibleError
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.directions import Directions
from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.load.feasible.headroom import headroom, sparse_growths
from mooring.model.load.feasible.sparse_feasible_set import SparseFeasibleSet
from mooring.model.load.model import LoadModel
from mooring.model.problem.generate import GraphParameters, generate_problem


def drawn(seed: int, joins: int, comm_us: float, rate: float) -> tuple[LoadModel, Ints]:
    rng = np.random.default_rng(seed)
    problem = generate_problem(
        GraphParameters(streams=8, operators=32, sites=5, joins=joins, comm_us=comm_us, utilisation=rate), rng
    )
    model = build_load_model(problem)
    fixed = rng.uniform(0.0, 0.02, model.fragment_count) * (seed % 2)
    lower = rng.uniform(0.0, 0.2) * model.present * (seed % 3 > 0)
    return replace(model, fixed_cores=fixed, lower=lower), rng.integers(5, size=model.fragment_count)


models = st.builds(
    drawn,
    st.integers(0, 10_000),
    st.sampled_from((0, 6)),
    st.sampled_from((0.0, 50.0)),
    st.sampled_from((0.1, 0.5, 1.0)),
)


@given(models)
def test_headroom_is_that_of_all_rays_and_sites_together(drawn: tuple[LoadModel, Ints]) -> None:
    model, sites = drawn
    now = model.present[: model.stream_count].copy()
    now[0] = 0.0
    dense = headroom(model, sites, now)
    together, *each = sparse_growths(model, sites, now)
    assert together.factor == pytest.approx(dense.all.factor, rel=1e-9)
    for k, (sparse, expected) in enumerate(zip(each, dense.streams, strict=True)):
        assert sparse.factor == pytest.approx(expected.factor, rel=1e-9)
        assert (sparse.site is None) == (expected.site is None)
        if sparse.site != expected.site:  # both are full then
            assert sparse.site is not None
            assert expected.site is not None
            at, both = now.copy(), [sparse.site, expected.site]
            at[k] *= sparse.factor
            assert model.site_loads(sites, at)[both] == pytest.approx(model.capacity_cores[both])


@given(models)
def test_planes_distances_and_shares_are_those_of_dense_weights(drawn: tuple[LoadModel, Ints]) -> None:
    model, sites = drawn
    try:
        dense = FeasibleSet.of(model, sites)
    except InfeasibleError as error:
        with pytest.raises(InfeasibleError, match=str(error)[:30]):
            SparseFeasibleSet.of(model, sites)
        return
    sparse = SparseFeasibleSet.of(model, sites)
    assert np.allclose(sparse.axis_distances, dense.axis_distances)
    assert sparse.plane_distance == pytest.approx(dense.plane_distance)
    assert sparse.is_empty == dense.is_empty
    assert sparse.variables == dense.variables
    assert np.allclose([sparse.weights_of(i) for i in range(5)], dense.weights)
    net = Directions.draw(len(dense.variables), 64, 1)
    assert sparse.mean_reach(net) == pytest.approx(dense.mean_reach(net))
    assert sparse.binding_shares(64, 1) == pytest.approx(dense.binding_shares(64, 1))
    if not dense.is_empty:
        assert np.allclose(sparse.rows_above_lower().toarray(), dense.weights_above_lower())


@given(models, st.sets(st.integers(0, 4), min_size=1))
def test_some_sites_load_is_that_of_all(drawn: tuple[LoadModel, Ints], wanted: set[int]) -> None:
    model, sites = drawn
    chosen = np.array(sorted(wanted))
    rows = model.some_site_coefficients(sites, chosen).toarray()
    assert np.allclose(rows, model.site_coefficients(sites)[chosen])


def test_a_site_that_fixed_load_overloads_leaves_nothing() -> None:
    model = LoadModel.from_coefficients(
        np.eye(3), capacity_cores=[1.0, 1.0, 4.0], fixed_cores=[2.0, 0.0, 0.0]
    )
    dense, sparse = FeasibleSet.of(model, [0, 1, 2]), SparseFeasibleSet.of(model, [0, 1, 2])
    assert sparse.is_empty
    assert sparse.axis_distances.tolist() == dense.axis_distances.tolist()
    assert sparse.weights_of(0).tolist() == dense.weights_of(0).tolist()
    assert sparse.plane_distance == dense.plane_distance
    assert sparse.log_ratio().value == -np.inf


def test_many_introduced_variables_are_evaluated_level_by_level_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn_ = GraphParameters(streams=6, operators=60, sites=3, joins=20, variable=10)
    model = build_load_model(generate_problem(drawn_, np.random.default_rng(5)))
    rates = np.random.default_rng(6).uniform(0.0, 100.0, (4, 6))
    one_by_one = model.variable_values(rates)
    monkeypatch.setattr("mooring.model.load.model.MANY_DEFINITIONS", 0)
    assert len({definition.right is None for definition in model.definitions}) == 2
    assert model.variable_values(rates) == pytest.approx(one_by_one, rel=1e-12)
    assert model.variable_values(rates[0]) == pytest.approx(one_by_one[0], rel=1e-12)
