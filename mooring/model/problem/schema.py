"""Plain data to a problem: the schema of problem files, one table of fields per section."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from mooring.errors import Gathered, InputError
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.changes.read_changes import Known, read_changes
from mooring.model.problem.goals import Goals, needs, read_goals
from mooring.model.problem.history import read_history_columns
from mooring.model.problem.operator import KINDS, InputStatistics, MovesAs, Operator, split_by_key
from mooring.model.problem.problem import Problem
from mooring.model.problem.query import Query
from mooring.model.problem.reading.companion import companion_file
from mooring.model.problem.reading.fields import (
    MOST_PROBLEMS,
    Check,
    boolean,
    child,
    fail,
    mapping,
    name,
    names_in,
    names_or_none,
    noted_entries,
    noted_fields,
    number,
    one_of,
    own_name,
    positive,
    read_entries,
    read_fields,
    refuse_reference,
    whole,
)
from mooring.model.problem.surroundings import Surroundings, check_site, read_surroundings

VERSION = 1
MAX_OPERATORS = 5_000_000
"""Instances counted; keeps a short file from asking for all memory."""


def _version(value: object, path: str) -> object:
    if value != VERSION or isinstance(value, bool):
        fail(path, f"{VERSION}, the only version", value)
    return value


def _shares(value: object, path: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        fail(path, "a list of numbers", value)
    return tuple(number(item, f"{path}[{i}]") for i, item in enumerate(value))


def _coefficients(value: object, path: str) -> dict[str, float]:
    given = mapping(value, path, "a mapping of streams to cores per tuple per second")
    if not given:
        fail(path, "at least one stream", value)
    return {stream: number(coefficient, child(path, stream)) for stream, coefficient in given.items()}


def _per_input(value: object, path: str) -> dict[str, InputStatistics]:
    given = mapping(value, path, "a mapping of inputs to cost_us and selectivity")
    checks: dict[str, Check] = {"cost_us": number, "selectivity": number}
    fields: dict[str, dict[str, Any]] = {
        key: read_fields(raw, checks, child(path, key)) for key, raw in given.items()
    }
    return {key: InputStatistics(**own) for key, own in fields.items()}


def _reuse(value: object, path: str) -> object:
    return value if value is False else name(value, path)


_SECTIONS: dict[str, Check] = {
    "version": _version,
    "sites": mapping,
    "latency_ms": mapping,
    "network": mapping,
    "streams": mapping,
    "operators": mapping,
    "queries": mapping,
    "goals": mapping,
    "changes": lambda value, path: value,
}
OPERATOR_FIELDS: dict[str, Check] = {
    "inputs": names_or_none,
    "kind": one_of(*KINDS),
    "cost_us": number,
    "selectivity": number,
    "variability": number,
    "per_input": _per_input,
    "window_s": positive,
    "variable": boolean,
    "site": name,
    "load": _coefficients,
    "bytes": number,
    "memory_mb": number,
    "state_bytes": number,
    "movable": boolean,
    "moves_as": one_of(*get_args(MovesAs)),
    "fragment": own_name,
    "fixed_cores": number,
    "parallel": positive,
    "reuse": _reuse,
    "error": number,
    "needs": needs,
    "instances": whole,
    "shares": _shares,
}
QUERY_FIELDS: dict[str, Check] = {
    "reads": name,
    "site": name,
    "max_latency_ms": positive,
    "critical": boolean,
}
_NOT_WITH_LOAD = (
    "inputs",
    "cost_us",
    "selectivity",
    "per_input",
    "window_s",
    "variable",
    "kind",
    "instances",
    "shares",
)


def problem_from_data(data: object, folder: Path | None = None) -> Problem:
    """Validate and build. `folder` is where files named by the problem are looked for; None: nowhere."""
    if not isinstance(data, Mapping) or not data:
        fail(
            "",
            "a problem: a mapping with sites, streams and operators",
            data,
            remedy="`mooring example network_monitoring.yaml` copies one",
        )
    _refuse_other_kinds(data)
    gather = Gathered(MOST_PROBLEMS)
    sections: dict[str, Any] = noted_fields(data, _SECTIONS, "", gather)
    for section in ("sites", "streams", "operators"):
        found, is_noted = sections.get(section), section in data and section not in sections
        with gather.noting():
            if not found and not is_noted and (section != "streams" or found != {}):
                fail(section, "at least one entry", found)
    if not (sections.get("sites") and sections.get("operators")) or sections.get("streams") is None:
        gather.raise_any()  # whatever names an entry of what is missing would be called wrong for it
    around, operators, queries = _read_parts(sections, folder, gather)
    goals = Goals()
    with gather.noting():
        if around is not None and sections.get("goals") is not None:
            goals = read_goals(sections["goals"], names_in(sections["operators"]), around.places)
    gather.raise_any()
    assert around is not None
    problem = assembled(around, operators, queries, goals)
    if sections.get("changes") is None:
        return problem
    return replace(problem, changes=changes_from_data(sections["changes"], problem, folder))


def _read_parts(
    sections: Mapping[str, Any], folder: Path | None, gather: Gathered
) -> tuple[Surroundings | None, tuple[Operator, ...], tuple[Query, ...]]:
    """Every part by itself, so that what is wrong with one hides nothing of the others. They are held against
    the names in the file: whoever names a part that is wrong is not wrong for that.
    """
    around: Surroundings | None = None
    operators: tuple[Operator, ...] = ()
    section = sections["operators"]
    names = Names(*(names_in(sections[each]) for each in ("sites", "streams", "operators")))
    with gather.noting():
        around = read_surroundings(sections, folder)
    given = dict(noted_entries(section, "operators", _operator_fields, gather))
    with gather.noting():
        operators = operators_of(given, names)
    readable = {key for key in names.operators if "load" not in given.get(key, {})}
    read = partial(_read_query, readable=readable, sites=names.sites)
    queries = noted_entries(sections.get("queries") or {}, "queries", read, gather)
    return around, operators, tuple(queries)


def changes_from_data(section: object, problem: Problem, folder: Path | None = None) -> Changes:
    """What happens to a problem while it runs, from a list of timed changes."""

    def read_rates(file: str, stream: str, path: str) -> list[tuple[float, float]]:
        columns = read_history_columns(companion_file(folder, file, path), with_time=True)
        if "time_s" not in columns:
            fail(path, f"a column time_s in {file}", list(columns))
        if stream not in columns:
            refuse_reference(stream, columns, path, f"a file with a column named after the stream, in {file}")
        return list(zip(columns["time_s"].tolist(), columns[stream].tolist(), strict=True))

    known = Known(
        streams=problem.stream_index,
        sites=problem.site_index,
        queries=[query.name for query in problem.queries],
        has_latencies=problem.network.latency_ms is not None,
        read_rates=read_rates,
    )
    return read_changes(section, known)


def _refuse_other_kinds(data: Mapping[str, Any]) -> None:
    """Files of ours, or of Spark's, that are no problem files: said as such, not by an unknown key."""
    if "frames" in data:
        raise InputError(
            "found a chunks file, expected a problem file",
            field="frames",
            remedy="`mooring chunks FILE` plans it",
        )
    if "storage" in data and "libraries" in data:
        raise InputError(
            "found a pipeline spec, expected a problem file",
            field="libraries",
            remedy="give its folder, or name the spec with --spec",
        )


