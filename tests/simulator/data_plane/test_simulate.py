"""A simulated problem agrees with the load model and the network's arithmetic, and is the same every time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.model.load.build import build_load_model
from mooring.model.placement.network_metrics import query_latencies_ms
from mooring.model.placement.placement import Placement
from mooring.model.problem.generate import GraphParameters, generate_problem
from mooring.model.problem.problem import Problem
from mooring.planning import plan
from mooring.simulator.data_plane.arrivals import Replay
from mooring.simulator.data_plane.binding import Behaviour
from mooring.simulator.data_plane.overload import Limits
from mooring.simulator.data_plane.report import SimulationReport, largest
from mooring.simulator.data_plane.simulate import simulate

SITES = ("berkeley", "mit", "rice")


def example(comm_us: float = 0.0, channel_ms: float = 0.0) -> Problem:
    """Every kind of operator, a join, a split join, a direct load, fixed load and pins."""
    return Problem.from_dict(
        {
            "sites": {"berkeley": {"capacity": 2.0}, "mit": {"capacity": 1.0}, "rice": {"capacity": 1.5}},
            "latency_ms": {"berkeley": {"mit": 71.0, "rice": 40.0}, "mit": {"rice": 35.0}},
            "network": {"comm_us": comm_us, "channel_ms": channel_ms},
            "streams": {
                "packets": {"site": "berkeley", "rate": 1200, "bytes": 64},
                "dns": {"site": "mit", "rate": 40, "bytes": 80},
                "anywhere": {"rate": 100},
            },
            "operators": {
                "tcp": {"inputs": ["packets"], "cost_us": 120, "selectivity": 0.8, "fixed_cores": 0.1},
                "pairs": {
                    "inputs": ["tcp", "dns"],
                    "kind": "join",
                    "window_s": 0.5,
                    "cost_us": 14,
                    "selectivity": 0.01,
                },
                "keyed": {
                    "inputs": ["tcp", "dns"],
                    "kind": "join",
                    "window_s": 0.5,
                    "cost_us": 10,
                    "selectivity": 0.02,
                    "instances": 2,
                    "shares": [0.3, 0.7],
                },
                "odd": {"inputs": ["tcp"], "cost_us": 60, "selectivity": 0.7, "variable": True},
                "sums": {
                    "inputs": ["odd"],
                    "kind": "aggregate",
                    "window_s": 1,
                    "cost_us": 50,
                    "selectivity": 0.1,
                },
                "both": {"inputs": ["sums", "pairs"], "kind": "union", "cost_us": 30, "selectivity": 1},
                "split": {"inputs": ["tcp"], "cost_us": 200, "selectivity": 1, "instances": 4},
                "raw": {"load": {"packets": 3.1e-5, "anywhere": 2e-4}},
            },
            "queries": {
                "top": {"reads": "both", "site": "mit", "max_latency_ms": 150},
                "all": {"reads": "split", "site": "rice"},
            },
        }
    )


def scattered(problem: Problem, seed: int) -> Placement:
    rng = np.random.default_rng(seed)
    return Placement(problem, rng.integers(0, len(problem.sites), len(problem.fragments)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("comm_us", [0.0, 40.0])
def test_utilisation_is_what_the_load_model_says(seed: int, comm_us: float) -> None:
    problem = example(comm_us)
    placement = scattered(problem, seed)
    report = simulate(problem, placement, seconds=200, seed=seed, limits=Limits(site_tuples=np.inf))
    load = build_load_model(problem)
    sites = placement.site_of_fragment
    left = load.site_capacity_left(sites)
    expected = (load.site_loads(sites, problem.rates) - (problem.capacity_cores - left)) / left
    found = np.array([report.sites[name].utilisation for name in SITES])
    assert found == pytest.approx(np.minimum(expected, 1.0), rel=0.04, abs=0.004)


@pytest.mark.parametrize("channel_ms", [0.0, 25.0])
def test_an_idle_systems_latency_is_the_networks(channel_ms: float) -> None:
    problem = example(channel_ms=channel_ms).with_rates([2.0, 0.0, 0.0])
    placement = scattered(problem, 3)
    report = simulate(problem, placement, seconds=500)
    expected = query_latencies_ms(placement, channel_ms=channel_ms)[1]
    # The longest way through the split's instances, plus service times of under a millisecond.
    assert report.queries["all"].latency.max_ms == pytest.approx(expected, abs=2.0)


def test_an_operator_that_nobody_reads_reports_its_latency_too() -> None:
    report = simulate(example(), scattered(example(), 0), seconds=5)
    assert set(report.queries) == {"top", "all", "keyed"}
    assert report.queries["keyed"].latency.tuples > 0


def test_the_share_of_tuples_within_a_limit_is_counted() -> None:
    problem = Problem.from_dict(
        {
            "sites": {"a": {"capacity": 1}},
            "streams": {"s": {"rate": 50}},
            "operators": {"o": {"inputs": ["s"], "cost_us": 10_000, "selectivity": 1}},
            "queries": {"q": {"reads": "o", "site": "a", "max_latency_ms": 30}},
        }
    )
    exponential = Behaviour(service_scv=1.0)  # M/M/1: the sojourn is exponential with mean 20 ms
    query = simulate(problem, {"o": "a"}, seconds=2000, behaviour=exponential).queries["q"]
    assert query.within_limit == pytest.approx(1 - np.exp(-30 / 20), abs=0.02)


def overloaded_report() -> SimulationReport:
    problem = example().with_rates([20_000.0, 40.0, 100.0])
    return simulate(problem, scattered(problem, 1), seconds=1e5, limits=Limits(site_tuples=20_000))


def test_an_overloaded_run_ends_early_with_a_verdict_that_names_the_site() -> None:
    report = overloaded_report()
    assert report.overloaded
    assert report.seconds < 100
    assert report.overload is not None
    assert report.overload["kind"] == "site"
    assert any(repr(site) in report.verdict for site in SITES)
    assert "overloaded: backlog grew without bound" in report.verdict


def test_capacity_that_falls_away_is_felt() -> None:
    problem = example()
    placement = Placement.from_dict(problem, {o.name: "berkeley" for o in problem.operators})
    calm = simulate(problem, placement, seconds=60)
    slowed = Behaviour(capacity_changes=((20.0, "berkeley", 0.9), (40.0, "berkeley", 2.0)))
    report = simulate(problem, placement, seconds=60, behaviour=slowed)
    busy = report.series.utilisation[:, 0]
    assert busy[25:35].mean() > 1.5 * busy[5:15].mean()
    assert report.latency.mean_ms > calm.latency.mean_ms


def test_the_json_report_is_plain_and_whole() -> None:
    for report in (simulate(example(), scattered(example(), 0), seconds=20), overloaded_report()):
        data = report.as_json()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        series = data["series"]
        assert isinstance(series, dict)
        assert len(series["time_s"]) == len(series["mean_latency_ms"])


def digest(seed: int) -> str:
    report = simulate(
        example(5.0),
        scattered(example(), seed),
        seconds=20,
        seed=seed,
        trace={"packets": "bc-paug89-extract"},
        arrivals="on-off",
    )
    return json.dumps(report.as_json())


def test_the_same_seed_gives_the_same_report_in_another_process() -> None:
    code = "import runpy, sys; sys.stdout.write(runpy.run_path(sys.argv[1])['digest'](5))"
    other = subprocess.run([sys.executable, "-c", code, __file__], capture_output=True, text=True, check=True)
    assert other.stdout == digest(5)
    assert digest(6) != digest(5)


def test_arrivals_can_be_handed_in() -> None:
    problem = example()
    instants = np.arange(1, 11) / 2.0
    report = simulate(
        problem,
        scattered(problem, 0),
        seconds=10,
        arrivals=[Replay(instants), Replay(instants[:0]), Replay(instants)],
    )
    assert report.stream_rates == {"packets": 1.0, "dns": 0.0, "anywhere": 1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0},
        {"batch": 0},
        {"multiplier": -1},
        {"arrivals": "poison"},
        {"trace": {"nosuch": "bc-paug89-extract"}},
        {"trace": "nosuch-trace"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        simulate(example(), scattered(example(), 0), **wrong)  # type: ignore[arg-type]


def test_a_page_of_the_course_has_the_busiest_sites_and_the_means_of_all() -> None:
    problem = generate_problem(GraphParameters(sites=6, operators=30), np.random.default_rng(0))
    report = simulate(problem, plan(problem, "rod").placement, seconds=2.0)
    whole, page = report.as_json()["series"], report.as_json(2)["series"]
    assert isinstance(whole, dict)
    assert isinstance(page, dict)
    assert list(whole.pop("sites")) == list(report.sites)
    shown = page.pop("sites")
    assert whole == page
    hidden = [site.utilisation for name, site in report.sites.items() if name not in shown]
    assert len(shown) == 2
    assert max(hidden) <= min(report.sites[name].utilisation for name in shown)
    assert whole["mean_utilisation"] == pytest.approx(report.series.utilisation.mean(axis=1))


def test_what_received_nothing_is_among_the_worst() -> None:
    assert largest({"a": 1.0, "b": float("nan"), "c": 3.0, "d": 2.0}, 2) == ["b", "c"]
    assert largest({"a": 1.0, "b": 2.0}, None) == ["a", "b"]
