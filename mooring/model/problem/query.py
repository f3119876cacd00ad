"""A query: a consumer of one operator's output at a site, perhaps with a latency limit."""

from __future__ import annotations

import msgspec


class Query(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    reads: str
    site: str
    max_latency_ms: float | None = None
    critical: bool = False
    """Nothing that it does not need runs where it runs."""
