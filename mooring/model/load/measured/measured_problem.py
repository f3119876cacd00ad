"""A problem as it is measured to be: present rates from a running engine, and costs where they are known.

The control loop evaluates placements at the present rates; so does `--measured` on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem


@dataclass(frozen=True)
class OperatorMeasurement:
    """What was measured of one operator; None: keep what the problem says."""

    cost_us: float | None = None
    selectivity: float | None = None
    fixed_cores: float | None = None
    bytes: float | None = None
    state_bytes: float | None = None
    error: float | None = None


def measured_problem(
    problem: Problem,
    stream_rates: Mapping[str, float],
    operators: Mapping[str, OperatorMeasurement] | None = None,
) -> Problem:
    """The same problem at the measured rates, and with measured costs of the operators given.

    Rates leave the stated bounds where they must: what was measured cannot be wrong because a file says so.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}}, "streams": {"s": {"rate": 10, "max_rate": 20}},
    ...     "operators": {"o": {"inputs": ["s"], "cost_us": 5}},
    ... })
    >>> now = measured_problem(problem, {"s": 30.0}, {"o": OperatorMeasurement(cost_us=7.0)})
    >>> now.streams[0].rate, now.streams[0].max_rate, now.operators[0].cost_us
    (30.0, 30.0, 7.0)
    """
    streams = []
    for stream in problem.streams:
        rate = stream_rates.get(stream.name)
        if rate is None:
            streams.append(stream)
            continue
        highest = None if stream.max_rate is None else max(stream.max_rate, rate)
        streams.append(
            msgspec.structs.replace(stream, rate=rate, min_rate=min(stream.min_rate, rate), max_rate=highest)
        )
    known = operators or {}
    changed = tuple(_measured(operator, known.get(operator.logical_name)) for operator in problem.operators)
    return replace(problem, streams=tuple(streams), operators=changed)


def _measured(operator: Operator, found: OperatorMeasurement | None) -> Operator:
    if found is None:
        return operator
    changes = {name: value for name, value in vars(found).items() if value is not None}
    return msgspec.structs.replace(operator, **changes)
