"""A problem: what is to be placed, where it may go, and what is known about rates and the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.arrays import Floats, Ints
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.goals import Goals
from mooring.model.problem.graph import QueryGraph
from mooring.model.problem.latencies import Latencies
from mooring.model.problem.network import Network
from mooring.model.problem.operator import Operator
from mooring.model.problem.query import Query
from mooring.model.problem.site import Site
from mooring.model.problem.stream import Stream

if TYPE_CHECKING:
    from mooring.model.problem.history import RateHistory


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Immutable. Build one with `Problem.load`, `Problem.from_dict` or a generator, all of which validate."""

    sites: tuple[Site, ...]
    streams: tuple[Stream, ...]
    operators: tuple[Operator, ...]
    """Operators split by key stand here as their instances."""
    queries: tuple[Query, ...] = ()
    network: Network = field(default_factory=Network)
    history: RateHistory | None = None
    """Past rates of the streams that have any, sampled together."""
    goals: Goals = field(default_factory=Goals)
    changes: Changes = ()
    """What happens while it runs. Plans are made for what is now."""

    def __repr__(self) -> str:
        parts = (self.operators, "operators"), (self.streams, "streams"), (self.queries, "queries")
        return f"Problem({', '.join(f'{len(of)} {what}' for of, what in parts)} on {len(self.sites)} sites)"

    @staticmethod
    def load(path: str | Path) -> Problem:
        """Read a problem file, YAML or JSON. Raises `InputError` naming file and field."""
        from mooring.model.problem.files import load_problem

        return load_problem(Path(path))

    @staticmethod
    def from_dict(data: Mapping[str, object]) -> Problem:
        """The same from plain data, as a problem file would hold it.

        >>> problem = Problem.from_dict({
        ...     "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        ...     "streams": {"packets": {"rate": 100}},
        ...     "operators": {"count": {"inputs": ["packets"], "cost_us": 50}},
        ... })
        >>> problem.operators[0].cost_us
        50.0
        """
        from mooring.model.problem.schema import problem_from_data

        return problem_from_data(data)

    @cached_property
    def graph(self) -> QueryGraph:
        return QueryGraph.build(self.streams, self.operators)

    @cached_property
    def site_index(self) -> dict[str, int]:
        return {site.name: i for i, site in enumerate(self.sites)}

    @cached_property
    def stream_index(self) -> dict[str, int]:
        return {stream.name: k for k, stream in enumerate(self.streams)}

    @cached_property
    def operator_index(self) -> dict[str, int]:
        return {operator.name: j for j, operator in enumerate(self.operators)}

    @cached_property
    def nodes_by_name(self) -> dict[str, list[int]]:
        """Graph nodes (streams, then operators) by the name used in the problem file: all instances."""
        result: dict[str, list[int]] = {stream.name: [k] for k, stream in enumerate(self.streams)}
        for node, operator in enumerate(self.operators, start=len(self.streams)):
            result.setdefault(operator.logical_name, []).append(node)
        return result

    @cached_property
    def fragments(self) -> tuple[tuple[int, ...], ...]:
        """Operators that always run together, in the order of their first member."""
        groups: dict[str | int, list[int]] = {}
        for j, operator in enumerate(self.operators):
            label = operator.fragment
            if label is None:
                groups[j] = [j]
            else:
                groups.setdefault(label, []).append(j)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def fragment_of_operator(self) -> Ints:
        """Per operator, the number of its fragment."""
        result = np.empty(len(self.operators), dtype=np.int64)
        for f, members in enumerate(self.fragments):
            for j in members:
                result[j] = f
        return result

    @cached_property
    def fragment_names(self) -> tuple[str, ...]:
        firsts = (self.operators[members[0]] for members in self.fragments)
        return tuple(first.name if first.fragment is None else first.fragment for first in firsts)

    @property
    def capacity_cores(self) -> Floats:
        return np.array([site.capacity for site in self.sites])

    @property
    def rates(self) -> Floats:
        """Present rates, tuples per second."""
        return np.array([stream.rate for stream in self.streams])

    @property
    def min_rates(self) -> Floats:
        return np.array([stream.min_rate for stream in self.streams])

    def with_rates(self, rates: npt.ArrayLike) -> Problem:
        """The same problem at other present rates."""
        changed = tuple(
            msgspec.structs.replace(stream, rate=float(rate))
            for stream, rate in zip(self.streams, np.asarray(rates, dtype=float), strict=True)
        )
        return replace(self, streams=changed)

    def in_circumstances(
        self, *, rates: npt.ArrayLike, capacity_cores: npt.ArrayLike, latency_ms: Latencies | None
    ) -> Problem:
        """The same operators at other rates, capacities and latencies. What was worked out of the graph is
        kept: this is asked for at every look at a run.
        """
        sites = tuple(
            site if site.capacity == cores else msgspec.structs.replace(site, capacity=float(cores))
            for site, cores in zip(self.sites, np.asarray(capacity_cores, dtype=float), strict=True)
        )
        streams = tuple(
            msgspec.structs.replace(stream, rate=float(rate))
            for stream, rate in zip(self.streams, np.asarray(rates, dtype=float), strict=True)
        )
        network = replace(self.network, latency_ms=latency_ms)
        changed = replace(self, sites=sites, streams=streams, network=network)
        fragments = "fragments", "fragment_of_operator", "fragment_names"
        for kept in ("graph", *fragments, "operator_index", "nodes_by_name"):
            changed.__dict__[kept] = getattr(self, kept)
        return changed

    def with_min_rates(self, min_rates: npt.ArrayLike) -> Problem:
        """The same problem under other lower bounds on the rates."""
        changed = tuple(
            msgspec.structs.replace(stream, min_rate=float(rate))
            for stream, rate in zip(self.streams, np.asarray(min_rates, dtype=float), strict=True)
        )
        return replace(self, streams=changed)
