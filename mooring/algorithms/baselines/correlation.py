"""Separate operators whose loads rise and fall together (ROD paper, section 7.2, after its reference [23]).

Fragments are placed by descending mean load, each on the site whose load so far is least correlated with its
own, among the sites that stay near their share of the total load. The loads come from past rates; without a
history, from random rates around the present ones, as the paper's own comparison does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.errors import InputError
from mooring.model.evaluation.explanation import Subject
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.placement.site_limits import SiteLimits, first_that_fits, no_room
from mooring.model.problem.problem import Problem


def correlation_assign(
    model: LoadModel, rate_series: Floats, slack: float = 0.2, problem: Problem | None = None
) -> Ints:
    """`rate_series` is samples x streams; `slack` as in the policy."""
    values = model.variable_values(rate_series)
    loads = np.asarray(model.coefficients @ values.T)
    mean_loads = loads.mean(axis=1) + model.fixed_cores
    swings = loads - loads.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(swings, axis=1)
    share_cores = mean_loads.sum() / model.capacity_cores.sum() * model.capacity_cores

    def attempt(order: Ints) -> Ints:
        limits = SiteLimits(model)
        site_loads = np.zeros(model.site_count)
        site_swings = np.zeros((model.site_count, len(values)))
        site_lengths = np.zeros(model.site_count)
        sites = np.empty(model.fragment_count, np.int64)
        for j in order:
            allowed = limits.allowed(j)
            if not allowed.any():
                raise no_room(model, j, limits.capacity_left_cores, limits.memory_left_mb, problem)
            near = allowed & (site_loads + mean_loads[j] <= (1.0 + slack) * share_cores)
            if near.any():
                score = _correlations(site_swings, site_lengths, swings[j], lengths[j])
            else:
                near, score = allowed, site_loads / model.capacity_cores
            chosen = int(np.argmin(np.where(near, score, np.inf)))
            sites[j] = chosen
            site_loads[chosen] += mean_loads[j]
            site_swings[chosen] += swings[j]
            site_lengths[chosen] = np.linalg.norm(site_swings[[chosen]], axis=1)[0]
            limits.take(j, chosen)
        return sites

    return first_that_fits(model, np.argsort(-mean_loads, kind="stable"), attempt)


def _correlations(site_swings: Floats, site_lengths: Floats, swing: Floats, length: float) -> Floats:
    """Correlation of one fragment's load with every site's; zero where either does not vary."""
    norms = site_lengths * length
    return np.asarray(np.divide(site_swings @ swing, norms, out=np.zeros(len(norms)), where=norms > 0.0))


def averaged(series: Floats, samples: int) -> Floats:
    """The series in at most so many samples, each the mean of consecutive ones."""
    if len(series) <= samples:
        return series
    starts = np.linspace(0, len(series), samples, endpoint=False).astype(np.int64)
    counts = np.diff(np.append(starts, len(series)))
    return np.asarray(np.add.reduceat(series, starts, axis=0) / counts[:, None])


@dataclass(frozen=True)
class Correlation:
    """Policy `correlation`."""

    name: ClassVar[str] = "correlation"
    as_published: ClassVar[bool] = True
    about: ClassVar[Subject] = "resilience"

    samples: int = 100
    """The most samples of the load series; a longer history is averaged down to this."""
    slack: float = 0.2
    """Allowed excess of a site over its share of the total mean load, relative to the share."""

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise InputError(f"found {self.samples}, expected 2 samples or more", field="samples")
        if not 0.0 <= self.slack < np.inf:
            raise InputError(f"found {self.slack}, expected a number of at least 0", field="slack")

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def place(self, problem: Problem, context: Context) -> Placement:
        if problem.history is None:
            series = problem.rates * context.rng.uniform(0.0, 2.0, (self.samples, len(problem.streams)))
        else:
            series = averaged(problem.history.rates, self.samples)
        return Placement(problem, correlation_assign(context.load, series, self.slack, problem))
