"""Overload: whether a run kept up, and the site or link that did not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats


@dataclass(frozen=True)
class Limits:
    """What counts as unbounded growth; together they bound the memory of a run."""

    site_tuples: float = 500_000  # waiting at one site; the paper's machines ran out of memory likewise
    all_tuples: int = 2_000_000  # waiting, in flight and in windows; a record takes 56 bytes
    link_backlog_s: float = 60.0  # seconds of sending ahead of a link


@dataclass(frozen=True)
class Overload:
    """A place whose backlog grew without bound, and when that was settled."""

    kind: str  # "site", "link" or "memory"
    subject: int
    at_s: float
    backlog: float  # tuples; seconds for a link


def growing_site(busy_share: Floats, mean_length: Floats, length: Floats) -> int | None:
    """The site whose queue grew all through the run's second half while it never rested, if there is one.

    Rows are time bins. Under linear growth from the start the last quarter's mean is 1.4 times the third's;
    a site that is merely close to its capacity rests now and then, or stays at its level.
    """
    bins = len(busy_share)
    if bins < 8:
        return None
    half, quarter = bins // 2, bins - bins // 4
    never_rested = busy_share[half:].min(axis=0) >= 0.999
    grew = mean_length[quarter:].mean(axis=0) >= 1.2 * mean_length[half:quarter].mean(axis=0)
    suspects = never_rested & grew & (length > 100)
    return int(np.argmax(np.where(suspects, length, -1.0))) if suspects.any() else None