def assembled(
    around: Surroundings,
    operators: tuple[Operator, ...],
    queries: tuple[Query, ...],
    goals: Goals | None = None,
) -> Problem:
    """A problem of valid parts, once they fit together too."""
    problem = Problem(
        sites=around.sites,
        streams=around.streams,
        operators=operators,
        queries=queries,
        network=around.network,
        history=around.history,
        goals=goals or Goals(),
    )
    _ = problem.graph  # finds cycles
    _check_fragments(problem)
    _check_resources(problem)
    return problem


def _check_resources(problem: Problem) -> None:
    known = {resource for site in problem.sites for resource in site.resources or ()}
    for operator in problem.operators:
        for resource in operator.needs or ():
            if resource not in known:
                path = f"operators.{operator.logical_name}.needs"
                refuse_reference(resource, known, path, "a resource of a site")


def read_operator_fields(section: Any) -> dict[str, dict[str, Any]]:
    """Operator -> its fields, each checked by itself."""
    return dict(read_entries(section, "operators", _operator_fields))


def _operator_fields(key: str, raw: object) -> tuple[str, dict[str, Any]]:
    return key, read_fields(raw, OPERATOR_FIELDS, f"operators.{key}")


@dataclass(frozen=True)
class Names:
    """Those that a file gives."""

    sites: set[str]
    streams: set[str]
    operators: set[str]

    @classmethod
    def of(cls, around: Surroundings, operators: Iterable[str]) -> Names:
        return cls(around.site_names, {stream.name for stream in around.streams}, set(operators))


