"""What a run's measured rates mean for its sites, by the load model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mooring.contracts.decider import Observation
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class Evaluation:
    headrooms: Mapping[str, float | None]
    """Site -> the factor by which all rates could grow before it is full; None if nothing there grows."""


class Evaluator:
    def __init__(self, problem: Problem) -> None:
        self._problem, self._model = problem, build_load_model(problem)
        self._row = {name: f for f, name in enumerate(problem.fragment_names)}

    def evaluate(self, observation: Observation) -> Evaluation:
        """At the measured rates: (capacity - fixed load) / (load that grows with the rates). A stream that
        was not measured counts with the rate the problem states.
        """
        model = self._model
        rates = model.present.copy()
        for k, variable in enumerate(model.variables):
            rates[k] = observation.stream_rates.get(variable.name, rates[k])
        loads = np.asarray(model.coefficients @ rates)
        headrooms: dict[str, float | None] = {}
        for site in self._problem.sites:
            rows = [self._row[name] for name, at in observation.sites.items() if at == site.name]
            growing, fixed = float(loads[rows].sum()), float(model.fixed_cores[rows].sum())
            report = observation.measured.sites.get(site.name)
            observed = None if report is None else report.capacity_cores
            capacity = site.capacity if observed is None else observed
            headrooms[site.name] = (capacity - fixed) / growing if growing > 1e-9 else None
        return Evaluation(headrooms)
