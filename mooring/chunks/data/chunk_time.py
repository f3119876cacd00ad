"""The measured times of one chunk."""

from __future__ import annotations

import msgspec


class ChunkTime(msgspec.Struct, frozen=True):
    """Instants are milliseconds since 1970 on the clock of whoever noted them."""

    operator: str
    plan: int
    """Version of the chunk plan that cut it."""
    chunk: int
    node: int
    start: tuple[int, ...]
    """Bounds of the output cells."""
    stop: tuple[int, ...]
    cpu_ms: float
    """CPU time of the operator's function alone."""
    scattered_ms: float
    began_ms: float
    ended_ms: float
