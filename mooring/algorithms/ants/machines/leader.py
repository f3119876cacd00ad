"""Leaders: at the site where a chain begins, they send ants, choose among the reports, have the best one
enforced, and keep what is placed (sections 3.7 to 3.9).

| status    | what happened                                    | becomes                                |
| --------- | ------------------------------------------------ | -------------------------------------- |
| searching | all scouts are back or lost, one has a placement | searching: an enforcement ant goes out |
| searching | the enforcement ant has reserved every segment   | placed: sites are told to hold it      |
| searching | no report, or enforcement aborted or timed out   | searching again; in the end refused    |
| placed    | a site has no room after all, or is silent       | searching, what was held is released   |
| any       | the chain is to be placed anew                   | searching, what was held is released   |
| any       | the chain ends                                   | ended, what was held is released       |
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.algorithms.ants.machines.chain_search import Hunt
from mooring.algorithms.ants.machines.colony_params import ColonyParams
from mooring.algorithms.ants.machines.messages import (
    Aborted,
    ChainSpec,
    Enforced,
    EnforcementAnt,
    HeldChain,
    HoldChain,
    LatencyAnt,
    Led,
    NotPlaced,
    Placed,
    ReleaseChain,
    ScoutReturn,
)
from mooring.contracts.site_machine import Effect, Output, Send

HOLDS_PER_LEASE = 4


class Leader:
    """Of all chains that begin at one site."""

    def __init__(self, params: ColonyParams) -> None:
        self.led: dict[int, Led] = {}
        self._params = params
        self._hunts: dict[int, Hunt] = {}
        self._next_hold_ms: dict[int, float] = {}
        self._unanswered: dict[tuple[int, int], int] = {}
        """Chain and site -> holds without an answer."""

    def restore(self, led: Iterable[Led], now_ms: float) -> list[Effect]:
        """After a crash: what was searched for is searched for anew, what is placed is held."""
        effects: list[Effect] = []
        for each in led:
            self.led[each.chain.number] = each
            if each.status == "searching":
                effects += self._search(each.chain, now_ms)
            elif each.status == "placed":
                effects += self._hold(each, now_ms)
        return effects

    def place(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        known = self.led.get(chain.number)
        if known is not None and known.status in ("searching", "placed"):
            return []
        return self._search(chain, now_ms)

    def replace(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        """Whatever has become of it: as it is given now, it is placed anew."""
        return [*self.end(chain.number), *self._search(chain, now_ms)]

    def end(self, number: int) -> list[Effect]:
        known = self.led.get(number)
        if known is None:
            return []
        hunt = self._hunts.pop(number, None)
        self._next_hold_ms.pop(number, None)
        for segment in known.segments:
            self._unanswered.pop((number, segment.site), None)
        self.led[number] = msgspec.structs.replace(known, status="ended", segments=())
        return [*self._releases(known), *([] if hunt is None else self._abandoned(hunt))]

    def next_timer(self) -> float | None:
        hunts = (hunt.next_timer() for hunt in self._hunts.values())
        return min((at for at in (*hunts, *self._next_hold_ms.values()) if at is not None), default=None)

    def timer(self, now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        for hunt in list(self._hunts.values()):
            if hunt.phase == "enforcing":
                if hunt.enforced_by_ms is not None and hunt.enforced_by_ms <= now_ms:
                    effects += self._try_again(hunt, "an enforcement ant did not come back", now_ms)
            else:
                hunt.give_up_lost(now_ms)
                effects += self._go_on(hunt, now_ms)
        for number in [n for n, at_ms in self._next_hold_ms.items() if at_ms <= now_ms]:
            effects += self._hold(self.led[number], now_ms)
        return effects

    # Ants that come back.

    def routing_ant_back(self, chain: int, number: int, now_ms: float) -> list[Effect]:
        hunt = self._hunts.get(chain)
        if hunt is None or hunt.phase != "routing" or not hunt.came_back(number):
            return []
        return self._go_on(hunt, now_ms)

    def report(self, back: ScoutReturn, now_ms: float) -> list[Effect]:
        scout = back.scout
        hunt = self._hunts.get(scout.chain.number)
        if hunt is None or hunt.phase != "scouting" or hunt.attempt != scout.attempt:
            return []
        if not hunt.came_back(scout.number):
            return []
        hunt.note(back, self._params.ants.outstanding)
        return self._go_on(hunt, now_ms)

    def enforced(self, message: Enforced, now_ms: float) -> list[Effect]:
        hunt = self._hunts.get(message.chain)
        if hunt is None or hunt.phase != "enforcing" or hunt.attempt != message.attempt:
            return []
        del self._hunts[message.chain]
        led = Led(hunt.chain, "placed", hunt.attempt, message.segments)
        self.led[message.chain] = led
        tasks = [(s, k - s.first) for s in led.segments for k in range(s.first, s.last + 1)]
        shared = tuple(n < s.shared for s, n in tasks)
        placed = Placed(message.chain, tuple(s.site for s, _ in tasks), shared if any(shared) else ())
        return [Output(placed), *self._hold(led, now_ms)]

    def aborted(self, message: Aborted, now_ms: float) -> list[Effect]:
        hunt = self._hunts.get(message.chain)
        if hunt is None or hunt.phase != "enforcing" or hunt.attempt != message.attempt:
            return []
        return self._try_again(hunt, message.reason, now_ms)

    def held(self, sender: int, message: HeldChain, now_ms: float) -> list[Effect]:
        led = self.led.get(message.chain)
        if led is None or led.status != "placed" or led.attempt != message.attempt:
            return []
        self._unanswered[message.chain, sender] = 0
        return [] if message.fits else self._place_anew(led, now_ms)

    def latency_ant(self, number: int) -> list[Effect]:
        led = self.led.get(number)
        if led is None or led.status != "placed":
            return []
        return [Send(led.segments[0].site, LatencyAnt(led.chain, led.attempt, led.segments, 0))]

    # What a leader does.

    def _search(self, chain: ChainSpec, now_ms: float) -> list[Effect]:
        known = self.led.get(chain.number)
        hunt = Hunt(chain, 1 if known is None else known.attempt + 1)
        return self._begin(hunt, now_ms)

    def _begin(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        self._hunts[hunt.chain.number] = hunt
        self.led[hunt.chain.number] = Led(hunt.chain, "searching", hunt.attempt)
        hunt.begin(self._params)
        return self._go_on(hunt, now_ms)

    def _go_on(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        """Send more ants, or go over to what comes next."""
        effects, over = hunt.go_on(self._params, now_ms)
        if not over:
            return effects
        if hunt.best is None:
            return [*effects, *self._try_again(hunt, hunt.trouble, now_ms)]
        hunt.phase, hunt.enforced_by_ms = "enforcing", now_ms + self._params.ant_ms
        ant = EnforcementAnt(hunt.chain, hunt.attempt, self._params.ants.most_limit, hunt.segments, 0)
        return [*effects, Send(hunt.segments[0].site, ant)]

    def _try_again(self, hunt: Hunt, trouble: str, now_ms: float) -> list[Effect]:
        released = self._abandoned(hunt)
        if hunt.tries < self._params.attempts:
            again = Hunt(hunt.chain, hunt.attempt + 1, hunt.tries + 1)
            return [*released, *self._begin(again, now_ms)]
        number, reason = hunt.chain.number, f"after {hunt.tries} attempts: {trouble}"
        del self._hunts[number]
        self.led[number] = Led(hunt.chain, "refused", hunt.attempt, (), reason)
        return [*released, Output(NotPlaced(number, reason))]

    def _abandoned(self, hunt: Hunt) -> list[Effect]:
        """Nothing that this attempt may have reserved is needed."""
        if hunt.phase != "enforcing":
            return []
        return [Send(site, ReleaseChain(hunt.chain.number, hunt.attempt)) for site in hunt.sites()]

    def _releases(self, led: Led) -> list[Effect]:
        return [Send(s.site, ReleaseChain(led.chain.number, led.attempt)) for s in led.segments]

    def _hold(self, led: Led, now_ms: float) -> list[Effect]:
        """Renew the leases of what is placed; a site that was silent for a whole lease is given up."""
        number = led.chain.number
        counts = [self._unanswered.get((number, segment.site), 0) for segment in led.segments]
        if max(counts, default=0) >= HOLDS_PER_LEASE:
            return self._place_anew(led, now_ms)
        for segment, count in zip(led.segments, counts, strict=True):
            self._unanswered[number, segment.site] = count + 1
        self._next_hold_ms[number] = now_ms + self._params.lease_ms / (HOLDS_PER_LEASE + 1)
        return [Send(s.site, HoldChain(led.chain, led.attempt, s)) for s in led.segments]

    def _place_anew(self, led: Led, now_ms: float) -> list[Effect]:
        number = led.chain.number
        self._next_hold_ms.pop(number, None)
        for segment in led.segments:
            self._unanswered.pop((number, segment.site), None)
        return [*self._releases(led), *self._search(led.chain, now_ms)]
