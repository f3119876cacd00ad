"""Latency of fragments that run in micro-batches, which the queueing model does not describe.

Every fragment starts a batch at each multiple of the trigger interval and takes what has come by then. A
tuple of a stream waits half an interval on average. What a batch writes is read at the first trigger after
it is there: a whole interval from the start of one batch to the start of the next, or several where a batch
takes longer. The last batch counts with its own time.

Batches of one site become ready together and share its cores task by task, in an order that differs from
trigger to trigger; an embedded site runs two tasks more than it has cores. A batch uses as many cores as its
fragment has partitions, where the site has so many, and waits for half of the others in the mean. What a
batch has to do grows with the interval, its fixed part too, since `fixed_cores` is what a fragment takes at
this interval without any tuples.

A run measures how long batches take. `BatchTimes` holds the ratio of measured to modelled time of each
fragment; `feasible/batch_time.py` says how far the rates can grow before a batch exceeds its interval.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class MicroBatches:
    query_s: Floats
    """Per query, mean over its results; infinite where a site on the way cannot keep up."""
    batch_s: Floats
    """Per fragment, how long its batches take; infinite where its site cannot keep up."""


def micro_batches(
    problem: Problem, model: LoadModel, site_of_fragment: Ints, trigger_s: float
) -> MicroBatches:
    """Of all queries at the present rates of the model."""
    batch_s = batch_times_s(model, site_of_fragment, trigger_s)
    return MicroBatches(_Ages(problem, model, site_of_fragment, trigger_s, batch_s).of_queries(), batch_s)


def batch_times_s(model: LoadModel, site_of_fragment: Ints, trigger_s: float) -> Floats:
    loads = np.asarray(model.coefficients @ model.present).ravel() + model.fixed_cores
    batch_s, parallel = np.zeros(len(loads)), model.cores_of_fragments
    for site, cores in enumerate(model.capacity_cores.tolist()):
        here = np.flatnonzero(site_of_fragment == site)
        if float(loads[here].sum()) >= cores or np.any(loads[here] >= parallel[here]):
            batch_s[here] = math.inf
        else:
            batch_s[here] = in_any_order_s(loads[here] * trigger_s, cores, parallel[here])
    return batch_s


def in_any_order_s(work_s: Floats, cores: float, parallel: Floats | float = 1.0) -> Floats:
    """When jobs end that become ready together and run one after the other, with at most so many cores each:
    the mean over all orders.

    >>> in_any_order_s(np.array([1.0, 2.0]), 0.5)
    array([4., 5.])
    >>> in_any_order_s(np.array([3.0, 3.0]), 3.0, np.array([1.0, 4.0]))
    array([3.5, 1.5])
    """
    others_s = work_s.sum() - work_s
    return np.asarray(work_s / np.minimum(parallel, cores) + others_s / (2.0 * cores))


@dataclass(frozen=True, eq=False)
class BatchTimes:
    trigger_s: float
    over_model: Floats
    """Per fragment: measured over modelled batch time. Zero: not measured, or not triggered, so no limit."""


def modelled_batch_s(
    model: LoadModel, site_of_fragment: Ints, rates: npt.ArrayLike, trigger_s: float
) -> Floats:
    """As `batch_times_s`, at any rates and beyond the capacity of a site too, where it stays finite."""
    return batch_shares(model, site_of_fragment) @ model.variable_values(rates) * trigger_s + (
        fixed_batch_shares(model, site_of_fragment) * trigger_s
    )


def batch_shares(model: LoadModel, site_of_fragment: Ints) -> Floats:
    """Fragments x variables: batch time over the trigger, as in `in_any_order_s`."""
    own, others = _shares(model, site_of_fragment)
    together = model.site_coefficients(site_of_fragment)[site_of_fragment]
    return np.asarray(own[:, None] * model.coefficients.toarray() + others[:, None] * together)


def fixed_batch_shares(model: LoadModel, site_of_fragment: Ints) -> Floats:
    """Per fragment, the same at no rows at all."""
    own, others = _shares(model, site_of_fragment)
    together = np.bincount(site_of_fragment, model.fixed_cores, model.site_count)[site_of_fragment]
    return np.asarray(own * model.fixed_cores + others * together)


def _shares(model: LoadModel, site_of_fragment: Ints) -> tuple[Floats, Floats]:
    """Per fragment, what its own work counts beyond the share in that of its whole site, and that share."""
    cores = np.maximum(model.capacity_cores, 1e-9)[site_of_fragment]
    others = 1.0 / (2.0 * cores)
    return 1.0 / np.minimum(model.cores_of_fragments, cores) - others, others


class _Ages:
    """How old tuples are when their batch starts, followed from the streams; means where flows join."""

    def __init__(
        self, problem: Problem, model: LoadModel, site_of_fragment: Ints, trigger_s: float, batch_s: Floats
    ) -> None:
        self.problem, self.arcs, self.trigger_s, self.batch_s = problem, model.arcs, trigger_s, batch_s
        self.rates = np.asarray(model.arcs.rates @ model.present).ravel()
        stated = problem.network.latency_ms
        latency_ms = np.zeros((len(problem.sites), len(problem.sites))) if stated is None else stated
        source, target = model.arcs.ends(site_of_fragment)
        self.latency_s = latency_ms[source, target] / 1e3
        self.into: list[list[int]] = [[] for _ in problem.fragments]
        for a, fragment in enumerate(model.arcs.target_fragment.tolist()):
            if fragment >= 0:
                self.into[fragment].append(a)
        self.at_start: dict[int, float] = {}

    def of_queries(self) -> Floats:
        """Arcs to queries stand in the problem's order, one for each instance of what a query reads."""
        to_queries, found = iter(np.flatnonzero(self.arcs.target_fragment < 0).tolist()), []
        instances = Counter(operator.logical_name for operator in self.problem.operators)
        for query in self.problem.queries:
            arcs = [next(to_queries) for _ in range(instances[query.reads])]
            found.append(self._mean([(a, self._until_delivered(a)) for a in arcs], 0.0))
        return np.array(found)

    def _mean(self, ages: list[tuple[int, float]], otherwise: float) -> float:
        """Over tuples of some arcs."""
        flowing = [(float(self.rates[a]), age_s) for a, age_s in ages if self.rates[a] > 0.0]
        total = sum(rate for rate, _ in flowing)
        return sum(rate * age_s for rate, age_s in flowing) / total if total > 0.0 else otherwise

    def _until_delivered(self, a: int) -> float:
        source = int(self.arcs.source_fragment[a])
        before_s = self._age_at_start(source) + float(self.batch_s[source]) if source >= 0 else 0.0
        return before_s + float(self.latency_s[a])

    def _age_at_start(self, fragment: int) -> float:
        """The graph has no cycles, nor has what it is cut into."""
        if fragment not in self.at_start:
            ages = [(a, self._age_when_read(a)) for a in self.into[fragment]]
            # Streams that can be reached everywhere have no arc.
            self.at_start[fragment] = self._mean(ages, self.trigger_s / 2.0)
        return self.at_start[fragment]

    def _age_when_read(self, a: int) -> float:
        source = int(self.arcs.source_fragment[a])
        if source < 0:
            return float(self.latency_s[a]) + self.trigger_s / 2.0
        there_s = float(self.batch_s[source]) + float(self.latency_s[a])
        if not math.isfinite(there_s):
            return math.inf
        return self._age_at_start(source) + self.trigger_s * max(1, math.ceil(there_s / self.trigger_s))
