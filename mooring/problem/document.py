"""A problem back to plain data and to the text of a problem file; reading that again gives the same problem.

Histories stay in their own files: a stream read from one is written with the name of that file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.problem.network import Network
from mooring.problem.operator import Operator
from mooring.problem.problem import Problem
from mooring.problem.schema import VERSION
from mooring.problem.yaml12 import plain_scalar

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def problem_data(problem: Problem) -> dict[str, Any]:
    """The sections of a problem file; fields at their defaults are left out."""
    names = [site.name for site in problem.sites]
    sections = {
        "sites": {site.name: _fields(site) for site in problem.sites},
        "latency_ms": _matrix(problem.network.latency_ms, names),
        "network": _network(problem.network, names),
        "streams": {stream.name: {"rate": stream.rate} | _fields(stream) for stream in problem.streams},
        "operators": _operators(problem),
        "queries": {query.name: _fields(query) for query in problem.queries},
    }
    return {"version": VERSION} | {key: section for key, section in sections.items() if section}


def problem_json(problem: Problem) -> str:
    return json.dumps(problem_data(problem), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def problem_yaml(problem: Problem) -> str:
    """One line per site, stream, operator and query.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 2}},
    ...     "streams": {"packets": {"rate": 100}},
    ...     "operators": {"count": {"inputs": ["packets"], "cost_us": 50}},
    ... })
    >>> print(problem_yaml(problem), end="")
    version: 1
    sites:
      a: {capacity: 2.0}
    streams:
      packets: {rate: 100.0}
    operators:
      count: {inputs: [packets], cost_us: 50.0}
    """
    lines: list[str] = []
    for section, entries in problem_data(problem).items():
        if isinstance(entries, Mapping):
            lines.append(f"{section}:")
            lines += [f"  {_flow(key)}: {_flow(value)}" for key, value in entries.items()]
        else:
            lines.append(f"{section}: {_flow(entries)}")
    return "\n".join(lines) + "\n"


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    """What differs from the defaults, the name aside."""
    values = ((name, getattr(struct, name), default) for name, default in _defaults(type(struct)))
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value, default in values
        if value != default
    }


@cache
def _defaults(kind: type[msgspec.Struct]) -> list[tuple[str, object]]:
    return [(field.name, field.default) for field in msgspec.structs.fields(kind) if field.name != "name"]


def _operators(problem: Problem) -> dict[str, Any]:
    groups = groupby(problem.operators, key=lambda operator: operator.logical_name)
    return {name: _operator(list(instances)) for name, instances in groups}


def _operator(instances: list[Operator]) -> dict[str, Any]:
    first = instances[0]
    fields = _fields(first)
    if first.per_input:
        fields["per_input"] = {
            source: {key: value for key, value in msgspec.structs.asdict(own).items() if value is not None}
            for source, own in first.per_input.items()
        }
    if first.part_of is not None:
        for key in ("part_of", "share", "memory_mb", "state_bytes"):
            fields.pop(key, None)
        whole = {
            key: math.fsum(getattr(each, key) for each in instances) for key in ("memory_mb", "state_bytes")
        }
        fields |= {key: value for key, value in whole.items() if value}
        fields |= {"instances": len(instances), "shares": [each.share for each in instances]}
        if first.fragment is not None:
            fields["fragment"] = first.fragment.rpartition("#")[0]
    if first.load is None:
        fields.setdefault("cost_us", first.cost_us)
    return fields


def _network(network: Network, names: list[str]) -> dict[str, Any]:
    routes: dict[str, dict[str, list[str]]] = {}
    for (i, j), stops in network.routes.items():
        routes.setdefault(names[i], {})[names[j]] = [names[stop] for stop in stops]
    fields = {
        "channel_ms": network.channel_ms,
        "comm_us": network.comm_us,
        "bandwidth": _matrix(network.bandwidth, names),
        "routes": routes,
    }
    return {key: value for key, value in fields.items() if value}


def _matrix(matrix: npt.NDArray[np.float64] | None, names: list[str]) -> dict[str, dict[str, float]]:
    """Rows by name; the second direction of a pair only where it differs, unlimited pairs not at all."""
    if matrix is None:
        return {}
    values = matrix.tolist()
    rows = {
        a: {
            b: values[i][j]
            for j, b in enumerate(names)
            if i != j and math.isfinite(values[i][j]) and (i < j or values[i][j] != values[j][i])
        }
        for i, a in enumerate(names)
    }
    return {a: row for a, row in rows.items() if row}


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and plain_scalar(value) == value:
        return value
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
