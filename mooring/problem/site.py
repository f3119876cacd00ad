"""A site: a place that runs operators (a Spark endpoint; "node" in the papers)."""

from __future__ import annotations

import msgspec


class Site(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: float
    """Cores available to operators."""
    memory_mb: float | None = None
    """Memory available to operators; None: not limited."""
    connect: str | None = None
    """Spark Connect address. May carry a token, so it is never printed, logged or fingerprinted."""

    def __repr__(self) -> str:
        shown = "" if self.connect is None else ", connect=..."
        return f"Site({self.name!r}, capacity={self.capacity:g}{shown})"
