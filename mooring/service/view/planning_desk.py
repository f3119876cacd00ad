"""The planning desk: a problem file with rates, pins and policies to try, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from mooring.algorithms.catalogue import POLICIES, make_policy
from mooring.contracts.clock import Clock
from mooring.contracts.picture import picture_of
from mooring.controller.run_headroom import run_headroom
from mooring.errors import InputError
from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.yaml12 import parse_yaml
from mooring.model.problem.schema import problem_from_data
from mooring.planning import Plan, plan
from mooring.service.view.errors import BusyError
from mooring.service.view.page_sources import page_file
from mooring.service.view.run_document import Document, RunPicture
from mooring.spark.runs.system_clock import SystemClock

DEFAULT_STEPS = 20_000
"""For policies that go on improving: a plan is there while somebody waits for it."""


EXAMPLE_FILE = "example.yaml"
"""Installed with the page's files, beside them; the same as `examples/network_monitoring.yaml`."""


def example_problem() -> Problem:
    return problem_from_data(parse_yaml(page_file(EXAMPLE_FILE)))


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to plan."""

    policy: str = "rod"
    settings: dict[str, str] = {}
    rates: dict[str, float] = {}
    """Stream -> rate, where it is not the problem's."""
    pins: dict[str, str] = {}
    """Operator, or all instances of one -> the only site it may run at; those of the problem stay."""
    seed: int = 0
    example: bool = False
    """Of the example instead of the problem that the desk was opened for."""


@dataclass
class PlanningDesk:
    name: str
    problem: Problem
    example: Problem = field(default_factory=example_problem)
    clock: Clock = field(default_factory=SystemClock)
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def problem_now(self, trial: Trial) -> Problem:
        """The problem with the trial's rates and pins."""
        problem = self.example if trial.example else self.problem
        for stream, rate in trial.rates.items():
            _known(stream, problem.stream_index, "rates", "a stream")
            if not 0.0 <= rate <= 1e12:
                raise InputError(f"found {rate}, expected 0 to 1e12", field=f"rates.{stream}")
        if trial.rates:
            stated = {s.name: float(r) for s, r in zip(problem.streams, problem.rates, strict=True)}
            problem = problem.with_rates([{**stated, **trial.rates}[s.name] for s in problem.streams])
        own_names = {name: True for each in problem.operators for name in (each.logical_name, each.name)}
        for operator, site in trial.pins.items():
            _known(operator, own_names, "pins", "an operator")
            _known(site, problem.site_index, f"pins.{operator}", "a site")
        if trial.pins:
            problem = replace(problem, operators=tuple(_pinned(o, trial.pins) for o in problem.operators))
        return problem

    def plan(self, trial: Trial) -> Document:
        """The plan document, with what the page draws of it under `picture`."""
        made = self._planned(trial)
        return {
            "version": 1,
            "policy": made.policy,
            "placement": made.placement.as_dict(),
            "rejected": dict(made.rejected),
            "metrics": made.metrics.as_json(),
            "explanation": list(made.sentences),
            "picture": self._picture(made, trial),
        }

    def document(self, trial: Trial) -> Document:
        """The plan as `mooring plan --json` prints it."""
        began_s = self.clock.monotonic_s()
        made = self._planned(trial)
        return made.document(self.clock.monotonic_s() - began_s)

    def slice(self, trial: Trial, first: str, second: str) -> Document:
        made = self._planned(trial)
        picture = RunPicture(made.problem)
        for name, where in ((first, "first"), (second, "second")):
            _known(name, made.problem.stream_index, where, "a stream")
        if first == second:
            raise InputError(f"found {first!r} twice, expected two streams", field="second")
        return picture.slice(_as_status(made), first, second)

    def compare(self, trial: Trial, policies: list[str]) -> Document:
        """The same trial by several policies."""
        found: dict[str, Document] = {}
        for name in policies[: len(POLICIES)]:
            try:
                made = self._planned(msgspec.structs.replace(trial, policy=name, settings={}))
                found[name] = {"metrics": made.metrics.as_json(), "placement": made.placement.as_dict()}
            except InputError as refused:
                found[name] = {"refused": str(refused)}
        return {"version": 1, "policies": found}

    def _planned(self, trial: Trial) -> Plan:
        problem, policy = self.problem_now(trial), make_policy(trial.policy, trial.settings)
        if not 0 <= trial.seed < 2**32:
            raise InputError(f"found {trial.seed}, expected 0 to {2**32 - 1}", field="seed")
        if not self._busy.acquire(timeout=20.0):
            raise BusyError(
                "the limit of plans being made is reached", remedy="repeat the request in some seconds"
            )
        try:
            return plan(problem, policy, seed=trial.seed, steps=DEFAULT_STEPS)
        finally:
            self._busy.release()

    def _picture(self, made: Plan, trial: Trial) -> Document:
        status = _as_status(made)
        picture = RunPicture(made.problem).document(status, runs=False)
        name = "the example" if trial.example else self.name
        return {**picture, "pipeline": name, "policy": made.policy, "desk": True}


def _as_status(made: Plan) -> dict[str, Any]:
    """A plan as if it ran at the problem's rates."""
    problem, model = made.problem, made.model
    where = made.placement.by_fragment()
    index = np.array([problem.site_index[where[name]] for name in problem.fragment_names])
    loads = model.site_loads(index, model.present[: model.stream_count])
    latencies = made.metrics.latency_ms or {}
    return {
        "at_s": 0.0,
        "since_start_s": 0.0,
        "placement": made.placement.as_dict(),
        "stream_rates": {s.name: float(r) for s, r in zip(problem.streams, model.present, strict=False)},
        "sites": {
            site.name: {"load_cores": float(loads[k]), "capacity_cores": site.capacity}
            for k, site in enumerate(problem.sites)
        },
        "headroom": run_headroom(picture_of(problem, made.placement)).as_json(),
        "fragments": {name: {"site": site} for name, site in where.items()},
        "queries": {name: {"latency_s": ms / 1000.0} for name, ms in latencies.items()},
    }


def _pinned(operator: Operator, pins: Mapping[str, str]) -> Operator:
    site = pins.get(operator.name, pins.get(operator.logical_name, operator.site))
    return msgspec.structs.replace(operator, site=site)


def _known(name: str, known: Mapping[str, object], field: str, what: str) -> None:
    if name not in known:
        shown = ", ".join(list(known)[:20])
        raise InputError(f"found {name[:80]!r}, expected {what}: {shown}", field=field)
