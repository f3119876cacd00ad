"""How a machine that has just begun learns of the shared queries: the run session has the problem."""

from __future__ import annotations

import msgspec

from mooring.algorithms.overlay.search.shared_operator import SharedOperator


class AskOperators(msgspec.Struct, frozen=True, tag=True):
    """From a machine that knows of no operators yet."""


class KnownOperators(msgspec.Struct, frozen=True, tag=True):
    """To one site: a part of all operators, with the queries that read them, and its own room."""

    part: int
    parts: int
    operators: tuple[SharedOperator, ...]
    usable_cores: float
    memory_mb: float
    channel_ms: float
