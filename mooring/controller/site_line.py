"""Of a whole site: what it uses at no rows at all, and what it uses for the rows that come.

Headroom depends on how the CPU of a site divides into the two, and at steady rates nothing tells: a site that
uses half of its capacity has a headroom of 2 if all of that grows with the rates, and of any size if none
does. So each look is held against a line, y = F + s x, with y the cores in use and x what its fragments
should have used for the rows that they took in. The line is held to what is known before (a profile, or what
`mooring.yml` states) as a belief with an error; the looks outweigh it as soon as rates vary. What neither
tells stays an error, from which the interval of the headroom follows. Where fragments join, a third part goes
with the pairs that they put out, y = F + s x + q p, of which the belief is what Spark takes for a row that it
joins and writes.

>>> seen = SiteLine(stated=False)
>>> for x in (0.010, 0.006, 0.015, 0.008, 0.013, 0.010):
...     points = [seen.take(x, 0.1 + 20.0 * x) for _ in range(3)]
>>> split = seen.split(0.05)
>>> round(split.fixed, 2), round(split.slope), [round(each, 1) for each in split.room(0.010, 0.5)]
(0.11, 19, [1.7, 2.4])
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from mooring.arrays import Floats

GROUP = 3
"""Looks of which the mean makes one point: a batch that two looks share weighs little then."""
POINTS = 40
"""Ten minutes of a run that looks every 5 s."""
FEWEST = 2
NOISE = 0.04
"""Of the cores in use: how far a point is typically off, at least."""
STATED_ERROR = 0.3
"""How far a stated or profiled cost per row is typically off."""
FIXED_ERROR = 0.5
"""The same of a fixed cost, ..."""
IDLE_CORES = 0.05
"""... and what a JVM with nothing to do uses beside."""
UNKNOWN = 0.35
"""Of the cores in use: the error of each part where nothing was stated, about half of them."""
PAIR_CORES = 5e-6
"""CPU seconds of a pair that is joined and written, believed to be off by as much, ..."""
UNKNOWN_PAIRS = 0.1
"""... and by this share of the cores in use at least: what is made of pairs may cost more."""
SURE = 2.0
"""Standard errors from the middle to either end of an interval."""
LINE_ERROR = 0.06
"""How far the load at other rates is off the line, and once more per factor e that they are away."""


@dataclass(frozen=True)
class LoadSplit:
    fixed: float
    """Cores."""
    slope: float
    """Cores per core that the fragments should use."""
    per_pair: float
    """Cores per pair and second."""
    covariance: Floats
    """Of the three, in that order."""

    def room(self, growing: float, capacity: float, pairs: float = 0.0) -> tuple[float, float]:
        """How far the rates can grow at least and at most, where fragments should use so much for them, and
        use so many cores for pairs, which grow with the square.
        """
        grows, left = max(self.slope * growing, 1e-9), max(capacity - self.fixed, 0.0)
        middle = max(2.0 * left / (grows + math.sqrt(grows**2 + 4.0 * pairs * left)), 1e-6)
        count = pairs / self.per_pair if self.per_pair > 0.0 else 0.0
        weights = np.array([1.0, middle * growing, middle**2 * count])
        variance = float(weights @ self.covariance @ weights)
        off = SURE * math.sqrt(max(variance, 0.0)) / (middle * grows + 2.0 * middle**2 * pairs)
        off += LINE_ERROR * (1.0 + abs(math.log(middle)))
        return middle * math.exp(-off), middle * math.exp(min(off, 5.0))


@dataclass
class SiteLine:
    """Of one site, while the same fragments run there."""

    stated: bool
    """Whether costs were stated or profiled, and not assumed."""
    last: LoadSplit | None = field(default=None, init=False)
    _points: deque[tuple[float, float, float]] = field(
        default_factory=lambda: deque(maxlen=POINTS), init=False
    )
    _looks: list[tuple[float, float, float]] = field(default_factory=list, init=False)

    def take(self, expected: float, used: float, pairs: float = 0.0) -> bool:
        """A look: the cores that its fragments should have used for the rows that they took in, those that
        the site used, and the pairs that its joins put out. Returns whether it completes a point.
        """
        self._looks.append((expected, used, pairs))
        if len(self._looks) < GROUP:
            return False
        x, y, p = np.mean(self._looks, axis=0).tolist()
        self._points.append((x, y, p))
        self._looks.clear()
        return True

    def split(self, fixed: float) -> LoadSplit | None:
        """By the belief that so many cores are `fixed` and the slope is one; None: too few looks."""
        x, y, p = np.array(self._points).reshape(-1, 3).T
        if len(x) < FEWEST or not x.max() > 0.0:
            return None
        usual, unit, most = max(float(np.median(y)), 1e-6), float(x.max()), float(p.max())
        if self.stated:
            # All costs too low or too high alike is by far the likeliest error: it is taken out first.
            fixed += IDLE_CORES / 2.0
            off_by = usual / (fixed + float(np.median(x)))
            belief = off_by * np.array([fixed, unit])
            errors = np.array([FIXED_ERROR, STATED_ERROR]) * belief * (1.0 + abs(math.log(off_by)))
            errors[0] += IDLE_CORES / 2.0
        else:
            belief, errors = np.full(2, 0.5 * usual), np.full(2, UNKNOWN * usual)
        rows, weights, noise = np.stack([np.ones(len(x)), x / unit], axis=1), np.ones(len(x)), NOISE * usual
        if most > 0.0:
            rows = np.column_stack([rows, p / most])
            of_pairs = PAIR_CORES * most
            belief, errors = (
                np.append(belief, of_pairs),
                np.append(errors, max(of_pairs, UNKNOWN_PAIRS * usual)),
            )
        for _ in range(4):  # points far off count less (Huber)
            precision = (rows.T * weights) @ rows / noise**2 + np.diag(errors**-2.0)
            covariance = np.linalg.inv(precision)
            found = covariance @ (rows.T @ (weights * y) / noise**2 + belief / errors**2)
            off = np.abs(y - rows @ found)
            noise = max(NOISE * usual, 1.48 * float(np.median(off)))
            weights = np.minimum(1.0, 1.5 * noise / np.maximum(off, 1e-12))
        # No part is negative; what one cannot be the others are.
        total = max(float(found.sum()), 0.02 * usual)
        of_pairs = min(max(float(found[2]), 0.02 * PAIR_CORES * most), 0.9 * total) if most > 0.0 else 0.0
        grows = min(max(float(found[1]), 0.02 * usual), total - of_pairs)
        scale = np.array([1.0, 1.0 / unit, 1.0 / most if most > 0.0 else 0.0])
        whole = np.zeros((3, 3))
        whole[: len(found), : len(found)] = covariance
        self.last = LoadSplit(
            total - of_pairs - grows, grows / unit, of_pairs * scale[2], whole * np.outer(scale, scale)
        )
        return self.last
