"""Commands on problems with hundreds of streams: every number finite, every sentence sensible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mooring.model.load.feasible.feasible_set import FeasibleSet
from mooring.model.network.shipped import planetlab
from mooring.model.problem.problem import Problem
from mooring.planning import plan

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

QUERIES, SITES = 60, 40


def wide_area(**stream: Any) -> dict[str, Any]:
    """Sixty queries over 240 streams between forty sites; some operators are shared out, some pinned."""
    rng = np.random.default_rng(3)
    latency_ms = planetlab().one_way_ms()[:SITES, :SITES]
    names = [f"n{i}" for i in range(SITES)]
    return {
        "sites": {name: {"capacity": 2} for name in names},
        "latency_ms": {
            a: {names[j]: float(latency_ms[i, j]) for j in range(i + 1, SITES)}
            for i, a in enumerate(names[:-1])
        },
        "streams": {
            f"s{k}": {"site": names[int(rng.integers(SITES))], "rate": 20, "bytes": 100, **stream}
            for k in range(4 * QUERIES)
        },
        "operators": {
            f"o{q}": {
                "inputs": [f"s{4 * q + k}" for k in range(4)],
                "cost_us": float(rng.uniform(10, 1000)),
                "selectivity": 0.2,
                **({"site": "n0"} if q % 20 == 0 else {}),
            }
            for q in range(QUERIES)
        },
        "queries": {
            f"q{q}": {"reads": f"o{q}", "site": names[int(rng.integers(SITES))], "max_latency_ms": 300}
            for q in range(QUERIES)
        },
    }


def written(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "many.json"
    path.write_text(json.dumps(data))
    return path


def strict(text: str) -> Any:
    """JSON has no NaN and no infinity."""

    def refuse(word: str) -> float:
        raise AssertionError(f"found {word}")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("policy", ["rod", "random", "relaxation", "producer"])
def test_a_plan_over_hundreds_of_streams(mooring: Mooring, tmp_path: Path, policy: str) -> None:
    result = mooring("plan", written(tmp_path, wide_area()), "--policy", policy, "--json")
    assert result.code == 0
    document = strict(result.out)
    metrics = document["metrics"]
    assert -2000.0 < metrics["feasible_ratio_log10"] <= document["bound_log10"] <= 0.0
    assert metrics["feasible_ratio_log10_error"] < 1.0
    assert metrics["headroom"]["factor"] > 0.0
    assert len(metrics["headroom"]["streams"]) == 4 * QUERIES
    text = " ".join(document["explanation"])
    if policy in ("relaxation", "producer"):
        assert "in flight between sites" in text
        assert document["network_usage_bound"] <= metrics["network_usage"] * (1 + 1e-9)
    else:
        assert "10^-" in text
        assert "is the bottleneck" in text


def test_evaluating_comparing_and_headroom_over_hundreds_of_streams(mooring: Mooring, tmp_path: Path) -> None:
    file, output = written(tmp_path, wide_area()), tmp_path / "plan.json"
    assert mooring("plan", file, "--policy", "relaxation", "--output", output).code == 0
    made = json.loads(output.read_text())["metrics"]
    assert strict(mooring("evaluate", file, "--placement", output, "--json").out)["metrics"] == made
    assert (
        strict(mooring("headroom", file, "--placement", output, "--json").out)["headroom"] == made["headroom"]
    )
    compared = strict(mooring("compare", file, "--policies", "rod,random,relaxation", "--json").out)
    assert compared["best_by"] == "feasible_ratio_log10"
    worth = {name: own["metrics"]["feasible_ratio_log10"] for name, own in compared["policies"].items()}
    assert compared["best"] == max(worth, key=lambda name: worth[name])
    shown = mooring("compare", file, "--policies", "rod,random").out
    assert "10^-" in shown
    assert "has the largest feasible set: 10^-" in shown


def test_maximum_and_minimum_rates_over_hundreds_of_streams(mooring: Mooring, tmp_path: Path) -> None:
    file = written(tmp_path, wide_area(min_rate=5, max_rate=4000))
    metrics = strict(mooring("plan", file, "--policy", "llf", "--json").out)["metrics"]
    assert metrics["feasible_ratio_log10"] < metrics["feasible_ratio_below_max_log10"] <= 1.0


def test_a_search_over_hundreds_of_streams_does_no_worse_than_rod() -> None:
    problem = Problem.from_dict(wide_area())
    few = {"scenarios": "16", "coarse_scenarios": "4"}
    found = [plan(problem, "rod"), plan(problem, "resilient", settings=few, steps=200)]
    rod, resilient = (
        FeasibleSet.of(made.model, made.placement.site_of_fragment).comparable_ratio() for made in found
    )
    assert resilient >= rod > 0.0


def test_joins_over_a_hundred_streams(mooring: Mooring, tmp_path: Path) -> None:
    """The true set is not measured over so many, and nothing comes out as not a number."""
    data = {
        "sites": {f"n{i}": {"capacity": 4} for i in range(10)},
        "streams": {f"s{k}": {"rate": 50, "min_rate": 1} for k in range(100)},
        "operators": {
            f"j{k}": {
                "inputs": [f"s{2 * k}", f"s{2 * k + 1}"],
                "kind": "join",
                "window_s": 1,
                "cost_us": 1,
                "selectivity": 0.1,
            }
            for k in range(50)
        }
        | {f"m{k}": {"inputs": [f"s{k}"], "cost_us": 100} for k in range(100)},
    }
    document = strict(mooring("plan", written(tmp_path, data), "--json").out)
    assert "true_feasible_ratio" not in document["metrics"]
    assert document["metrics"]["feasible_ratio_log10"] < 0.0
