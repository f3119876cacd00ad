"""A random problem can lie in a network that exists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.network.real_networks import real_network
from mooring.model.network.shipped import aws_regions
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.latencies import as_matrix
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_data


def test_latencies_are_half_the_round_trips_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "pings").mkdir()
    (tmp_path / "pings" / "here.dat").write_text("10/12/20/0.1:there\n")
    (tmp_path / "pings" / "there.dat").write_text("10/12/20/0.1:here\n")
    (tmp_path / "matrix.csv").write_text("0,12\n12,0\n")
    for path, names in (("pings", ("here", "there")), ("matrix.csv", ("n0", "n1"))):
        found = real_network(str(tmp_path / path))
        assert (found.names, found.latency_ms.tolist()) == (names, [[0.0, 6.0], [6.0, 0.0]])


def test_a_topology_gives_the_latencies_along_its_routes(tmp_path: Path) -> None:
    path = tmp_path / "line.gml"
    path.write_text(
        """graph [
        node [ id 1 label "a #1" Latitude 0 Longitude 0 ]
        node [ id 2 label "b" Latitude 0 Longitude 9 ]
        node [ id 3 label "c" Latitude 0 Longitude 18 ]
        edge [ source 1 target 2 ]
        edge [ source 2 target 3 ]
        ]"""
    )
    found = real_network(str(path))
    assert found.names == ("a 1-1", "b-2", "c-3")
    assert found.latency_ms[0, 2] == pytest.approx(2 * found.latency_ms[0, 1])
    assert found.latency_ms[0, 1] == pytest.approx(1000.0 / 200.0, rel=0.01)  # 9 degrees are 1,000 km


def test_the_sites_are_places_of_the_network_with_its_latencies() -> None:
    places = real_network("aws")
    problem = generate_problem(
        GraphParameters(streams=2, operators=10, sites=5, queries=2), np.random.default_rng(1), places
    )
    chosen = [places.names.index(site.name) for site in problem.sites]
    assert chosen == sorted(set(chosen))
    assert problem.network.latency_ms is not None
    one_way_ms = aws_regions().one_way_ms()
    assert as_matrix(problem.network.latency_ms).tolist() == one_way_ms[np.ix_(chosen, chosen)].tolist()
    assert {stream.site for stream in problem.streams} <= {site.name for site in problem.sites}
    assert problem_to_data(Problem.from_dict(problem_to_data(problem))) == problem_to_data(problem)


def test_without_a_network_the_same_seed_draws_what_it_always_did() -> None:
    parameters = GraphParameters(streams=1, operators=2, sites=2, plane_ms=10.0)
    problem = generate_problem(parameters, np.random.default_rng(0))
    assert [site.name for site in problem.sites] == ["site1", "site2"]
    assert problem.network.latency_ms is not None
    assert problem.network.latency_ms[0, 1] == pytest.approx(9.712646063015153)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    few, rng = GraphParameters(streams=1, operators=1, sites=20), np.random.default_rng(0)
    with pytest.raises(InputError, match="at most the 19"):
        generate_problem(few, rng, real_network("aws"))
    with pytest.raises(InputError, match="both"):
        generate_problem(GraphParameters(streams=1, operators=1, plane_ms=1.0), rng, real_network("aws"))
    with pytest.raises(InputError, match="did you mean 'planetlab'"):
        real_network("planetlb")
    with pytest.raises(InputError, match=r"no \.dat files"):
        real_network(str(tmp_path))
