"""What every leader does, at the site where chains begin: send ants, and take those that come back."""

from __future__ import annotations

from mooring.algorithms.ants.machines.chain_search import Hunt
from mooring.algorithms.ants.machines.colony_params import ColonyParams
from mooring.algorithms.ants.machines.messages import ScoutReturn
from mooring.contracts.site_machine import Effect


class Leader:
    """Of all chains that begin at one site. What it does with what scouts found is for others to say."""

    def __init__(self, params: ColonyParams) -> None:
        self._params = params
        self._hunts: dict[int, Hunt] = {}

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

    def _go_on(self, hunt: Hunt, now_ms: float) -> list[Effect]:
        """Send more ants, or go over to what comes next."""
        raise NotImplementedError
