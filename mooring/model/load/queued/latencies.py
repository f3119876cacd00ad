"""Latencies of a placement, queues included.

Sites and links are servers (`station.py`) that messages pass (`messages.py`). What they send elsewhere leaves
when they are finished. How irregularly the flows between the servers come depends on one another, round and
round, and is found by repetition.

What a result waits for is not the mean of all messages: one that passes a filter goes on to the work behind
it, and one of many outputs has its sisters' work done too. The paper's form takes the mean of all messages
(equation 10); the corrected one follows those that become results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.model.load.queued.arrival_variability import arrival_variability
from mooring.model.load.queued.messages import Messages, messages_of
from mooring.model.load.queued.station import Flows, Form, Stations
from mooring.model.load.queued.steps import Link, StepArc, Steps, steps_of
from mooring.model.problem.problem import Problem

ROUNDS = 200
CLOSE = 1e-9
"""Variabilities are followed around until none changes by more."""


@dataclass(frozen=True)
class QueuedLatencies:
    query_s: Floats
    """Per query, mean over its results, from when the tuple that caused one entered; infinite where a
    site or link on the way is full.
    """
    site_wait_s: Floats
    """Per site, mean time in its queue."""
    site_utilisation: Floats
    """Per site, of what its fixed load leaves."""


@dataclass(frozen=True)
class LatencyParts(QueuedLatencies):
    way_s: Floats
    """Per query, the part of `query_s` that network, channels and transfers take: a mean over the same
    results.
    """


def queued_latencies(
    problem: Problem, site_of_operator: Sequence[int], form: Form = "corrected"
) -> LatencyParts:
    """Of every query at the present rates.

    >>> problem = Problem.from_dict({
    ...     "sites": {"a": {"capacity": 1}},
    ...     "streams": {"packets": {"rate": 500}},
    ...     "operators": {"count": {"inputs": ["packets"], "cost_us": 1000, "variability": 1}},
    ...     "queries": {"counts": {"reads": "count", "site": "a"}},
    ... })
    >>> queued_latencies(problem, [0]).query_s
    array([0.002])
    """
    steps = steps_of(problem, site_of_operator)
    speed = problem.capacity_cores - _fixed_cores(problem, site_of_operator)
    messages = messages_of(steps, speed)
    variabilities = _Variabilities(problem, steps, messages)
    variabilities.settle()
    sites, links = variabilities.sites(), variabilities.links()
    waits = sites.wait_s(form)
    on_links = dict(zip(variabilities.link_names, links.wait_s(form).tolist(), strict=True))
    ages_s, ways_s = _Ages(steps, messages, speed, waits, on_links, form).of_queries(len(problem.queries))
    return LatencyParts(ages_s, waits, sites.utilisation, ways_s)


def _fixed_cores(problem: Problem, site_of_operator: Sequence[int]) -> Floats:
    fixed = np.zeros(len(problem.sites))
    for members in problem.fragments:
        fixed[site_of_operator[members[0]]] += sum(problem.operators[j].fixed_cores for j in members)
    return fixed


class _Variabilities:
    """How irregularly tuples come on every arc between servers, and what that makes of the servers."""

    def __init__(self, problem: Problem, steps: Steps, messages: Messages) -> None:
        self.site_count = len(problem.sites)
        self.entries = Flows.of([e.site for e in messages.entries], [e.flow for e in messages.entries])
        self.arcs = np.array([a for a, arc in enumerate(steps.arcs) if not arc.stays], dtype=np.int64)
        arcs = [steps.arcs[a] for a in self.arcs]
        self.rate = np.array([arc.rate for arc in arcs])
        entry_of = {a: e for e, entry in enumerate(messages.entries) for a in entry.arcs}
        self.entry_of = np.array([entry_of.get(int(a), -1) for a in self.arcs], dtype=np.int64)
        self.from_site = np.array([_sender_site(arc, steps) for arc in arcs], dtype=np.int64)
        self.at_source = np.array([_at_source(arc, problem) for arc in arcs])
        self.batches = np.array([messages.batches[a] for a in self.arcs])
        self.link_names = list(dict.fromkeys(arc.link for arc in arcs if arc.link and arc.transfer_s > 0.0))
        number = {link: n for n, link in enumerate(self.link_names)}
        self.link_of = np.array(
            [number[arc.link] if arc.link and arc.transfer_s > 0.0 else -1 for arc in arcs], dtype=np.int64
        )
        self.transfer_s = np.array([arc.transfer_s for arc in arcs])
        self.sent = np.ones(len(arcs))
        """Per arc, as its producer sends."""
        self.arriving = np.ones(len(arcs))
        """Per arc, as it comes out of a link."""

    def settle(self) -> None:
        for _ in range(ROUNDS):
            before = self.arriving
            self.sent = self._leaving(self.sites())
            self.arriving = self._through(self.links())
            if np.max(np.abs(self.arriving - before), initial=0.0) <= CLOSE:
                break

    def sites(self) -> Stations:
        enters = self.entry_of >= 0
        count = len(self.entries.rate)
        rate = np.bincount(self.entry_of[enters], self.rate[enters], count)
        mixed = np.bincount(self.entry_of[enters], (self.rate * self.arriving)[enters], count)
        mean = np.where(rate > 0.0, mixed / np.where(rate > 0.0, rate, 1.0), 1.0)
        return Stations.of(self.entries._replace(arrival_variability=mean), self.site_count)

    def links(self) -> Stations:
        on = self.link_of >= 0
        flows = Flows(self.link_of[on], self.rate[on], self.transfer_s[on], np.zeros(on.sum()), self.sent[on])
        return Stations.of(flows, len(self.link_names))

    def _leaving(self, sites: Stations) -> Floats:
        """Every message brings so many tuples: they have the pace of messages, and those of one message come
        together.
        """
        rate = sites.rate[self.from_site]
        per_message = self.rate / np.where(rate > 0.0, rate, 1.0)
        paced = per_message * sites.departure_variability[self.from_site] + self.batches - per_message
        return np.where(np.isnan(self.at_source), np.where(rate > 0.0, paced, 1.0), self.at_source)

    def _through(self, links: Stations) -> Floats:
        if not len(self.link_names):
            return self.sent
        rate = links.rate[self.link_of]
        part = self.rate / np.where(rate > 0.0, rate, 1.0)
        after = part * links.departure_variability[self.link_of] + 1.0 - part
        return np.where(self.link_of >= 0, after, self.sent)


def _sender_site(arc: StepArc, steps: Steps) -> int:
    """Of what sends messages on; a stream's tuples are none yet."""
    site = steps.sites[arc.producer]
    return -1 if site is None else site


