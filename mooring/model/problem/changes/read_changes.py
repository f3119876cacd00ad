"""The section or file `changes:` to changes, each held against the problem it is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mooring.errors import Gathered, InputError
from mooring.model.problem.changes.change import (
    CapacityChange,
    Change,
    Changes,
    LatencyChange,
    QueryChange,
    RateChange,
    RateReplay,
    SiteLoss,
    ends_s,
    subject,
)
from mooring.model.problem.reading.fields import (
    MOST_PROBLEMS,
    Check,
    boolean,
    fail,
    name,
    names,
    number,
    positive,
    read_fields,
    refuse_reference,
)

MAX_CHANGES = 1_000_000


def _rates(value: object, path: str) -> object:
    """The name of a file, or pairs of seconds and rates."""
    if isinstance(value, str):
        return name(value, path)
    if not isinstance(value, list | tuple) or not value:
        fail(path, "a file of rates, or a list of [seconds, rate]", value)
    pairs = []
    for i, item in enumerate(value):
        if not isinstance(item, list | tuple) or len(item) != 2:
            fail(f"{path}[{i}]", "[seconds, rate]", item)
        pairs.append((number(item[0], f"{path}[{i}]"), number(item[1], f"{path}[{i}]")))
    return _in_order(pairs, path)


def _in_order(pairs: list[tuple[float, float]], path: str) -> tuple[tuple[float, float], ...]:
    if any(later[0] <= earlier[0] for earlier, later in pairwise(pairs)):
        fail(path, "seconds that increase from one rate to the next", pairs)
    return tuple(pairs)


CHANGE_FIELDS: dict[str, Check] = {
    "at_s": number,
    "stream": name,
    "rate": number,
    "rates": _rates,
    "over_s": number,
    "link": names,
    "latency_ms": number,
    "site": name,
    "capacity": positive,
    "lost": boolean,
    "query": name,
    "joins": boolean,
    "leaves": boolean,
    "for_s": positive,
}
_SUBJECTS = ("stream", "link", "site", "query")


@dataclass(frozen=True)
class Known:
    """What the changes may name."""

    streams: Collection[str]
    sites: Collection[str]
    queries: Collection[str]
    has_latencies: bool
    read_rates: Callable[[str, str, str], list[tuple[float, float]]]
    """(file, stream, field) -> seconds and rates."""


def read_changes(section: object, known: Known, path: str = "changes") -> Changes:
    """Changes in the order of their times. Raises `InputError` naming the entry."""
    if not isinstance(section, list | tuple):
        fail(path, "a list of changes", section, remedy="begin each with -, such as `- {at_s: 60, ...}`")
    if len(section) > MAX_CHANGES:
        fail(path, f"at most {MAX_CHANGES} changes", section)
    gather, found = Gathered(MOST_PROBLEMS), list[tuple[Change, str]]()
    for i, raw in enumerate(section):
        try:
            found.append((_read(raw, known, f"{path}[{i}]"), f"{path}[{i}]"))
        except InputError as error:
            gather.note(error)
    gather.raise_any()
    found.sort(key=lambda pair: pair[0].at_s)
    _refuse_overlaps(found)
    return tuple(change for change, _ in found)


def _read(raw: object, known: Known, path: str) -> Change:
    fields: dict[str, Any] = read_fields(raw, CHANGE_FIELDS, path)
    given = [key for key in _SUBJECTS if key in fields]
    if len(given) != 1:
        fail(path, f"one of {', '.join(_SUBJECTS)}", given)
    if "at_s" not in fields:
        fail(f"{path}.at_s", "the time of the change in seconds", None)
    kind = given[0]
    readers = {"stream": _of_stream, "link": _of_link, "site": _of_site, "query": _of_query}
    return readers[kind](fields, known, path)


def _only(fields: Mapping[str, Any], path: str, *allowed: str) -> None:
    if extra := [key for key in fields if key not in ("at_s", *allowed)]:
        fail(f"{path}.{extra[0]}", f"only {', '.join(('at_s', *allowed))} here", fields[extra[0]])


def _one_of(fields: Mapping[str, Any], path: str, *keys: str) -> str:
    given = [key for key in keys if key in fields]
    if len(given) != 1:
        fail(path, f"one of {', '.join(keys)}", given)
    return given[0]


def _reference(fields: Mapping[str, Any], key: str, known: Collection[str], path: str) -> None:
    if fields[key] not in known:
        refuse_reference(fields[key], known, f"{path}.{key}", f"a {key}")


def _of_stream(fields: dict[str, Any], known: Known, path: str) -> Change:
    _reference(fields, "stream", known.streams, path)
    if _one_of(fields, path, "rate", "rates") == "rates":
        _only(fields, path, "stream", "rates")
        if isinstance(file := fields["rates"], str):
            pairs = known.read_rates(file, fields["stream"], f"{path}.rates")
            fields["rates"] = _in_order(pairs, f"{path}.rates")
        return RateReplay(**fields)
    _only(fields, path, "stream", "rate", "over_s", "for_s")
    if fields.get("for_s") is not None and fields["for_s"] < fields.get("over_s", 0.0):
        fail(f"{path}.for_s", f"at least over_s, {fields['over_s']:g}", fields["for_s"])
    return RateChange(**fields)


def _of_link(fields: dict[str, Any], known: Known, path: str) -> Change:
    _only(fields, path, "link", "latency_ms", "for_s")
    ends = fields["link"]
    if len(ends) != 2 or ends[0] == ends[1]:
        fail(f"{path}.link", "two different sites", list(ends))
    for end in ends:
        if end not in known.sites:
            refuse_reference(end, known.sites, f"{path}.link", "a site")
    if "latency_ms" not in fields:
        fail(f"{path}.latency_ms", "the new latency", None)
    if not known.has_latencies:
        raise InputError(
            "found a change of a latency, but the problem states none",
            field=path,
            remedy="give it latency_ms",
        )
    return LatencyChange(**fields)


def _of_site(fields: dict[str, Any], known: Known, path: str) -> Change:
    _reference(fields, "site", known.sites, path)
    if _one_of(fields, path, "capacity", "lost") == "capacity":
        _only(fields, path, "site", "capacity", "for_s")
        return CapacityChange(**fields)
    _only(fields, path, "site", "lost", "for_s")
    if not fields.pop("lost"):
        fail(f"{path}.lost", "true", False, remedy="set for_s, the duration of the loss in seconds")
    return SiteLoss(**fields)


def _of_query(fields: dict[str, Any], known: Known, path: str) -> Change:
    _reference(fields, "query", known.queries, path)
    which = _one_of(fields, path, "joins", "leaves")
    _only(fields, path, "query", which)
    if not fields[which]:
        fail(f"{path}.{which}", "true", False)
    return QueryChange(at_s=fields["at_s"], query=fields["query"], joins=which == "joins")


def _refuse_overlaps(found: list[tuple[Change, str]]) -> None:
    last: dict[tuple[str, str], Change] = {}
    for change, path in found:
        what = subject(change)
        before = last.get(what)
        if before is not None and (change.at_s < ends_s(before) or change.at_s == before.at_s):
            until = ends_s(before)
            shown = f"until {until:g} s" if until != float("inf") else "for good"
            fail(f"{path}.at_s", f"a time after the change of {' '.join(what)} {shown}", change.at_s)
        if isinstance(change, QueryChange) and before is not None and _repeats(before, change):
            done, between = ("joins", "leave") if change.joins else ("leaves", "join")
            fail(path, f"the query to {between} between its two changes", f"{done} twice")
        last[what] = change


def _repeats(before: Change, change: QueryChange) -> bool:
    return isinstance(before, QueryChange) and before.joins == change.joins
