"""From a point in the cost space to a site: the five steps of section 3.1.3.

Find the k nearest sites, contact them, sort them, take the first that already runs the operator, else the
nearest that has the resources; if none has, look further. Two improvements can be switched on: ranking sites
by what the operator's links would cost there instead of by nearness (`estimated`), and measuring the best few
before choosing (`probes`). Neither is in the paper; probing is what pays, because coordinates are off by a
tenth.

Sites can be dead, and they can lie. A site is skipped if it does not answer, if its measured latency
contradicts its coordinate, or if it refuses an operator after advertising room. The report counts these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from mooring.algorithms.relaxation.springs import Springs
from mooring.arrays import Bools, Floats, Ints
from mooring.errors import InfeasibleError, InputError
from mooring.model.network.cost_space import CostSpace

Ranking = Literal["nearest", "estimated"]


class Contacts(Protocol):
    """What the sites say when they are contacted, and what they do when it matters."""

    def answering(self, sites: Ints) -> Bools:
        """Which of these answer at all."""
        ...

    def measured_ms(self, sites: Ints, others: Ints) -> Floats:
        """Sites x others: latencies as measured now."""
        ...

    def running(self, operator: int) -> Ints:
        """Sites that already run this very operator, for another query."""
        ...

    def lacking(self, operator: int, sites: Ints) -> Bools:
        """Which of these say that they lack the CPU, memory or bandwidth."""
        ...

    def accept(self, operator: int, site: int) -> bool:
        """Put the operator there; False if the site turns it down after all."""
        ...


@dataclass(frozen=True)
class MappingParams:
    ranking: Ranking = "nearest"
    candidates: int = 10
    """k: sites contacted at first; doubled while none of them will do (section 3.1.3)."""
    shortlist: int = 200
    """Sites ranked by estimated cost; more find nothing better."""
    probes: int = 0
    """Sites measured per operator: those of its neighbours, and the best candidates that answer and have
    room. Where that is more than `candidates`, as many are contacted."""
    distrust: float | None = None
    """A site is passed over when the latency measured on contact is off from its coordinate's prediction by
    more than this many times the prediction (and more than `distrust_ms`). None: believe everybody."""
    distrust_ms: float = 20.0

    def __post_init__(self) -> None:
        if self.candidates < 1 or self.shortlist < 1 or self.probes < 0:
            raise InputError(f"found {self}, expected at least one candidate", field="mapping")


@dataclass
class MappingReport:
    """What it took to map all operators, and who was passed over."""

    contacted: int = 0
    probed: int = 0
    """Sites whose latencies to an operator's neighbours were measured."""
    most_probed: int = 0
    """The most for one operator."""
    reused: int = 0
    """Operators that were found running already."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Passed over, by reason; one site may come up for many operators."""

    def sentences(self) -> list[str]:
        return [
            f"The mapping skipped a site {count} times: {why}." for why, count in sorted(self.ignored.items())
        ]


