"""A stream: an external input with a rate."""

from __future__ import annotations

import msgspec


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rate: float
    """Present rate, tuples per second; the mean of the history where only that is given."""
    site: str | None = None
    """Where it enters; None: reachable from every site at no cost."""
    min_rate: float = 0.0
    """The rate never falls below this (section 6.1 of the ROD paper)."""
    max_rate: float | None = None
    """The rate never rises above this; None: not known."""
    variability: float | None = None
    """Squared coefficient of variation of the time between tuples: 0 even, 1 as by chance (Poisson), above
    it bursts; None: not stated.
    """
    bytes: float | None = None
    """Bytes per tuple; None: not known."""
    rates: str | None = None
    """The history file that gave `rate`, as named in the problem file."""
