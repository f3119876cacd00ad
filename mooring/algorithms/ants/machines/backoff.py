"""Back-off of leaders: the more often scouts find nothing better, the longer a leader leaves its chains
alone.

A new problem, and every move, stirs a site: then all of its chains are scouted for again at the next looks. A
site whose own capacity has changed stirs the leaders elsewhere too, which do not receive that figure.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.colony_params import UpdatingParams
from mooring.algorithms.ants.machines.running_messages import KnownColony

LOAD, FIXED = 1, 6
"""Of what a fragment adds to the totals of its site."""


class Rests:
    def __init__(self, params: UpdatingParams) -> None:
        self._params = params
        self._rest_ms: dict[int, float] = {}
        self._due_ms: dict[int, float] = {}
        self._calm: set[int] = set()
        """Chains that are scouted for, with nothing stirred since that began."""

    def is_due(self, chain: int, now_ms: float) -> bool:
        return self._due_ms.get(chain, now_ms) <= now_ms

    def begin(self, chain: int) -> None:
        self._calm.add(chain)

    def found_nothing(self, chain: int, now_ms: float) -> None:
        """Unless something was stirred meanwhile: scouts may not have seen that."""
        if chain not in self._calm:
            return
        params = self._params
        rest_ms = self._rest_ms.get(chain, params.look_ms) * params.rest_growth
        self._rest_ms[chain] = min(rest_ms, params.longest_rest_ms)
        self._due_ms[chain] = now_ms + self._rest_ms[chain]

    def stir(self) -> None:
        self._rest_ms.clear()
        self._due_ms.clear()
        self._calm.clear()


def is_stirred(before: KnownColony, now: KnownColony, share: float) -> bool:
    """Whether a site's utilisation may have changed by this share, or its latencies, or what there is to
    place."""
    if _shape(before) != _shape(now) or capacity_changed(before, now, share):
        return True
    much = share * now.facts.capacity_cores
    if any(abs(a - b) > much for a, b in zip(_loads(before), _loads(now), strict=True)):
        return True
    apart_s = [abs(a - b) for a, b in zip(before.facts.to_s, now.facts.to_s, strict=True)]
    return sum(apart_s) > share * sum(before.facts.to_s)


def capacity_changed(before: KnownColony, now: KnownColony, share: float) -> bool:
    was, is_now = before.facts.capacity_cores, now.facts.capacity_cores
    return abs(was - is_now) > share * max(was, is_now)


def _shape(known: KnownColony) -> tuple[object, ...]:
    chains = tuple((chain.number, chain.fragments, len(chain.sides)) for chain in known.chains)
    others = tuple(other.fragment for other in known.others)
    return chains, others, known.facts.neighbours, len(known.facts.to_s), known.beta


def _loads(known: KnownColony) -> Iterator[float]:
    """In cores, of every fragment and of every further flow into one."""
    for chain in known.chains:
        for task in chain.tasks:
            yield task[rules.RATE] * task[rules.WORK] + task[rules.FIXED]
        for side in chain.sides:
            yield side[rules.SIDE_RATE] * side[rules.SIDE_WORK]
    for other in known.others:
        yield other.flow[LOAD] + other.flow[FIXED]
