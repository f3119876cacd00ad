"""The channels that a problem's fragments need."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.problem.problem import Problem


@dataclass(frozen=True, order=True)
class Channel:
    """The log from a producer (a stream or a fragment) to one reader (a fragment or a query)."""

    producer: str
    reader: str


def channels_of(problem: Problem) -> tuple[Channel, ...]:
    """From every stream and fragment to every other fragment and query that reads it; sorted."""
    streams = len(problem.streams)
    fragment_of = {
        j: name
        for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
        for j in members
    }
    names = [stream.name for stream in problem.streams] + [
        fragment_of[j] for j in range(len(problem.operators))
    ]
    found = {
        Channel(names[node], fragment_of[j])
        for node, readers in enumerate(problem.graph.readers)
        for j in readers
        if node < streams or names[node] != fragment_of[j]
    }
    read_by: dict[str, list[str]] = {}
    for query in problem.queries:
        read_by.setdefault(query.reads, []).append(query.name)
    for j, operator in enumerate(problem.operators):
        found |= {Channel(stream, fragment_of[j]) for stream in operator.load or ()}
        found |= {Channel(fragment_of[j], query) for query in read_by.get(operator.logical_name, ())}
    return tuple(sorted(found))
