"""The briefing of the sites of an overlay: shared operators, their needs, and the latencies of queries.

A query's latency is the median of the last few looks, each of which is a mean over a few batches, so one slow
batch is no broken limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from mooring.algorithms.overlay.leases.adaptation_messages import (
    CapacityMeasured,
    OperatorsMeasured,
    QueryMeasured,
    Unsatisfied,
)
from mooring.algorithms.overlay.leases.lease_messages import AskOperators, KnownOperators
from mooring.algorithms.overlay.requests import NO_LIMIT_MS, OverlayRequests
from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.contracts.decider import Decider, Observation, Prediction
from mooring.contracts.picture import Picture
from mooring.contracts.policy import Context
from mooring.contracts.site_machine import Data
from mooring.coordination.briefing import Briefing, Told, saves_nothing, stated_latencies
from mooring.coordination.move_messages import Proposed, StartedAt, StatedLatencies
from mooring.model.problem.problem import Problem

TOLD_AT_ONCE = 500
"""Operators in one message: agents refuse messages that are too large."""
THRESHOLD = 0.95
"""The share of a site's capacity that plans use at the most."""
SENT_AGAIN = 0.05
"""Share by which a load, a rate or a capacity has to differ from what was last told, to be told again."""
RECALLED_LOOKS = 12
"""For which it is told that there is no plan: machines say it again every 30 s for as long as it is so."""
RECENT_LOOKS = 3
"""Over which the median of a query's latency is taken."""

_Figures = Mapping[int, tuple[float, ...]]
_NOTHING: _Figures = {}


class _News(NamedTuple):
    """What sites are told of operators at a look, and all that they have been told before and after it."""

    before: _Figures
    after: _Figures
    messages: Sequence[OperatorsMeasured]


class OverlayBriefing:
    trigger_s = 0.0
    belonging = None
    draws = False

    def __init__(self, problem: Problem, states_latency: bool = False) -> None:
        """`states_latency`: the sites go by the problem's latencies, not by what they measure."""
        self._problem, self._states_latency = problem, states_latency
        self._known: _Known | None = None
        self._told: dict[tuple[int, int], tuple[float, ...]] = {}
        """By site and -1 for the site itself, -2 for its latencies: what it was told last."""
        self._operators_told: dict[int, _Figures] = {}
        """By site, and then by operator."""
        self._latency_ms: dict[int, deque[float]] = {
            q: deque(maxlen=RECENT_LOOKS) for q in range(len(problem.queries))
        }

        self._looks = 0
        self._unsatisfied: dict[tuple[int, int], tuple[str, int]] = {}
        """By site and query, -1 for the site itself: why there is no plan, and when that was said."""

    def answers(self, site: int, question: Data) -> Sequence[Data] | None:
        if isinstance(question, Unsatisfied):
            if question.query < len(self._problem.queries):  # others stand for results that nobody reads
                self._unsatisfied[site, question.query] = question.reason, self._looks
            return ()
        return self.basics(site) if isinstance(question, AskOperators) else None

    def remark(self) -> str:
        lately = {
            who: why for who, (why, look) in self._unsatisfied.items() if look > self._looks - RECALLED_LOOKS
        }
        queries, sites = self._problem.queries, self._problem.sites
        return "; ".join(
            f"query {queries[query].name}: {why}"
            if query >= 0
            else f"site {sites[site].name} is over its threshold, and no stored plan relieves it"
            for (site, query), why in sorted(lately.items())
        )

    def basics(self, site: int) -> Sequence[Data]:
        """Nothing as long as nothing was measured: a machine asks again, and one that knows operators hears
        at the next look what has become of them.
        """
        known = self._known
        if known is None:
            return ()
        for key in (-1, -2):
            self._told.pop((site, key), None)
        self._operators_told.pop(site, None)
        told: list[Data] = [*self._latencies(self._problem, site)]
        told += [
            KnownOperators(
                part,
                len(known.parts),
                operators,
                float(known.usable_cores[site]),
                float(known.memory_mb[site]),
                self._problem.network.channel_ms,
            )
            for part, operators in enumerate(known.parts)
        ]
        return told

    def requests(
        self, observation: Observation, picture: Picture, where: Mapping[int, StartedAt]
    ) -> Iterable[Told]:
        """What operators read, send and need, to all, since all plan with them; to each site what it can
        give; to the site that a query ends at how long that takes. One that is lost, or kept empty, has
        nothing to give; its machine may well be there.
        """
        self._looks += 1
        self._known = known = _Known(picture)
        lost = picture.lost[: len(self._problem.sites)]
        known.usable_cores[: len(lost)][lost] = 0.0
        sites = dict.fromkeys(np.flatnonzero(~lost).tolist())
        alike: dict[int, _News] = {}
        for site in np.flatnonzero(lost).tolist():
            if self._is_news((site, -1), (0.0,)):
                yield site, CapacityMeasured(0.0, lost=True)
        for site in sites:
            for stated in self._latencies(picture.problem, site):
                if self._is_news((site, -2), stated.latency_ms):
                    yield site, stated
            usable = float(known.usable_cores[site])
            if self._is_news((site, -1), (usable,)):
                yield site, CapacityMeasured(usable)
            for message in self._operator_news(site, known.operators, alike):
                yield site, message
        for q, query in enumerate(self._problem.queries):
            report, seen = observation.measured.queries.get(query.name), self._latency_ms[q]
            if report is not None and report.mean_latency_ms is not None:
                seen.append(report.mean_latency_ms)
            end = self._problem.site_index[query.site]
            if len(seen) == RECENT_LOOKS and end in sites:
                yield end, QueryMeasured(q, median(seen))

    def _latencies(self, problem: Problem, site: int) -> Sequence[StatedLatencies]:
        return stated_latencies(problem, site, len(self._problem.sites)) if self._states_latency else ()

    def _operator_news(
        self, site: int, operators: Sequence[SharedOperator], alike: dict[int, _News]
    ) -> Sequence[OperatorsMeasured]:
        """Nearly all sites have been told the same, so what is news is worked out once for all of them;
        `alike` has it by what they were told."""
        told = self._operators_told.get(site, _NOTHING)
        if id(told) not in alike:
            now = {own.operator: (own.cores, own.tuples, own.output_rate) for own in operators}
            news = [own for own in operators if _differs(told.get(own.operator), now[own.operator])]
            told_now = {**told, **{own.operator: now[own.operator] for own in news}} if news else told
            messages = [OperatorsMeasured(part) for part in _parts(news)]
            alike[id(told)] = _News(told, told_now, messages)
        self._operators_told[site] = alike[id(told)].after
        return alike[id(told)].messages

    def _is_news(self, key: tuple[int, int], figures: tuple[float, ...]) -> bool:
        if not _differs(self._told.get(key), figures):
            return False
        self._told[key] = figures
        return True

    def objection(self, proposed: Proposed, before: Prediction, after: Prediction) -> str | None:
        return saves_nothing(proposed, before, after)