def operators_of(given: Mapping[str, dict[str, Any]], names: Names) -> tuple[Operator, ...]:
    """Operators from their fields, held against each other, the streams and the sites."""
    gather = Gathered(MOST_PROBLEMS)
    result: list[Operator] = []
    instances: dict[str, tuple[str, int]] = {}  # per fragment label: who has it, and how often it is split
    sources = names.streams | names.operators
    unreadable = {key for key, fields in given.items() if "load" in fields}
    for key, fields in given.items():
        path = f"operators.{key}"
        try:
            if key in names.streams:
                raise InputError(
                    f"found the name {key!r} for a stream and an operator", field=path, remedy="rename one"
                )
            check_site(fields, names.sites, path)
            check = _check_direct_load if "load" in fields else _check_step
            check(fields, sources, names.streams, unreadable, path)
            shares = _read_shares(fields, path)
            _check_instances(fields.get("fragment"), key, len(shares), instances)
        except InputError as error:
            gather.note(error)
            continue
        operator = Operator(name=key, **fields)
        if len(shares) == 1:
            result.append(operator)
        elif len(result) + len(shares) > MAX_OPERATORS:
            fail(f"{path}.instances", f"at most {MAX_OPERATORS} operators and instances in all", len(shares))
        else:
            result.extend(split_by_key(operator, shares))
    gather.raise_any()
    return tuple(result)


def _check_instances(label: str | None, key: str, count: int, instances: dict[str, tuple[str, int]]) -> None:
    """Operators of one fragment are split equally often; `instances` remembers who came first."""
    if label is None:
        return
    first, expected = instances.setdefault(label, (key, count))
    if count != expected:
        fail(
            f"operators.{key}.instances",
            f"{expected}, as in operator {first!r} of the same fragment",
            count,
        )


def _check_direct_load(
    fields: dict[str, Any], sources: set[str], streams: set[str], unreadable: set[str], path: str
) -> None:
    both = [key for key in _NOT_WITH_LOAD if key in fields]
    if both:
        raise InputError(
            f"found both load and {both[0]}, expected one of them",
            field=path,
            remedy="`load` states the coefficients; remove it to compute them from cost and selectivity",
        )
    for stream in fields["load"]:
        if stream not in streams:
            refuse_reference(str(stream), streams, f"{path}.load", "a stream")


