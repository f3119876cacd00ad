"""The load model that a run uses, as figures in its status, so that planning beside the run uses the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mooring.arrays import Floats
from mooring.contracts.picture import NOTHING_CORES, Picture
from mooring.controller.calibration import Calibration, scaled_problem
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.memory import StateMemory
from mooring.model.load.micro_batches import BatchTimes
from mooring.model.problem.operator import PairStatistics
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class KnownModel:
    stream_rates: Mapping[str, float]
    """As they likely are; one look may have measured others."""
    capacity_cores: Mapping[str, float]
    """What each site counts with, if it is not lost."""
    cost_factors: Mapping[str, float] = field(default_factory=dict)
    """Fragment -> what it costs beyond its fixed part, over what the problem states."""
    fixed_cores: Mapping[str, float] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Fragment -> what was measured of its join."""
    trigger_s: float = 0.0
    batch_ratios: Mapping[str, float] = field(default_factory=dict)
    """Fragment -> measured over modelled batch time."""
    other_mb: Mapping[str, float] = field(default_factory=dict)
    """Site -> memory in use there beside the state of fragments."""
    state_mb: Mapping[str, float] = field(default_factory=dict)
    """Fragment -> its state."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def problem(self, stated: Problem) -> Problem:
        """The problem at these rates, costs and capacities. What is not known counts as stated."""
        names, model = stated.fragment_names, build_load_model(stated)
        factors = np.array([float(self.cost_factors.get(name, 1.0)) for name in names])
        fixed = np.array(
            [float(self.fixed_cores.get(n, at)) for n, at in zip(names, model.fixed_cores, strict=True)]
        )
        # At no rate at all every placement has room without end: the rates of the project tell more then.
        rates = self.stream_rates if any(self.stream_rates.values()) else {}
        pairs = {name: PairStatistics(**each) for name, each in self.pairs.items()}
        return scaled_problem(stated, factors, fixed, pairs).in_circumstances(
            rates=[rates.get(stream.name, stream.rate) for stream in stated.streams],
            capacity_cores=[self.capacity_cores.get(site.name, site.capacity) for site in stated.sites],
            latency_ms=stated.network.latency_ms,
        )

    def batches(self, stated: Problem) -> BatchTimes | None:
        if not self.batch_ratios:
            return None
        ratios = [float(self.batch_ratios.get(name, 0.0)) for name in stated.fragment_names]
        return BatchTimes(self.trigger_s, np.array(ratios))

    def memory(self, stated: Problem) -> StateMemory | None:
        if not self.state_mb:
            return None
        other_mb = [float(self.other_mb.get(site.name, np.inf)) for site in stated.sites]
        return StateMemory(
            np.array(other_mb), np.array([float(self.state_mb.get(n, 0.0)) for n in stated.fragment_names])
        )


def known_model(picture: Picture, calibration: Calibration) -> KnownModel:
    problem, times, memory = picture.problem, picture.batches, picture.memory
    ratios = (
        {} if times is None else dict(zip(problem.fragment_names, times.over_model.tolist(), strict=True))
    )
    return KnownModel(
        dict(zip(problem.stream_index, picture.rates.tolist(), strict=True)),
        {
            site.name: float(cores)
            for site, cores in zip(problem.sites, picture.model.capacity_cores, strict=True)
            if cores > NOTHING_CORES
        },
        **calibration.as_json(),
        trigger_s=0.0 if times is None else times.trigger_s,
        batch_ratios={name: ratio for name, ratio in ratios.items() if ratio > 0.0},
        other_mb={} if memory is None else _finite(problem.site_index, memory.other_mb),
        state_mb={} if memory is None else _finite(problem.fragment_names, memory.state_mb),
    )


def _finite(names: Iterable[str], values: Floats) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}


def known_model_in(status: Mapping[str, Any] | None) -> KnownModel:
    """Of a status file. Before enough was measured: the last look's rates, and capacities as observed."""
    status = status or {}
    if (found := status.get("model")) is not None:
        return KnownModel(**found)
    seen = {name: each.get("capacity_cores") for name, each in (status.get("sites") or {}).items()}
    return KnownModel(status.get("stream_rates") or {}, {name: at for name, at in seen.items() if at})
