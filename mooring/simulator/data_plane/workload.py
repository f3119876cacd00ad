"""Which arrivals a problem's streams get: a process at the stated rate, or a recorded trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.changes.schedule import RateCourse, rate_course
from mooring.model.problem.problem import Problem
from mooring.model.problem.stream import Stream
from mooring.simulator.data_plane.arrivals import (
    Arrivals,
    BinnedRates,
    Constant,
    OnOff,
    Poisson,
    Renewal,
    Replay,
    SelfSimilar,
)
from mooring.traces.counts import read_counts
from mooring.traces.rates import RateTable, read_rates
from mooring.traces.read import arrival_instants
from mooring.traces.substreams import split
from mooring.traces.summary import holds_counts

PROCESSES: Mapping[str, Callable[[float], Arrivals]] = {
    "poisson": Poisson,
    "constant": Constant,
    "on-off": OnOff,
    "self-similar": SelfSimilar,
}
TraceChoice = str | Path | Mapping[str, str | Path]


def workload(
    problem: Problem,
    *,
    arrivals: str = "poisson",
    trace: TraceChoice | None = None,
    multiplier: float = 1.0,
    seed: int = 0,
    changes: Changes = (),
) -> list[Arrivals]:
    """One arrival process per stream.

    A trace for all streams is cut into as many sub-streams, by address; a history of rates (`mooring traces`
    writes one) gives each stream its own column; a mapping gives each stream that it
    names a trace of its own. A stream keeps the rate that the problem states: its trace is replayed faster
    or slower, again and again, so that only the shape of the traffic comes from the trace. `changes` of rates
    stretch and squeeze its time. `multiplier` then scales every rate.
    """
    if not (np.isfinite(multiplier) and multiplier > 0):
        raise InputError(f"found a multiplier of {multiplier!r}, expected a number > 0", field="multiplier")
    if arrivals not in PROCESSES:
        raise InputError(
            f"found arrivals {arrivals!r}", field="arrivals", remedy=f"use one of {', '.join(PROCESSES)}"
        )
    courses = [rate_course(changes, stream.name, stream.rate) for stream in problem.streams]
    # A stream that is silent at first has its process at the rate that it comes to.
    problem = problem.with_rates([course.first.max() for course in courses])
    processes = [_process(stream, arrivals) for stream in problem.streams]
    for name, process in _traced(problem, trace, seed).items():
        processes[problem.stream_index[name]] = process
    changing = [
        Varying(process, stream.rate, course) if course.varies and stream.rate > 0.0 else process
        for process, stream, course in zip(processes, problem.streams, courses, strict=True)
    ]
    return [process.scaled(multiplier) for process in changing]


def _process(stream: Stream, arrivals: str) -> Arrivals:
    """As asked for; by chance, unless the stream states how irregularly its tuples come."""
    if arrivals != "poisson" or stream.variability is None:
        return PROCESSES[arrivals](stream.rate)
    return Renewal(stream.rate, stream.variability) if stream.variability > 0.0 else Constant(stream.rate)


def _traced(problem: Problem, trace: TraceChoice | None, seed: int) -> dict[str, Arrivals]:
    if trace is None:
        return {}
    if isinstance(trace, Mapping):
        unknown = [name for name in trace if name not in problem.stream_index]
        if unknown:
            known = ", ".join(problem.stream_index)
            raise InputError(f"found a trace for {unknown[0]!r}", remedy=f"the streams are {known}")
        return {name: _one(problem, name, which) for name, which in trace.items()}
    if is_rates(trace):
        return _from_rates(problem, read_rates(Path(trace)), trace)
    if holds_counts(str(trace)):
        return {stream.name: _one(problem, stream.name, trace) for stream in problem.streams}
    parts = split(arrival_instants(trace), seed, substreams=len(problem.streams))
    return {
        stream.name: _at_rate(part, stream.rate) for stream, part in zip(problem.streams, parts, strict=True)
    }


def is_rates(trace: str | Path) -> bool:
    """Whether a CSV is a history of rates, as `mooring traces` writes it, by its header."""
    if Path(trace).suffix.lower() != ".csv":
        return False
    try:
        with Path(trace).open("rb") as file:
            return file.read(7) == b"time_s,"
    except OSError:
        return False  # whoever reads it says what is wrong


def _from_rates(problem: Problem, table: RateTable, trace: str | Path) -> dict[str, Arrivals]:
    """The streams that the history names, each with its own column."""
    found = {name: k for k, name in enumerate(table.streams) if name in problem.stream_index}
    if not found or len(table.time_s) < 2:
        raise InputError(
            f"found rates of {', '.join(table.streams)[:200]}, expected some of the problem's streams",
            file=trace,
            remedy=f"name its columns {', '.join(problem.stream_index)[:200]}",
        )
    bin_s = float(table.time_s[1] - table.time_s[0])
    rates = {name: problem.streams[problem.stream_index[name]].rate for name in found}
    return {name: _at_mean(table.rates[:, k], rates[name], bin_s) for name, k in found.items()}


def _at_mean(rates: Floats, rate: float, bin_s: float) -> Arrivals:
    mean = rates.mean()
    return BinnedRates(rates * (rate / mean), bin_s, repeat=True) if mean > 0 else Poisson(rate)


def _one(problem: Problem, name: str, trace: str | Path) -> Arrivals:
    rate = problem.streams[problem.stream_index[name]].rate
    if not holds_counts(str(trace)):
        return _at_rate(arrival_instants(trace), rate)
    counts = read_counts(trace)
    return _at_mean(counts.rates, rate, counts.bin_s)


def _at_rate(instants_s: Floats, rate: float) -> Arrivals:
    if len(instants_s) < 2 or rate == 0:
        return Poisson(rate)
    span_s = float(instants_s[-1] - instants_s[0])
    own_rate = (len(instants_s) - 1) / span_s
    return Replay(instants_s - instants_s[0], repeat=True).scaled(rate / own_rate)


_RAMP_STEP_S = 0.25
"""A ramp is climbed in steps of this length: far below what any look at a run could tell from a line."""


@dataclass(frozen=True, eq=False)
class Varying:
    """Arrivals whose rate follows a course: any process, with its time stretched and squeezed.

    A process at rate r that is to bring r(t) tuples per second lives r(t) / r seconds of its own time per
    second. So its shape (bursts, even spacing, a recorded trace) stays, only faster or slower.
    """

    base: Arrivals
    """At a steady rate of `rate`."""
    rate: float
    course: RateCourse

    def chunks(self, rng: np.random.Generator) -> Iterator[Floats]:
        edges_s, factors = self._steps()
        own_s = np.concatenate([[0.0], np.cumsum(factors[:-1] * np.diff(edges_s))])
        moving = np.append(np.diff(own_s) > 0.0, True)  # while nothing arrives its own time stands still
        starts_s, starts_own_s, speeds = edges_s[moving], own_s[moving], factors[moving]
        for chunk in self.base.chunks(rng):
            if speeds[-1] == 0.0:
                chunk = chunk[chunk < starts_own_s[-1]]
                if not len(chunk):
                    return
            piece = np.searchsorted(starts_own_s, chunk, side="right") - 1
            yield starts_s[piece] + (chunk - starts_own_s[piece]) / speeds[piece]

    def scaled(self, multiplier: float) -> Varying:
        return replace(self, base=self.base.scaled(multiplier))

    def _steps(self) -> tuple[Floats, Floats]:
        """Where its own time changes speed, and its speed from there on."""
        course, edges, factors = self.course, list[Floats](), list[Floats]()
        for k, begins_s in enumerate(course.begins_s[:-1].tolist()):
            length_s = float(course.begins_s[k + 1]) - begins_s
            level = course.first[k] == course.last[k]
            count = 1 if level else max(1, int(np.ceil(length_s / _RAMP_STEP_S)))
            shares = (np.arange(count) + 0.5) / count
            edges.append(begins_s + np.arange(count) * (length_s / count))
            factors.append(course.first[k] + shares * (course.last[k] - course.first[k]))
        edges.append(course.begins_s[-1:])
        factors.append(course.first[-1:])
        return np.concatenate(edges), np.concatenate(factors) / self.rate
