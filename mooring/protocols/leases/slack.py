"""Slack tracking (section 3.4): how much slower each query may become, as the hosts of its operators know it.

Hosts tell each other downstream how long results take to reach an operator; a query's end adds the last hop
and tells the hosts of all its operators what the query takes. So every host knows the slack of each query
that shares its operators, and sees at once when a link takes more than that.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.placement.overlay.shared_operator import NOWHERE
from mooring.protocols.leases.adaptation_messages import Arrives, LatencyIs
from mooring.protocols.leases.surroundings import OverlaySurroundings
from mooring.protocols.protocol import Effect, Send


class SlackTracker:
    def __init__(self, around: OverlaySurroundings, channel_ms: float) -> None:
        self._around, self._channel_ms = around, channel_ms
        self._arrival_ms: dict[int, float] = {}
        self.latency_ms: dict[int, float] = {}
        """Query -> what it takes, of queries that share an operator here or end here."""

    def limit_ms(self, query: int) -> float:
        limits = self._around.served.queries.values()
        return min((shared[query] for shared in limits if query in shared), default=float("inf"))

    def slack_ms(self) -> dict[int, float]:
        return {query: self.limit_ms(query) - ms for query, ms in self.latency_ms.items()}

    def receive(self, message: Arrives | LatencyIs) -> None:
        if isinstance(message, Arrives):
            self._arrival_ms[message.operator] = message.latency_ms
        else:
            self.latency_ms[message.query] = message.latency_ms

    def slower(self, site: int, added_ms: float) -> list[int]:
        """A link from here takes longer: the queries over it, as they are known from now on. The next report
        corrects what is not on the slowest way."""
        around, served = self._around, self._around.served
        found: set[int] = set()
        for operator in around.running_here():
            own = served.own.get(operator)
            if own is None:
                continue
            inputs = {around.site_of(p) for p in own.publishers} | {s.site for s in own.sources}
            if site in inputs:
                found |= set(served.queries[operator])
            found |= {end.query for end in own.ends if end.site == site}
        for query in found & set(self.latency_ms):
            self.latency_ms[query] += added_ms
        return sorted(found & set(self.latency_ms))

    def report(self) -> Sequence[Effect]:
        """What this site tells others, as often as it likes."""
        around, served = self._around, self._around.served
        effects: list[Effect] = []
        for operator in around.running_here():
            own, ms = served.own.get(operator), self._arrival_here_ms(operator)
            if own is None or ms is None:
                continue
            to = {around.site_of(reader) for reader in served.readers[operator]}
            to |= {end.site for end in own.ends}
            effects += [Send(site, Arrives(operator, ms)) for site in sorted(to - {NOWHERE})]
        for query, ms in self._ending_here().items():
            hosts = {around.site_of(operator) for operator in served.upstream(query)} | {around.site}
            effects += [Send(site, LatencyIs(query, ms)) for site in sorted(hosts - {NOWHERE})]
        return effects

    def _arrival_here_ms(self, operator: int) -> float | None:
        around, own = self._around, self._around.served.own.get(operator)
        if own is None:
            return None
        ways = [around.latency_ms.get(source.site) for source in own.sources]
        for publisher in own.publishers:
            before, hop = self._arrival_ms.get(publisher), around.latency_ms.get(around.site_of(publisher))
            ways.append(None if before is None or hop is None else before + self._channel_ms + hop)
        known = [ms for ms in ways if ms is not None]
        return max(known, default=0.0) if len(known) == len(ways) else None

    def _ending_here(self) -> dict[int, float]:
        around, found = self._around, dict[int, float]()
        unknown: set[int] = set()
        for operator, own in around.served.own.items():
            for end in own.ends:
                if end.site != around.site:
                    continue
                before, hop = self._arrival_ms.get(operator), around.latency_ms.get(around.site_of(operator))
                if before is None or hop is None:
                    unknown.add(end.query)
                else:
                    found[end.query] = max(found.get(end.query, 0.0), before + hop)
        return {query: ms for query, ms in found.items() if query not in unknown}
