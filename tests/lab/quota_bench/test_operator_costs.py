"""Costs that made the CPU of whole sites are found again, also with noise and an outlier."""

from __future__ import annotations

import numpy as np
import pytest

from lab.quota_bench.operator_costs import SiteEquation, fit_costs
from mooring.errors import EngineError

COSTS_US = {"a": 1500.0, "b": 4000.0, "c": 2500.0, "d": 900.0}


def equations(rng: np.random.Generator, noise: float, looks: int = 12) -> list[SiteEquation]:
    made = []
    for _ in range(looks):
        for site in (("a", "b"), ("c", "d")):
            rows = {name: int(rng.integers(20, 600)) for name in site}
            cpu_s = 0.02 * 20 + 0.15 * 10 + sum(COSTS_US[name] * count / 1e6 for name, count in rows.items())
            made.append(SiteEquation(20.0, cpu_s * (1 + noise * rng.standard_normal()), 10, rows))
    # Looks without input tell idling apart from batches.
    return [*made, SiteEquation(20.0, 0.4, 0, {"a": 0}), SiteEquation(20.0, 0.4, 0, {"c": 0})]


def test_exact_equations_give_the_costs_back() -> None:
    found = fit_costs(equations(np.random.default_rng(0), noise=0.0))
    assert found.cost_us == pytest.approx(COSTS_US, rel=0.02)
    assert found.batch_cpu_s == pytest.approx(0.15, rel=0.02)
    assert found.idle_cores == pytest.approx(0.02, rel=0.05)
    assert found.error < 0.01


def test_noise_and_an_outlier_hardly_matter() -> None:
    noisy = equations(np.random.default_rng(1), noise=0.02, looks=20)
    noisy[5] = SiteEquation(20.0, 3 * noisy[5].cpu_s, 10, noisy[5].rows_in)
    assert fit_costs(noisy).cost_us == pytest.approx(COSTS_US, rel=0.15)


def test_too_few_looks_are_refused() -> None:
    with pytest.raises(EngineError, match="more steps"):
        fit_costs(equations(np.random.default_rng(0), noise=0.0)[:3])