def _at_source(arc: StepArc, problem: Problem) -> float:
    """Of a stream's tuples; not a number where the producer is no stream."""
    if arc.producer >= problem.graph.stream_count:
        return float("nan")
    return 1.0 + arc.share * (arrival_variability(problem, arc.producer) - 1.0)


class _Ages:
    """How old tuples are, followed forwards from the streams; means over tuples wherever flows join."""

    def __init__(
        self,
        steps: Steps,
        messages: Messages,
        speed_cores: Floats,
        site_wait_s: Floats,
        link_wait_s: dict[Link, float],
        form: Form,
    ) -> None:
        self.steps, self.messages, self.speed = steps, messages, speed_cores
        self.link_wait_s, self.form = link_wait_s, form
        self.at_entry_s = self._at_entry(site_wait_s)

    def _at_entry(self, site_wait_s: Floats) -> dict[int, float]:
        """Per arc into a site: the wait there, also for what came with it and is served before it."""
        found: dict[int, float] = {}
        for entry in self.messages.entries:
            ahead_s = 0.0
            for a in entry.arcs:
                arc, mean_s = self.steps.arcs[a], self._seconds(entry.site, self.messages.work[a].mean)
                found[a] = float(site_wait_s[entry.site])
                if self.form == "paper":
                    found[a] += mean_s
                    continue
                together = self.messages.batches[a] if arc.transfer_s <= 0.0 else 1.0
                found[a] += ahead_s
                if together > 1.0:
                    found[a] += (together - 1.0) / 2.0 * entry.flow.service_s
                ahead_s += arc.share * mean_s
        return found

    def _seconds(self, site: int, core_seconds: float) -> float:
        if core_seconds <= 0.0:
            return 0.0
        return core_seconds / float(self.speed[site]) if self.speed[site] > 0.0 else float("inf")

    def of_queries(self, count: int) -> tuple[Floats, Floats]:
        """Per query, mean age of its results, and how much of it was the way."""
        nodes = len(self.steps.sites)
        summed, way_summed, rates = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        sums, way_sums, delivered = np.zeros(count), np.zeros(count), np.zeros(count)
        for node in self.steps.order:
            flows = rates[node] > 0.0
            born_s = summed[node] / rates[node] if flows else 0.0
            travelled_s = way_summed[node] / rates[node] if flows else 0.0
            for a in self.steps.out[node]:
                arc = self.steps.arcs[a]
                if arc.rate <= 0.0:
                    continue
                age_s = born_s + self._until_passed_on(a, arc)
                way_s = travelled_s + arc.latency_s + arc.transfer_s
                if arc.query is not None:
                    sums[arc.query] += arc.rate * age_s
                    way_sums[arc.query] += arc.rate * way_s
                    delivered[arc.query] += arc.rate
                elif arc.reader is not None and (rate := arc.rate * arc.outputs.mean) > 0.0:
                    age_s += self._until_served(a, arc)
                    rates[arc.reader] += rate
                    summed[arc.reader] += rate * age_s
                    way_summed[arc.reader] += rate * way_s
        each = np.where(delivered > 0.0, delivered, 1.0)
        return sums / each, way_sums / each

    def _until_passed_on(self, a: int, arc: StepArc) -> float:
        """From when the producer has made a tuple: what else its message has done first, and the way."""
        way_s = arc.latency_s + arc.transfer_s
        if arc.link is not None:
            way_s += self.link_wait_s.get(arc.link, 0.0) if arc.transfer_s > 0.0 else 0.0
        site = self.steps.sites[arc.producer]
        if site is None or self.form == "paper" or arc.producer < self.steps.stream_count:
            return way_s
        others = self.messages.inner[arc.producer].mean
        if arc.stays:
            group = [b for b in self.steps.out[arc.producer] if self.steps.arcs[b].group == arc.group]
            mine = (self.steps.arcs[b].share * self.messages.work[b].mean for b in group)
            others -= sum(m for b, m in zip(group, mine, strict=True) if self.steps.arcs[b].stays)
        return way_s + self._seconds(site, max(others, 0.0))

    def _until_served(self, a: int, arc: StepArc) -> float:
        """From its arrival until the reader has made something of it: given that it does make something."""
        waited_s = 0.0 if arc.stays else self.at_entry_s[a]
        if self.form == "paper":
            return waited_s
        assert arc.reader is not None
        site, send_s = self.steps.sites[arc.reader], self.steps.send_s[arc.reader]
        assert site is not None
        own = arc.work.mean + arc.covariance / arc.outputs.mean + send_s
        sisters = (arc.outputs.biased - 1.0) * (send_s + self.messages.inner[arc.reader].mean)
        return waited_s + self._seconds(site, own + sisters)
