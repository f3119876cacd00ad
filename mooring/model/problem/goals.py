"""What a placement has to keep beside capacities, and what is preferred among placements that keep it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, get_args

import msgspec

from mooring.errors import Gathered
from mooring.model.problem.reading.fields import (
    MOST_PROBLEMS,
    Check,
    child,
    fail,
    mapping,
    names,
    number,
    positive,
    read_fields,
    refuse_reference,
)

Limit = Literal["latency", "bandwidth"]
Preference = Literal["headroom", "feasible_ratio", "bytes_in_flight", "latency", "moves", "price", "sites"]
LIMITS: tuple[str, ...] = get_args(Limit)
PREFERENCES: tuple[str, ...] = get_args(Preference)
NEXT = 1e-3
"""Of preferences in order, each counts a thousandth of the one before."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator takes of a named resource."""

    fixed: float = 0.0
    per_tuple: float = 0.0
    """Of each input tuple per second; of each pair per second for a join."""


class Goals(msgspec.Struct, frozen=True, kw_only=True):
    apart: tuple[tuple[str, ...], ...] = ()
    """Groups of operators of which no two are at one site."""
    together: tuple[tuple[str, ...], ...] = ()
    """Groups of operators that are at one site."""
    allowed: dict[str, tuple[str, ...]] = {}
    """Operator -> the sites, by name or label, that it may run at."""
    excluded: dict[str, tuple[str, ...]] = {}
    """Operator -> the sites, by name or label, that it may not run at."""
    reserve: float = 0.0
    """The share of every site's cores that stays free at the present and the minimum rates."""
    limits: tuple[str, ...] = ()
    """Which limits no placement may exceed: `latency` of queries, `bandwidth` of links."""
    prefer: dict[str, float] | None = None
    """What counts among the placements that keep all that, with weights. None: nothing is stated."""

    def __bool__(self) -> bool:
        return self != Goals()


def share(value: object, path: str) -> float:
    found = number(value, path)
    if not found < 1.0:
        fail(path, "a share from 0 to below 1", value)
    return found


def utilisation(value: object, path: str) -> float:
    found = positive(value, path)
    if found > 1.0:
        fail(path, "a share above 0 and up to 1", value)
    return found


def amounts(value: object, path: str) -> dict[str, float]:
    given = mapping(value, path, "a mapping of resources to amounts")
    return {str(key): number(amount, child(path, str(key))) for key, amount in given.items()}


def needs(value: object, path: str) -> dict[str, Need]:
    """`{slots: 1, gpu: {per_tuple: 0.001}}`: a number alone is fixed."""
    given = mapping(value, path, "a mapping of resources to amounts")
    checks: dict[str, Check] = {"fixed": number, "per_tuple": number}
    found = {}
    for key, raw in given.items():
        where = child(path, str(key))
        fields: dict[str, Any] = (
            read_fields(raw, checks, where) if isinstance(raw, Mapping) else {"fixed": number(raw, where)}
        )
        found[str(key)] = Need(**fields)
    return found


def _groups(value: object, path: str) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list | tuple):
        fail(path, "a list of groups of operators", value)
    found = []
    for i, raw in enumerate(value):
        group = names(raw, f"{path}[{i}]")
        if len(set(group)) < 2:
            fail(f"{path}[{i}]", "two operators or more", raw)
        found.append(tuple(dict.fromkeys(group)))
    return tuple(found)


def _limits(value: object, path: str) -> tuple[str, ...]:
    found = names(value, path)
    for i, each in enumerate(found):
        if each not in LIMITS:
            refuse_reference(each, LIMITS, f"{path}[{i}]", "a limit")
    return tuple(dict.fromkeys(found))


def _prefer(value: object, path: str) -> dict[str, float]:
    """Weights, or a list in order of importance."""
    if isinstance(value, list | tuple):
        order = names(value, path)
        weights = {each: NEXT**place for place, each in enumerate(order)}
    else:
        given = mapping(value, path, "a mapping of preferences to weights, or a list in order")
        weights = {str(key): number(weight, child(path, str(key))) for key, weight in given.items()}
    for each in weights:
        if each not in PREFERENCES:
            refuse_reference(each, PREFERENCES, child(path, each), "a preference")
    if not any(weight > 0.0 for weight in weights.values()):
        fail(path, "a preference with a weight above 0", value)
    return {each: weight for each, weight in weights.items() if weight > 0.0}


_FIELDS: dict[str, Check] = {
    "apart": _groups,
    "together": _groups,
    "allowed": mapping,
    "excluded": mapping,
    "reserve": share,
    "limits": _limits,
    "prefer": _prefer,
}


def read_goals(
    section: object, operators: Collection[str], places: Collection[str], key: Callable[[str], str] = str
) -> Goals:
    """`operators`: the names that goals may use; `places`: sites and their labels; `key`: the operator that a
    name stands for."""
    fields: dict[str, Any] = read_fields(mapping(section, "goals"), _FIELDS, "goals")
    gather = Gathered(MOST_PROBLEMS)
    for field in ("apart", "together"):
        if field in fields:
            fields[field] = tuple(tuple(key(each) for each in group) for group in fields[field])
    for field in ("allowed", "excluded"):
        found = {}
        for each, raw in fields.get(field, {}).items():
            with gather.noting():
                if (operator := key(str(each))) not in operators:
                    refuse_reference(operator, operators, f"goals.{field}", "an operator")
                found[operator] = names(raw, child(f"goals.{field}", str(each)))
                for place in found[operator]:
                    if place not in places:
                        refuse_reference(
                            place, places, child(f"goals.{field}", str(each)), "a site or the label of one"
                        )
        fields[field] = found
    for field in ("apart", "together"):
        for i, group in enumerate(fields.get(field, ())):
            for each in group:
                with gather.noting():
                    if each not in operators:
                        refuse_reference(each, operators, f"goals.{field}[{i}]", "an operator")
    gather.raise_any()
    return Goals(**fields)
