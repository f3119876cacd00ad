"""The explanation of a placement, in terms of its policy's goal."""

from __future__ import annotations

from typing import Literal, Protocol

from mooring.model.evaluation.latency_explanation import explain_latency
from mooring.model.evaluation.metrics import Metrics
from mooring.model.evaluation.network_explanation import explain_network
from mooring.model.evaluation.resilience_explanation import explain_resilience
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement

Subject = Literal["resilience", "network", "latency"]
"""What a policy tries to do well: survive as many rates as it can, have as little in flight as it can, or
have results as soon as it can."""


class Explanation(Protocol):
    @property
    def sentences(self) -> tuple[str, ...]:
        """Plain words, the most important first."""
        ...


def explain(
    about: Subject,
    model: LoadModel,
    placement: Placement,
    metrics: Metrics,
    seed: int = 0,
    *,
    thorough: bool = False,
) -> Explanation:
    """`thorough`: with what is left out of large problems since it takes longer than planning.

    Where a problem states no latencies, there is nothing to say of the network, and without queries
    nothing of how quick they are.
    """
    problem = placement.problem
    if about == "latency" and problem.queries and problem.network.latency_ms is not None:
        return explain_latency(placement, metrics)
    if about == "network" and problem.network.latency_ms is not None:
        return explain_network(model, placement, metrics, thorough=thorough)
    return explain_resilience(model, placement, metrics, seed)
