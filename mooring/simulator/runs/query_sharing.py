"""A query that comes reads what already runs, where that computes the same (SBON, section 3.2).

Operators with equal signatures compute the same. From the query's output backwards, the largest parts first,
one that would have to be started is left out where an equal one runs: that one stands in for it, and its
output goes to the readers of both. This is done where no more is under way on links than if the query ran its
own, and not where it would break the query's limit. A stand-in stays as long as it has a reader, also when
the query that it was started for has left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from mooring.model.placement.links import problem_links
from mooring.model.placement.network_metrics import query_latencies_ms
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.placement.signatures import signatures
from mooring.model.problem.changes.change import Changes, QueryChange
from mooring.model.problem.problem import Problem

StandIns = Mapping[str, str]
"""Operator that does not run (by the problem file's name) -> the equal one whose output is read instead."""


@dataclass(frozen=True)
class Reused:
    """One operator that a query found running."""

    at_s: float
    query: str
    operator: str
    """The query's own, which was not started."""
    by: str
    """The one that stands in for it."""
    site: str
    """Where that runs."""

    def as_json(self) -> dict[str, object]:
        return {
            "at_s": self.at_s,
            "query": self.query,
            "operator": self.operator,
            "by": self.by,
            "site": self.site,
        }


def equal_operators(problem: Problem, changes: Changes) -> dict[str, tuple[str, ...]]:
    """Operators behind queries that come, and for each those of other fragments that compute the same."""
    coming = {change.query for change in changes if isinstance(change, QueryChange) and change.joins}
    if not coming:
        return {}
    found: dict[object, list[str]] = {}
    number, streams = signatures(problem), len(problem.streams)
    key = {
        name: tuple(number[node - streams] for node in nodes)
        for name, nodes in problem.nodes_by_name.items()
        if nodes[0] >= streams
    }
    for name, signature in key.items():
        found.setdefault(signature, []).append(name)
    behind = needed_operators(problem, coming, {}, only_queries=True)
    home = _fragments_of(problem)
    equal = {
        name: tuple(other for other in found[key[name]] if not home[other] & home[name])
        for name in key
        if name in behind
    }
    return {name: others for name, others in equal.items() if others}


def needed_operators(
    problem: Problem, present: Collection[str], stand_ins: StandIns, *, only_queries: bool = False
) -> set[str]:
    """What has to run for some queries, by the names in the problem file. Outputs that nobody reads were
    written for their own sake: they count too, unless it is `only_queries` that is asked for.
    """
    streams = len(problem.streams)
    todo = [query.reads for query in problem.queries if query.name in present]
    if not only_queries:
        read = {query.reads for query in problem.queries}
        for j, operator in enumerate(problem.operators):
            if not problem.graph.readers[streams + j] and operator.logical_name not in read:
                todo.append(operator.logical_name)
    inputs: dict[str, set[str]] = {}
    for operator in problem.operators:
        inputs.setdefault(operator.logical_name, set()).update(operator.inputs)
    found: set[str] = set()
    while todo:
        name = todo.pop()
        name = stand_ins.get(name, name)
        if name in inputs and name not in found:  # it is no stream
            found.add(name)
            todo += inputs[name]
    return found


def fragments_with(problem: Problem, operators: Collection[str]) -> set[str]:
    """Those that one of the operators belongs to."""
    home = _fragments_of(problem)
    return {fragment for name in operators for fragment in home[name]}


def _fragments_of(problem: Problem) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for fragment, members in zip(problem.fragment_names, problem.fragments, strict=True):
        for j in members:
            found.setdefault(problem.operators[j].logical_name, set()).add(fragment)
    return found


def with_stand_ins(problem: Problem, stand_ins: StandIns) -> Problem:
    """The same problem, with the readers of some operators reading others instead."""
    if not stand_ins:
        return problem

    def instead(name: str) -> str:
        return stand_ins.get(name, name)

    operators = tuple(
        msgspec.structs.replace(
            operator,
            inputs=tuple(map(instead, operator.inputs)),
            per_input=operator.per_input
            and {instead(name): values for name, values in operator.per_input.items()},
        )
        for operator in problem.operators
    )
    queries = tuple(msgspec.structs.replace(query, reads=instead(query.reads)) for query in problem.queries)
    return replace(problem, operators=operators, queries=queries)


@dataclass(frozen=True)
class QueryArrival:
    """A query comes to what runs; `chosen` says what it reads of that."""

    problem: Problem
    """As it was written, at the rates and latencies that are known now."""
    query: str
    present: Collection[str]
    """The queries that are there, this one among them."""
    homes: FragmentSites
    """Where fragments run now."""
    sites: FragmentSites
    """Where every fragment runs, or would be started."""

    def chosen(self, equal: Mapping[str, tuple[str, ...]], stand_ins: StandIns) -> dict[str, str]:
        """The stand-ins from now on: those that there were, and those of the query that comes."""
        now = dict(stand_ins)
        found: dict[str, str] = {}
        todo = [query.reads for query in self.problem.queries if query.name == self.query]
        seen: set[str] = set()
        inputs = {operator.logical_name: operator.inputs for operator in self.problem.operators}
        while todo:
            name = todo.pop()
            if name in seen or name not in inputs or name in now:
                continue
            seen.add(name)
            if self._runs(name):
                continue  # it is read where it is
            best = self._best(name, equal.get(name, ()), {**now, **found})
            if best is None:
                todo += inputs[name]
            else:
                found[name] = best
        return self._useful({**now, **found})

    def _runs(self, name: str) -> bool:
        return fragments_with(self.problem, [name]) <= set(self.homes)

    def _best(self, name: str, others: Collection[str], before: StandIns) -> str | None:
        """The equal one that leaves the least under way; None if the query's own is better."""
        least, best = self._usage(before), None
        limit = next(query.max_latency_ms for query in self.problem.queries if query.name == self.query)
        own_ms = self._latency_ms(before)
        for other in others:
            after = {**before, name: other}
            if not self._runs(other) or self._reads_twice(after):
                continue
            breaks = limit is not None and self._latency_ms(after) > max(limit, own_ms)
            usage = self._usage(after)
            if not breaks and (usage < least or (best is None and usage <= least)):
                least, best = usage, other
        return best

    def _reads_twice(self, stand_ins: StandIns) -> bool:
        """Whether an operator would read one output as two of its inputs."""
        rewired = with_stand_ins(self.problem, stand_ins).operators
        return any(len(set(operator.inputs)) < len(operator.inputs) for operator in rewired)

    def _usage(self, stand_ins: StandIns) -> float:
        """Bytes (or tuples) in flight between what would run, times a thousand."""
        rewired = with_stand_ins(self.problem, stand_ins)
        there = tuple(query for query in rewired.queries if query.name in self.present)
        problem, latency_ms = replace(rewired, queries=there), rewired.network.latency_ms
        if latency_ms is None:
            return 0.0
        runs = fragments_with(self.problem, needed_operators(self.problem, self.present, stand_ins))
        where = Placement.from_fragments(problem, self.sites).site_of_fragment
        nowhere = np.full(len(problem.fragments), -1, dtype=np.int64)
        total = 0.0
        for link in problem_links(problem, nowhere):
            ends = [end for end in (link.source, link.target) if end >= 0]
            if any(problem.fragment_names[end] not in runs for end in ends):
                continue
            at = [int(where[end]) if end >= 0 else ~end for end in (link.source, link.target)]
            total += link.rate * float(latency_ms[at[0], at[1]])
        return total

    def _latency_ms(self, stand_ins: StandIns) -> float:
        problem = with_stand_ins(self.problem, stand_ins)
        if problem.network.latency_ms is None:
            return 0.0
        placement = Placement.from_fragments(problem, self.sites)
        found = query_latencies_ms(placement, channel_ms=problem.network.channel_ms)
        names = [query.name for query in problem.queries]
        return found[names.index(self.query)]

    def _useful(self, stand_ins: dict[str, str]) -> dict[str, str]:
        """Without those whose own fragment runs anyway, for something else that it computes."""
        while True:
            runs = fragments_with(self.problem, needed_operators(self.problem, self.present, stand_ins))
            idle = [name for name in stand_ins if fragments_with(self.problem, [name]) & runs]
            if not idle:
                return stand_ins
            for name in idle:
                del stand_ins[name]


def still_read(problem: Problem, present: Collection[str], stand_ins: StandIns) -> dict[str, str]:
    """The stand-ins that somebody who is there reads."""
    reads = {query.reads for query in problem.queries if query.name in present}
    needed = needed_operators(problem, present, stand_ins)
    for operator in problem.operators:
        if operator.logical_name in needed:
            reads |= set(operator.inputs)
    return {name: other for name, other in stand_ins.items() if name in reads}