def _differs(told: tuple[float, ...] | None, figures: tuple[float, ...]) -> bool:
    if told is None:
        return True
    pairs = zip(figures, told, strict=True)
    return not all(abs(now - before) <= SENT_AGAIN * abs(before) for now, before in pairs)


class _Known:
    """Operators as sites share them, with what is measured."""

    def __init__(self, picture: Picture) -> None:
        problem = picture.problem
        context = Context(picture.model, np.random.default_rng(0), current=picture.placement)
        asked = OverlayRequests(problem, context, THRESHOLD, counts_ends=True)
        limits_ms = [query.max_latency_ms for query in problem.queries]
        rates = picture.input_rates.tolist()
        self.operators = [
            _as_told(own.operator, limits_ms, rates[own.operator.operator]) for _, own in asked.hosted()
        ]
        self.parts = _parts(self.operators)
        self.usable_cores, self.memory_mb = asked.usable_cores, asked.memory_mb


def _parts(operators: Sequence[SharedOperator]) -> list[tuple[SharedOperator, ...]]:
    """As many as fit into one message."""
    starts = range(0, len(operators), TOLD_AT_ONCE)
    return [tuple(operators[first : first + TOLD_AT_ONCE]) for first in starts]


def _as_told(own: SharedOperator, limits_ms: Sequence[float | None], tuples: float) -> SharedOperator:
    """With the limits as they are stated: what is measured is held against them whether or not anybody knows
    the network.
    """

    def limit_ms(query: int) -> float:
        stated = limits_ms[query] if query < len(limits_ms) else None
        return NO_LIMIT_MS if stated is None else stated

    ends = tuple(msgspec.structs.replace(end, limit_ms=limit_ms(end.query)) for end in own.ends)
    return msgspec.structs.replace(own, ends=ends, tuples=tuples)


def overlay_briefing(problem: Problem, stand_in: Decider | None, states_latency: bool) -> Briefing:
    return OverlayBriefing(problem, states_latency)
