"""Why a placement is as good as it is, in terms of what its policy is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mooring.load.model import LoadModel
from mooring.placement.judging.resilience_explanation import explain_resilience
from mooring.placement.placement import Placement


class Explanation(Protocol):
    @property
    def sentences(self) -> tuple[str, ...]:
        """Plain words, the most important first."""
        ...


def explain(
    model: LoadModel, placement: Placement, metrics: Mapping[str, object], seed: int = 0
) -> Explanation:
    return explain_resilience(model, placement, metrics, seed)
