"""True rates through the graph at one rate point: what every stream and operator puts out per second."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats
from mooring.model.problem.problem import Problem


def output_rates(problem: Problem, rates: npt.ArrayLike | None = None) -> Floats:
    """Tuples per second out of every node (streams, then operators); stream rates default to the present."""
    graph = problem.graph
    result = np.zeros(graph.stream_count + len(problem.operators))
    result[: graph.stream_count] = problem.rates if rates is None else rates
    for j in graph.order:
        operator = problem.operators[j]
        inputs = [sum(result[node] for node in port) for port in graph.ports[j]]
        if operator.kind == "join":
            assert operator.window_s is not None
            out = operator.selectivity * operator.window_s * inputs[0] * inputs[1]
        else:
            out = sum(operator.selectivity_of(n) * r for n, r in zip(operator.inputs, inputs, strict=True))
        result[graph.stream_count + j] = operator.share * out
    return result