class Mapper:
    """Maps operators one by one; those mapped before count as sites for their neighbours."""

    def __init__(
        self,
        springs: Springs,
        virtual_ms: Floats,
        space: CostSpace,
        sites: Contacts,
        params: MappingParams,
        site_of: Ints | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """`names`: of the operators, for people."""
        self.names = names
        self.springs, self.virtual_ms, self.space, self.sites = springs, virtual_ms, space, sites
        self.params = params
        self.site_of = np.full(len(springs), -1, dtype=np.int64) if site_of is None else site_of.copy()
        self.report = MappingReport()

    def _named(self, operator: int) -> str:
        return f"operator number {operator}" if self.names is None else repr(self.names[operator])

    def place(self, operator: int) -> int:
        """The site for one operator; `InfeasibleError` when no site will have it."""
        count, seen = self.params.candidates, np.zeros(len(self.space.embedding), dtype=bool)
        willing = np.empty(0, dtype=np.int64)
        while True:
            found, _ = self.space.nearest(self.virtual_ms[operator], self._looked_at(count))
            fresh = found[~seen[found]]
            seen[fresh] = True
            ranked, last = self._ranked(operator, fresh), len(found) >= len(self.space)
            site = self._found_running(operator, ranked[:count])
            if site is None:
                site, willing = self._first_that_will_do(operator, ranked, willing, last)
            if site is not None:
                self.site_of[operator] = site
                return site
            if last:
                raise InfeasibleError(
                    f"{self._named(operator)}: none of {len(found)} sites answered and has room",
                    remedy="add capacity, memory or bandwidth",
                )
            count *= 2

    def _looked_at(self, count: int) -> int:
        """Sites around the operator's place: enough to contact, to measure and to rank."""
        ranked = self.params.shortlist if self.params.ranking == "estimated" else 0
        return max(count, self.params.probes, ranked)

    def _found_running(self, operator: int, near: Ints) -> int | None:
        running = self.sites.running(operator)
        reused = near[np.isin(near, running)] if len(running) else running
        if not len(reused):
            return None
        self.report.reused += 1
        return int(reused[0])

    def _first_that_will_do(
        self, operator: int, ranked: Ints, willing: Ints, last: bool
    ) -> tuple[int | None, Ints]:
        """Contact sites until as many are willing as are to be measured, and choose among those.

        Returns the site, and who is willing so far: where that is too few, the search goes on further away,
        unless these are the last.
        """
        begin = 0
        while begin < len(ranked):
            # Contacting costs a message each way: a few at a time, and mostly the first few will do.
            end = begin + max(self.params.candidates, self.params.probes - len(willing))
            willing = np.concatenate([willing, self._willing(operator, ranked[begin:end])])
            begin = end
            if len(willing) >= max(self.params.probes, 1):
                site = self._first_to_accept(operator, willing)
                if site is not None:
                    return site, willing
                willing = willing[:0]
        return (self._first_to_accept(operator, willing) if last else None), willing

    def _willing(self, operator: int, sites: Ints) -> Ints:
        """Those that answer and say that they have room."""
        answering = self._contacted(operator, sites)
        return np.asarray(answering[~self.sites.lacking(operator, answering)])

    def _first_to_accept(self, operator: int, willing: Ints) -> int | None:
        if self.params.probes > 0 and len(willing):
            willing = self._probed(operator, willing)
        for site in willing.tolist():
            if self.sites.accept(operator, site):
                return int(site)
            self.report.ignored["it refused the operator after advertising room"] += 1
        return None

    def _ranked(self, operator: int, sites: Ints) -> Ints:
        """By estimated cost of the operator's links, or as they come: nearest first.

        To be probed, both by turns: where one ranking is misled, the other seldom is.
        """
        if self.params.ranking == "nearest" or not len(sites):
            return sites
        cheapest = sites[np.argsort(self._estimated_cost(operator, sites), kind="stable")]
        if self.params.probes == 0:
            return cheapest
        by_turns = np.stack([cheapest, sites], axis=1).ravel()
        _, first = np.unique(by_turns, return_index=True)
        return np.asarray(by_turns[np.sort(first)])

    def _estimated_cost(self, operator: int, sites: Ints) -> Floats:
        """Rate x predicted latency over the operator's links; neighbours not mapped yet are where springs put
        them."""
        own = self.springs.of_operator(operator)
        other, rate = self._resolved(own), self.springs.rate[own]
        embedding = self.space.embedding
        total = np.zeros(len(sites))
        for end, flow in zip(other.tolist(), rate.tolist(), strict=True):
            if end < 0:
                total += flow * embedding.latency_ms(sites, np.full(len(sites), ~end))
            else:
                total += flow * embedding.from_points(self.virtual_ms[end])[sites]
        return total

    def _resolved(self, own: slice) -> Ints:
        """The other ends, with operators that are mapped replaced by their sites."""
        other = self.springs.other[own]
        at = np.where(other >= 0, self.site_of[np.maximum(other, 0)], -1)
        return np.asarray(np.where((other >= 0) & (at >= 0), ~at, other))

    def _contacted(self, operator: int, sites: Ints) -> Ints:
        """Those that answer, and whose measured latency does not contradict their coordinate."""
        self.report.contacted += len(sites)
        alive = self.sites.answering(sites)
        if not alive.all():
            self.report.ignored["it did not answer"] += int((~alive).sum())
            sites = sites[alive]
        if self.params.distrust is None or not len(sites):
            return sites
        ends = self._resolved(self.springs.of_operator(operator))
        fixed = np.unique(~ends[ends < 0])
        if not len(fixed):
            return sites
        measured = self.sites.measured_ms(sites, fixed)
        predicted = self.space.embedding.latency_ms(sites[:, None], fixed[None, :])
        off = np.abs(measured - predicted)
        wrong = (off > self.params.distrust * predicted) & (off > self.params.distrust_ms)
        honest = wrong.mean(axis=1) < 0.5
        self.report.ignored["its latency contradicts its coordinate"] += int((~honest).sum())
        return np.asarray(sites[honest])

    def _probed(self, operator: int, ranked: Ints) -> Ints:
        """The best candidates and the neighbours' own sites, by measured cost; the others behind them."""
        own = self.springs.of_operator(operator)
        other, rate = self._resolved(own), self.springs.rate[own]
        fixed = other < 0
        ends = ~other[fixed]
        endpoints = np.unique(ends)[: self.params.probes]
        endpoints = endpoints[self.sites.answering(endpoints)]
        endpoints = endpoints[~self.sites.lacking(operator, endpoints)]
        rest = ranked[~np.isin(ranked, endpoints)]
        left = self.params.probes - len(endpoints)
        probed = np.concatenate([endpoints, rest[:left]])
        cost = self.sites.measured_ms(probed, ends) @ rate[fixed]
        for end, flow in zip(other[~fixed].tolist(), rate[~fixed].tolist(), strict=True):
            cost = cost + flow * self.space.embedding.from_points(self.virtual_ms[end])[probed]
        self.report.probed += len(probed)
        self.report.most_probed = max(self.report.most_probed, len(probed))
        return np.concatenate([probed[np.argsort(cost, kind="stable")], rest[left:]])


class OpenSites:
    """Sites that are all up, honest and without limits; latencies from a matrix."""

    def __init__(self, latency_ms: Floats) -> None:
        self._latency_ms = latency_ms

    def answering(self, sites: Ints) -> Bools:
        return np.ones(len(sites), dtype=bool)

    def measured_ms(self, sites: Ints, others: Ints) -> Floats:
        return self._latency_ms[np.ix_(sites, others)]

    def running(self, operator: int) -> Ints:
        return np.empty(0, dtype=np.int64)

    def lacking(self, operator: int, sites: Ints) -> Bools:
        return np.zeros(len(sites), dtype=bool)

    def accept(self, operator: int, site: int) -> bool:
        return True