def _check_step(
    fields: dict[str, Any], sources: set[str], streams: set[str], unreadable: set[str], path: str
) -> None:
    inputs = fields.get("inputs")
    if inputs is None:
        fail(f"{path}.inputs", "a list of streams or operators", None)
    if not inputs and "fixed_cores" not in fields:
        fail(f"{path}.inputs", "a list of names, or fixed_cores for an operator without inputs", [])
    if "cost_us" not in fields and not _costs_every_input(fields, inputs):
        fail(f"{path}.cost_us", "CPU microseconds per input tuple (0 for an operator without cost)", None)
    for i, source in enumerate(inputs):
        if source not in sources:
            refuse_reference(source, sources, f"{path}.inputs[{i}]", "a stream or an operator")
        if source in unreadable:
            fail(
                f"{path}.inputs[{i}]",
                "an operator with cost_us: one with a direct load has no output rate",
                source,
            )
    if len(set(inputs)) < len(inputs) and fields.get("kind") != "join":
        fail(f"{path}.inputs", "every input once", list(inputs))
    for source in fields.get("per_input") or ():
        if source not in inputs:
            refuse_reference(str(source), inputs, f"{path}.per_input", "one of the operator's inputs")
    _check_window(fields, path)


def _costs_every_input(fields: dict[str, Any], inputs: tuple[str, ...]) -> bool:
    given: dict[str, InputStatistics] = fields.get("per_input") or {}
    return all(source in given and given[source].cost_us is not None for source in inputs)


def _check_window(fields: dict[str, Any], path: str) -> None:
    kind = fields.get("kind", "map")
    if kind == "join":
        if len(fields["inputs"]) != 2:
            fail(f"{path}.inputs", "two inputs, since kind is join", list(fields["inputs"]))
        if "window_s" not in fields:
            fail(f"{path}.window_s", "the join's window in seconds", None)
        if fields.get("per_input"):
            fail(
                f"{path}.per_input",
                "no per_input: a join's cost and selectivity are per pair",
                "per_input",
            )
    elif "window_s" in fields and kind != "aggregate":
        fail(f"{path}.window_s", "window_s only where kind is join or aggregate", fields["window_s"])


def _read_shares(fields: dict[str, Any], path: str) -> tuple[float, ...]:
    count: int = fields.pop("instances", 1)
    shares: tuple[float, ...] | None = fields.pop("shares", None)
    if shares is None:
        return (1.0 / count,) * count
    if len(shares) != count:
        fail(f"{path}.shares", f"{count} shares, one per instance", list(shares))
    total = math.fsum(shares)
    if abs(total - 1.0) > 1e-6:
        fail(f"{path}.shares", "shares that add up to 1", total)
    # Rounded shares such as .333 are stretched; exact ones stay as they are to the last bit.
    return shares if abs(total - 1.0) < 1e-9 else tuple(share / total for share in shares)


def _read_query(key: str, raw: object, readable: set[str], sites: set[str]) -> Query:
    path = f"queries.{key}"
    fields: dict[str, Any] = read_fields(raw, QUERY_FIELDS, path)
    for needed, expected in (("reads", "the operator it consumes"), ("site", "the site it runs at")):
        if needed not in fields:
            fail(f"{path}.{needed}", expected, None)
    check_site(fields, sites, path)
    if fields["reads"] not in readable:
        refuse_reference(fields["reads"], readable, f"{path}.reads", "an operator with an output")
    return Query(name=key, **fields)


def _check_fragments(problem: Problem) -> None:
    """A fragment can be pinned to one site only, and its label names nothing else."""
    if len(set(problem.fragment_names)) < len(problem.fragment_names):
        label = next(o.fragment for o in problem.operators if o.fragment in problem.operator_index)
        raise InputError(
            f"found the name {label!r} for a fragment and for an operator outside of it",
            field="operators",
            remedy="rename the fragment",
        )
    for label, members in zip(problem.fragment_names, problem.fragments, strict=True):
        if len(members) == 1:
            continue
        pins = {problem.operators[j].site: problem.operators[j].name for j in members}
        pins.pop(None, None)
        if len(pins) > 1:
            (site_a, a), (site_b, b) = list(pins.items())[:2]
            raise InputError(
                f"found fragment {label!r} pinned to two sites: {a!r} to {site_a!r}, {b!r} to {site_b!r}",
                field=f"operators.{b}.site",
                remedy="give them different fragments or the same site",
            )
