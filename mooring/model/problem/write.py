"""Problems to plain data and problem files: what is written reads back as the same problem, to the last bit.

Split operators are written as the user would write them: one entry with `instances`, and `shares` if uneven.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.changes.change import change_to_data
from mooring.model.problem.goals import Need
from mooring.model.problem.latencies import Coordinates
from mooring.model.problem.network import Network
from mooring.model.problem.operator import InputStatistics, Operator, split_by_key
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.yaml12 import plain_scalar
from mooring.model.problem.site import Connection

Document = dict[str, Any]

_BARE_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_OLD_BOOLEANS = {"y", "n", "yes", "no", "on", "off"}
"""Text in YAML 1.2, but not to every reader; quoted so that nobody has to wonder."""


def problem_to_data(problem: Problem, *, with_connect: bool = False) -> Document:
    """Plain data as a problem file holds it. `connect` is left out unless asked for: it may carry a token."""
    data: Document = {
        "version": 1,
        "sites": _sites_data(problem, with_connect),
        **_network_data(problem.network, [site.name for site in problem.sites]),
        "streams": {stream.name: _fields(stream) for stream in problem.streams},
        "operators": {group[0].logical_name: _operator_data(group) for group in _logical(problem.operators)},
    }
    if problem.queries:
        data["queries"] = {query.name: _fields(query) for query in problem.queries}
    if problem.goals:
        data["goals"] = _fields(problem.goals)
    if problem.changes:
        data["changes"] = [_figure(change_to_data(change)) for change in problem.changes]
    return data


def problem_to_json(problem: Problem, *, with_connect: bool = False) -> str:
    """One line per site, stream, operator, query and change."""
    parts: list[str] = []
    for section, content in problem_to_data(problem, with_connect=with_connect).items():
        if isinstance(content, dict) and content and section != "network":
            lines = [f"  {_json(key)}: {_json(value)}" for key, value in content.items()]
            parts.append(f" {_json(section)}: {{\n" + ",\n".join(lines) + "\n }")
        elif section == "changes":
            parts.append(f" {_json(section)}: [\n  " + ",\n  ".join(map(_json, content)) + "\n ]")
        else:
            parts.append(f" {_json(section)}: {_json(content)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def problem_to_yaml(problem: Problem, *, with_connect: bool = False) -> str:
    """One line per site, stream, operator, query and change.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 2}}, "streams": {"s": {"rate": 10}},
    ...     "operators": {"o": {"inputs": ["s"], "cost_us": 12.5}},
    ... })
    >>> print(problem_to_yaml(problem))
    version: 1
    sites:
      a: {capacity: 2}
    streams:
      s: {rate: 10}
    operators:
      o: {inputs: [s], cost_us: 12.5}
    <BLANKLINE>
    """
    lines: list[str] = []
    for section, content in problem_to_data(problem, with_connect=with_connect).items():
        if isinstance(content, dict) and content and section != "network":
            lines.append(f"{section}:")
            lines.extend(f"  {_flow(key)}: {_flow(value)}" for key, value in content.items())
        elif section == "changes":
            lines += [f"{section}:", *(f"  - {_flow(change)}" for change in content)]
        else:
            lines.append(f"{section}: {_flow(content)}")
    return "\n".join(lines) + "\n"


def write_problem(problem: Problem, path: Path, *, with_connect: bool = False) -> None:
    """Write a problem file, YAML or JSON by its suffix; past rates go to a CSV file beside it."""
    if problem.history is not None:
        problem = _write_history(problem, problem.history.rates, path.with_name(f"{path.stem}.rates.csv"))
    to_text = problem_to_json if path.suffix.lower() == ".json" else problem_to_yaml
    path.write_text(to_text(problem, with_connect=with_connect), encoding="utf-8")


def _write_history(problem: Problem, rates: Floats, path: Path) -> Problem:
    """The same problem with the streams that have past rates pointing to the file written."""
    told = [
        k
        for k, stream in enumerate(problem.streams)
        if stream.rates is not None or np.any(rates[:, k] != stream.rate)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([problem.streams[k].name for k in told])
        writer.writerows(rates[:, told].tolist())
    streams = [
        msgspec.structs.replace(stream, rates=path.name if k in told else None)
        for k, stream in enumerate(problem.streams)
    ]
    return replace(problem, streams=tuple(streams))


def _fields(struct: msgspec.Struct, *left_out: str) -> Document:
    """The fields that differ from their defaults, the name aside."""
    return {
        name: _figure(value)
        for name, default in _defaults(type(struct))
        if name not in left_out and (value := getattr(struct, name)) != default
    }


@cache
def _defaults(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    return [(field.name, field.default) for field in msgspec.structs.fields(kind) if field.name != "name"]


def _figure(value: Any) -> Any:
    """Whole numbers without a trailing .0, as people write them; everything else as it is."""
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    if isinstance(value, dict):
        return {key: _figure(item) for key, item in value.items()}
    if isinstance(value, InputStatistics | Need):
        return _fields(value)
    if isinstance(value, Connection):
        fields = _fields(value)
        return fields if len(fields) > 1 else value.url
    return [_figure(each) for each in value] if isinstance(value, tuple) else value


def _sites_data(problem: Problem, with_connect: bool) -> Document:
    left_out = () if with_connect else ("connect",)
    found = {site.name: _fields(site, *left_out) for site in problem.sites}
    latency_ms = problem.network.latency_ms
    if isinstance(latency_ms, Coordinates):
        if latency_ms.changed_ms:
            raise InputError(
                "found links that are slower than the coordinates of their sites say, which no problem file "
                "can hold",
                field="sites",
            )
        places = latency_ms.position_ms.tolist(), latency_ms.height_ms.tolist()
        for own, at_ms, height_ms in zip(found.values(), *places, strict=True):
            own["at_ms"] = [_figure(part) for part in at_ms]
            if height_ms:
                own["height_ms"] = _figure(height_ms)
    return found


def _logical(operators: Iterable[Operator]) -> list[list[Operator]]:
    """Operators as the file names them: each with its instances."""
    groups: dict[str, list[Operator]] = {}
    for operator in operators:
        groups.setdefault(operator.logical_name, []).append(operator)
    return list(groups.values())


def _operator_data(group: list[Operator]) -> Document:
    first = group[0]
    if first.part_of is None and len(group) == 1:
        return _operator_fields(first)
    whole = _unsplit(group)
    shares = tuple(instance.share for instance in group)
    data = {**_operator_fields(whole), "instances": len(group)}
    if any(share != 1.0 / len(group) for share in shares):
        data["shares"] = [_figure(share) for share in shares]
    return data


def _operator_fields(operator: Operator) -> Document:
    data = _fields(operator, "part_of", "share", "pairs")
    if operator.load is None:
        # Written even where it is zero: a missing cost is refused when read.
        data.setdefault("cost_us", _figure(operator.cost_us))
    return data


def _unsplit(group: list[Operator]) -> Operator:
    """The operator that `split_by_key` made these instances of."""
    name = group[0].logical_name
    shares = tuple(instance.share for instance in group)
    widest = max(group, key=lambda instance: instance.share)
    label = None if widest.fragment is None else widest.fragment.rpartition("#")[0]
    for memory_mb in _quotients(widest.memory_mb, widest.share):
        for state_bytes in _quotients(widest.state_bytes, widest.share):
            whole = msgspec.structs.replace(
                widest,
                name=name,
                part_of=None,
                share=1.0,
                memory_mb=memory_mb,
                state_bytes=state_bytes,
                fragment=label,
            )
            if abs(math.fsum(shares) - 1.0) < 1e-9 and split_by_key(whole, shares) == group:
                return whole
    raise InputError(
        "found instances that are not those of one split operator, so no problem file can hold them",
        field=f"operators.{name}",
    )


def _quotients(part: float, share: float) -> list[float]:
    """Numbers whose product with `share` rounds to `part`: one of them is the number that was split."""
    if part == 0.0 or share == 0.0:
        return [0.0]
    nearby = [part / share]
    for direction in (-math.inf, math.inf):
        at = part / share
        for _ in range(4):
            at = math.nextafter(at, direction)
            nearby.append(at)
    return [value for value in nearby if value * share == part]


def _network_data(network: Network, sites: list[str]) -> Document:
    data: Document = {}
    if network.latency_ms is not None and not isinstance(network.latency_ms, Coordinates):
        data["latency_ms"] = _pairs(network.latency_ms, sites)
    section: Document = {}
    if network.channel_ms:
        section["channel_ms"] = _figure(network.channel_ms)
    if network.comm_us:
        section["comm_us"] = _figure(network.comm_us)
    if network.bandwidth is not None:
        section["bandwidth"] = _pairs(network.bandwidth, sites)
    if network.routes:
        section["routes"] = _routes(network.routes, sites)
    if section:
        data["network"] = section
    return data


def _pairs(matrix: Any, sites: list[str]) -> Document:
    """Each pair once where both directions agree; infinite entries (not limited) are left out."""
    if np.any(np.isinf(matrix) != np.isinf(matrix.T)):
        raise InputError(
            "found a bandwidth that is limited in one direction only, which no problem file can hold",
            field="network.bandwidth",
            remedy="give the other direction a limit too",
        )
    result: Document = {}
    values = matrix.tolist()
    for i, a in enumerate(sites):
        row = {
            b: _figure(values[i][j])
            for j, b in enumerate(sites)
            if i != j and values[i][j] != math.inf and (i < j or values[i][j] != values[j][i])
        }
        if row:
            result[a] = row
    return result


def _routes(routes: dict[tuple[int, int], tuple[int, ...]], sites: list[str]) -> Document:
    result: Document = {}
    for (i, j), stops in sorted(routes.items()):
        if i > j and routes.get((j, i)) == stops[::-1]:
            continue
        result.setdefault(sites[i], {})[sites[j]] = [sites[stop] for stop in stops]
    return result


def _flow(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_flow(key)}: {_flow(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_flow(item) for item in value]) + "]"
    if not isinstance(value, str):
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    bare = _BARE_WORD.fullmatch(value) and value.lower() not in _OLD_BOOLEANS and plain_scalar(value) == value
    return value if bare else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
