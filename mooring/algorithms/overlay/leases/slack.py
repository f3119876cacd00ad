"""Slack tracking (section 3.4): how much slower each query may become, kept at the hosts of its operators.

Hosts report downstream how long results take to reach an operator. A query's end adds the last hop and
reports the query's latency to the hosts of all its operators. So every host has the slack of each query that
shares its operators, and notices at once when a link takes more than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mooring.algorithms.overlay.leases.adaptation_messages import Arrives, LatencyIs
from mooring.algorithms.overlay.leases.site_view import OverlaySurroundings
from mooring.algorithms.overlay.search.shared_operator import NOWHERE
from mooring.contracts.site_machine import Effect, Send


class SlackTracker:
    def __init__(self, around: OverlaySurroundings, channel_ms: float, report_ms: float) -> None:
        self._around, self._channel_ms, self._report_ms = around, channel_ms, report_ms
        self._arrival_ms: dict[int, float] = {}
        self._measured_ms: dict[int, float] = {}
        """Of queries that end here, where their results are timed."""
        self.over_links_ms: dict[int, float] = {}
        """Query -> what of its latency is due to where operators are."""
        self.latency_ms: dict[int, float] = {}
        """Query -> what it takes, of queries that share an operator here or end here."""
        self._seen_here: dict[int, tuple[float, float, int]] = {}
        """Query -> what it takes at least since a link from here became slow, until when that has gone round,
        and under which whereabouts."""

    def limit_ms(self, query: int) -> float:
        return self._around.served.limits_ms.get(query, float("inf"))

    def slack_ms(self) -> dict[int, float]:
        return {query: self.limit_ms(query) - ms for query, ms in self.latency_ms.items()}

    def receive(self, sender: int, message: Arrives | LatencyIs, now_ms: float) -> None:
        """A query's latency is for its end to say."""
        if isinstance(message, Arrives):
            if self._around.is_known(message.operator):
                self._arrival_ms[message.operator] = message.latency_ms
            return
        if sender != self._around.end_site(message.query):
            return
        least_ms, until_ms, version = self._seen_here.get(message.query, (0.0, 0.0, -1))
        if now_ms >= until_ms or version != self._around.version:
            least_ms = 0.0
        self.latency_ms[message.query] = max(message.latency_ms, least_ms)
        self.over_links_ms[message.query] = max(message.over_links_ms, least_ms)

    def measured(self, query: int, latency_ms: float) -> Sequence[Effect]:
        """Of a query that ends here: told at once."""
        self._measured_ms[query] = latency_ms
        return self._tell(query, self._ending_here().get(query, 0.0))

    def over_links_slack_ms(self, queries: Iterable[int]) -> dict[int, float]:
        """As `slack_ms`, but for queries that are late because of a site that is too full: nobody knows what
        they will take once it is not, only that they must not be late because of where operators are.
        """
        known = self.slack_ms()
        late = [query for query in queries if known.get(query, 0.0) < 0.0 and query in self.over_links_ms]
        return known | {query: self.limit_ms(query) - self.over_links_ms[query] for query in late}

    def faster(self) -> None:
        """A link from here takes less again: what others say counts."""
        self._seen_here.clear()

    def slower(self, site: int, added_ms: float, now_ms: float) -> dict[int, int]:
        """A link from here takes longer: the queries over it, and how often they cross it to or from here.
        They are known to take that much longer from now on. What their ends say counts again once it can have
        come to their ears, host by host; that corrects what is not on the slowest way."""
        around, served = self._around, self._around.served
        found: Counter[int] = Counter()
        for operator in around.running_here():
            own = served.own.get(operator)
            if own is None:
                continue
            inputs = {around.site_of(p) for p in own.publishers} | {s.site for s in own.sources}
            if site in inputs:
                found.update(list(served.queries[operator]))
            found.update(end.query for end in own.ends if end.site == site)
        known = {query: found[query] for query in sorted(found) if query in self.latency_ms}
        for query, crossings in known.items():
            links_ms = self.over_links_ms.get(query, self.latency_ms[query]) + crossings * added_ms
            self.over_links_ms[query] = links_ms
            # Where results are timed, the delay may have been seen already.
            self.latency_ms[query] = max(self.latency_ms[query], links_ms)
            until_ms = now_ms + self._report_ms * (len(served.upstream(query)) + 1)
            self._seen_here[query] = links_ms, until_ms, around.version
        return known

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
            effects += self._tell(query, ms)
        return effects

    def _tell(self, query: int, over_links_ms: float) -> Sequence[Effect]:
        """The hosts of a query that ends here."""
        around = self._around
        hosts = {around.site_of(operator) for operator in around.served.upstream(query)} | {around.site}
        said = LatencyIs(query, self._measured_ms.get(query, over_links_ms), over_links_ms)
        return [Send(site, said) for site in sorted(hosts - {NOWHERE})]

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
        for end, own in around.served.ending_at(around.site):
            before = self._arrival_ms.get(own.operator)
            hop = around.latency_ms.get(around.site_of(own.operator))
            if before is None or hop is None:
                unknown.add(end.query)
            else:
                found[end.query] = max(found.get(end.query, 0.0), before + hop)
        return {query: ms for query, ms in found.items() if query not in unknown}
