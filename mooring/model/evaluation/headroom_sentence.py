"""The headroom in words, the last sentence of every explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.model.evaluation.metrics import Metrics


def headroom_sentences(metrics: Metrics) -> list[str]:
    """None where no load grows with the rates."""
    room = metrics.headroom
    if room.factor is None:
        return []
    verb = "can grow" if room.factor >= 1.0 else "are too high and must shrink"
    return [
        f"All rates together {verb} to {room.factor:.2f} times the present rates; {room.site} is full first."
    ]
