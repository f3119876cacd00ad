"""A leader's search for the sites of one chain: ants that are under way, and what they have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from mooring.algorithms.ants.machines.colony_params import ColonyParams
from mooring.algorithms.ants.machines.messages import ChainSpec, ScoutReturn, Segment
from mooring.algorithms.ants.machines.routing import new_routing_ant
from mooring.algorithms.ants.machines.scouting import new_scout, reported
from mooring.contracts.site_machine import Effect, Send

Phase = Literal["routing", "scouting", "enforcing"]


@dataclass
class Hunt:
    """One attempt after the other; all of it is lost in a crash, and begun anew."""

    chain: ChainSpec
    attempt: int
    tries: int = 1
    phase: Phase = "routing"
    next_ant: int = 0
    back: int = 0
    under_way: dict[int, float] = field(default_factory=dict)
    """Ant -> when it counts as lost."""
    best: float | None = None
    segments: tuple[Segment, ...] = ()
    is_outstanding: bool = False
    most_in_vain: int | None = None
    """Scouts in a row that found nothing better, after which no more are sent; None: all are. Where none
    found any way by then, as many more go, up to the highest limit of load and past no site."""
    in_vain: int = 0
    enforced_by_ms: float | None = None
    trouble: str = "no scout came back"

    def begin(self, params: ColonyParams) -> None:
        """Ants are numbered through all attempts: each has a generator of its own."""
        self.next_ant = (self.attempt - 1) * (params.ants.routing_ants + params.ants.scouts)
        self.phase = "routing"
        if self.chain.source == self.chain.destination:
            self._begin_scouting(params)

    def _begin_scouting(self, params: ColonyParams) -> None:
        self.phase, self.back, self.under_way = "scouting", 0, {}
        first = (self.attempt - 1) * (params.ants.routing_ants + params.ants.scouts)
        self.next_ant = first + params.ants.routing_ants

    def _last_ant(self, params: ColonyParams) -> int:
        """Of this phase, and one beyond."""
        first = (self.attempt - 1) * (params.ants.routing_ants + params.ants.scouts)
        more = params.ants.scouts if self.phase == "scouting" else 0
        return first + params.ants.routing_ants + more

    def send(self, params: ColonyParams, now_ms: float) -> list[Effect]:
        """As many ants as may be under way at once."""
        sent: list[Effect] = []
        while len(self.under_way) < params.at_once and self.next_ant < self._last_ant(params):
            chain, number = self.chain, self.next_ant
            if self.phase == "routing":
                sent.append(Send(chain.source, new_routing_ant(chain, number, params.seed)))
            else:
                scout = new_scout(chain, self.attempt, number, params.seed, params.ants)
                if self.best is None and self._found_nothing_in(self.most_in_vain):
                    limit = params.ants.most_limit
                    scout = msgspec.structs.replace(scout, limit=limit, skipped=0.0)
                sent.append(Send(chain.source, scout))
            self.under_way[number] = now_ms + params.ant_ms
            self.next_ant += 1
        return sent

    def came_back(self, number: int) -> bool:
        """False if nobody waits for this ant any more."""
        if self.under_way.pop(number, None) is None:
            return False
        self.back += 1
        return True

    def ended(self, number: int) -> bool:
        """An ant goes no further; False if nobody waits for it any more."""
        self.in_vain += self.phase == "scouting" and number in self.under_way
        return self.came_back(number)

    def give_up_lost(self, now_ms: float) -> None:
        for number in [n for n, lost_ms in self.under_way.items() if lost_ms <= now_ms]:
            del self.under_way[number]

    def note(self, report: ScoutReturn, outstanding: float) -> None:
        """Keep the best report; one that hardly costs others anything is taken at once."""
        cost, effect = reported(report)
        self.in_vain += 1
        if self.best is None or cost < self.best:
            self.best, self.segments, self.in_vain = cost, report.scout.segments, 0
        if outstanding > 0.0 and effect <= outstanding * (cost - effect):
            self.is_outstanding = True

    def is_over(self, params: ColonyParams) -> bool:
        """This phase: all ants are sent, and enough are back, or nobody is waited for."""
        if self.phase == "scouting" and (self.is_outstanding or self._is_confirmed(params.at_once)):
            return True
        if self.next_ant < self._last_ant(params):
            return False
        wanted = params.ants.routing_ants if self.phase == "routing" else params.ants.scouts
        return not self.under_way or (params.enough < 1.0 and self.back >= params.enough * wanted)

    def _is_confirmed(self, at_once: int) -> bool:
        """Those that were under way when others were to go up to the limits do not count."""
        most = self.most_in_vain
        if most is not None and self.best is None:
            most = 2 * most + at_once
        return self._found_nothing_in(most)

    def _found_nothing_in(self, many: int | None) -> bool:
        return many is not None and self.in_vain >= many

    def go_on(self, params: ColonyParams, now_ms: float) -> tuple[list[Effect], bool]:
        """Sends more ants, scouts after those that learn the ways; and says whether all that was wanted is
        back.
        """
        sent = self.send(params, now_ms)
        if self.is_over(params) and self.phase == "routing":
            self._begin_scouting(params)
            sent += self.send(params, now_ms)
        return sent, self.is_over(params)

    def next_timer(self) -> float | None:
        if self.phase == "enforcing":
            return self.enforced_by_ms
        return min(self.under_way.values(), default=None)

    def sites(self) -> Sequence[int]:
        return [segment.site for segment in self.segments]
