"""Arrivals whose rate follows a course: any process, with its time stretched and squeezed.

A process at rate r that is to bring r(t) tuples per second lives r(t) / r seconds of its own time per second.
So its shape (bursts, even spacing, a recorded trace) stays, only faster or slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mooring.arrays import Floats
from mooring.model.problem.changes.schedule import RateCourse
from mooring.simulator.data_plane.arrivals import Arrivals

_RAMP_STEP_S = 0.25
"""A ramp is climbed in steps of this length: far below what any look at a run could tell from a line."""


@dataclass(frozen=True, eq=False)
class Varying:
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
