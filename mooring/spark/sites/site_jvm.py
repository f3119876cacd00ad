"""The Java machine of an embedded site: its heap, and options beyond Mooring's own."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_HEAP_MB = 512
"""Spark refuses less than about 450 MB."""
_MACHINE_SHARE = 0.25
"""Of the machine's memory, which several sites may share, where nothing is stated."""


@dataclass(frozen=True)
class SiteJvm:
    heap_mb: int | None = None
    """Java heap; None: by the site's memory or capacity."""
    options: tuple[str, ...] = ()
    """After Mooring's own, so that these win."""


def usable_cores(capacity: float) -> int:
    """Whole cores that an embedded site of a capacity can keep busy on this machine."""
    return max(1, math.ceil(min(capacity, os.cpu_count() or 1)))


def default_heap_mb(capacity: float, memory_mb: float | None = None) -> int:
    """The memory that the site states for operators; else 512 MB per core, at most a quarter of the machine.

    >>> default_heap_mb(0.5), default_heap_mb(1.0, memory_mb=3000.0), default_heap_mb(2.0, memory_mb=100.0)
    (512, 3000, 512)
    """
    if memory_mb is not None:
        return max(LEAST_HEAP_MB, round(memory_mb))
    machine_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    return max(LEAST_HEAP_MB, round(min(LEAST_HEAP_MB * usable_cores(capacity), _MACHINE_SHARE * machine_mb)))


def chooses_collector(options: Sequence[str]) -> bool:
    """Java takes one garbage collector only."""
    return any(re.fullmatch(r"-XX:\+Use\w+GC", option) for option in options)
