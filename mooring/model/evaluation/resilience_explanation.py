"""The explanation of a feasible set: the bottleneck, the variables with the largest weight there, and a
change that would help.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.evaluation.metrics import Metrics
from mooring.model.evaluation.suggestion import Suggestion, search_points, suggest
from mooring.model.load.feasible.sparse_feasible_set import feasible_set_of
from mooring.model.load.feasible.true_feasible_set import loading_streams
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class ResilienceExplanation:
    bottleneck: int
    """The site that saturates first in the largest share of rate directions."""
    bottleneck_share: float
    pressing: tuple[tuple[str, float], ...]
    """Variables with their weight on the bottleneck, heaviest first; a weight of 1 is its fair share."""
    suggestion: Suggestion | None
    sentences: tuple[str, ...]


def explain_resilience(
    model: LoadModel, placement: Placement, metrics: Metrics, seed: int = 0
) -> ResilienceExplanation:
    problem = placement.problem
    feasible_set = feasible_set_of(model, placement.site_of_fragment)
    shares = feasible_set.binding_shares(search_points(len(model.active)), seed)
    shares = shares.reshape(-1, model.site_count).sum(axis=0)  # of its cores and its resources
    bottleneck = int(np.argmax(shares))
    share = float(shares[bottleneck])
    weights = feasible_set.weights_of(bottleneck)
    order = np.argsort(-weights, kind="stable")[:3]
    pressing = tuple((feasible_set.variables[k], float(weights[k])) for k in order if weights[k] > 0.0)
    suggestion = suggest(model, placement, bottleneck, seed)
    sentences = _sentences(model, problem, metrics, bottleneck, share, pressing)
    if suggestion is not None:
        sentences.append(suggestion.sentence(problem))
    return ResilienceExplanation(
        bottleneck, float(shares[bottleneck]), pressing, suggestion, tuple(sentences)
    )


def _sentences(
    model: LoadModel,
    problem: Problem,
    metrics: Metrics,
    bottleneck: int,
    share: float,
    pressing: tuple[tuple[str, float], ...],
) -> list[str]:
    name = problem.sites[bottleneck].name
    result = [_survived(metrics, len(model.active))]
    pressed = " and ".join(f"{variable} (weight {weight:.2f})" for variable, weight in pressing)
    if share > 0.0:  # or nothing grows with any rate
        result.append(
            f"Site {name} is the bottleneck: it saturates first in {share:.0%} of rate directions"
            + (
                f". The largest weights there are those of {pressed}; a weight of 1 is a proportional share."
                if pressed
                else "."
            )
        )
    result += headroom_sentences(metrics)
    loading = set(loading_streams(model).tolist())
    idle = [stream.name for k, stream in enumerate(problem.streams) if k not in loading]
    if idle:
        result.append(
            f"These streams load no site and are left out of the feasible set: {', '.join(idle[:8])}."
        )
    return result


def _survived(metrics: Metrics, variables: int) -> str:
    combinations = "of the ideal feasible set (all rates within the total capacity)"
    logarithm = metrics.feasible_ratio_log10
    if not isinstance(logarithm, float):
        return f"The feasible set is {metrics.feasible_ratio:.1%} {combinations}."
    return (
        f"The feasible set is 10^{logarithm:.1f} {combinations}. Over {variables} variables that equals "
        f"{10 ** (logarithm / variables):.1%} of the ideal range for each."
    )
