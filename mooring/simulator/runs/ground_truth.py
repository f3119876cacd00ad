"""The ground truth of a simulated run, for its judges; deciders never see it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mooring.arrays import Floats
from mooring.contracts.picture import NOTHING_CORES, Picture, without_fragments
from mooring.model.load.build import build_load_model
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.changes.schedule import rate_course
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.query_sharing import StandIns, with_stand_ins


class Truth:
    def __init__(self, engine: SimulatedEngine, changes: Changes) -> None:
        self._engine = engine
        self.rewire({})
        self._courses = [rate_course(changes, s.name, s.rate) for s in engine.problem.streams]

    def rewire(self, stand_ins: StandIns) -> None:
        """Some operators do not run: others are read instead."""
        self._problem = with_stand_ins(self._engine.problem, stand_ins)
        self._model = build_load_model(self._problem)

    def rates(self, from_s: float, until_s: float | None = None) -> Floats:
        """Of the streams at an instant, or on average until another."""
        if until_s is None:
            return np.array([course.rate_at(from_s) for course in self._courses])
        return np.array([course.mean(from_s, until_s) for course in self._courses])

    def problem(self, rates: Floats) -> Problem:
        """As it is now, at some rates."""
        lost = {trouble.site for trouble in self._engine.dead_sites()}
        capacity = [
            NOTHING_CORES if site.name in lost else self._engine.capacity_cores(site.name)
            for site in self._problem.sites
        ]
        latency_ms = self._engine.binding.network.latency_ms
        return self._problem.in_circumstances(rates=rates, capacity_cores=capacity, latency_ms=latency_ms)

    def picture(self, sites: FragmentSites, rates: Floats) -> Picture:
        """Of everything that runs, or should, at some rates."""
        problem = self.problem(rates)
        homes = self._engine.homes()
        running = np.array([name in homes for name in problem.fragment_names])
        lost = np.array([site.capacity == NOTHING_CORES for site in problem.sites])
        model = replace(
            self._model,
            capacity_cores=problem.capacity_cores,
            present=self._model.variable_values(rates),
        )
        where = Placement.from_fragments(problem, sites).site_of_fragment
        return Picture(problem, without_fragments(model, running), where, rates, running, lost)
