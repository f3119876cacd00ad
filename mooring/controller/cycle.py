"""What one turn of a run found, and where a run is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mooring.contracts.decider import Observation, Proposal
from mooring.contracts.engine import MoveReport
from mooring.controller.adaptation import Considered
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import FragmentSites
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


@dataclass(frozen=True)
class Look:
    """What one turn of the loop found and concluded."""

    observation: Observation
    evaluation: Evaluation
    considered: Considered
    """What is proposed, and what came of it."""
    under_way: Mapping[str, object] | None = None
    """The list of moves that is being carried out."""
    adapting: Mapping[str, object] = field(default_factory=dict)
    """Who decides, whether it may act, why it did nothing, and the ledger, for a status file."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Sites that are kept empty, and who asked for it."""
    took_s: float = 0.0
    """How long it took to look and to decide."""
    edit: str = ""
    """What came of the last edit of the project's settings while it runs, in words."""

    @property
    def proposal(self) -> Proposal | None:
        """None where too little is known to decide anything."""
        return self.considered.proposal

    def remarks(self) -> dict[str, object]:
        """For a status file."""
        return {
            "stream_rates": dict(self.observation.stream_rates),
            "proposal": None if self.proposal is None else self.proposal.as_json(),
            "list": None if self.under_way is None else dict(self.under_way),
            "adapting": dict(self.adapting),
            "left_sites": dict(self.left),
            "look_took_s": self.took_s,
            "edit": self.edit,
        }


class Book(Protocol):
    """Where a run is written down: a status file and a report, or a list in memory."""

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None:
        """The engine was looked at: what is wrong, and what was measured and proposed, for a status file."""
        ...

    def incident(self, at_s: float, what: str) -> None:
        """Something that happened, at a second of the run."""
        ...

    def placed(self, sites: FragmentSites) -> None:
        """Where everything is after moves or a recovery."""
        ...

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None:
        """A list of moves was carried out, at a second of the run."""
        ...

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None:
        """Between two looks: what runs, what is wrong, before something slow is done about it, and how far
        the list of moves is that is being carried out.
        """
        ...
