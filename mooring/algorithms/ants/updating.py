"""A colony that goes on while queries run (section 3.9 of the ants paper): again and again leaders have their
chains scouted for, and a chain moves where its latency is beta times that of the best report and the pause is
made up for.

Pheromones stay from one time to the next; rates, capacities, latencies and queries may be others each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.algorithms.ants.ant_params import AntParams
from mooring.algorithms.ants.colony import ChainChange, ColonyRun
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.trails import KeptTrails
from mooring.arrays import Floats, Ints


@dataclass
class Updating:
    params: AntParams
    neighbours: Sequence[Sequence[int]]
    seed: int
    routing_ants: int = 10
    """Per chain and time."""
    scouts: int = 30
    """Fewer than the first time: there is another time."""
    most_chains: int = 500
    """That are scouted for at a time, one after the other: a look must not take longer than what it is
    about."""
    horizon_s: float = 600.0
    """The time over which a move has to make up for its pauses."""
    sent_bytes: float = 0.0
    """By all ants so far."""
    steps: Counter[str] = field(default_factory=Counter)
    """From site to site, so far."""
    _trails: KeptTrails | None = field(default=None, init=False)
    """As ants left them the last time."""
    _sent: int = field(default=0, init=False)
    _turn: int = field(default=0, init=False)
    """The chain that is next."""

    def look(self, search: LatencySearch, sites: Ints, pause_s: Floats) -> list[ChainChange]:
        """Chains that would move, each given those before it; the largest gain first. Of very many chains,
        some after the others' turn.

        sites: per fragment, where it runs; pause_s: per fragment, how long it would stand still.
        """
        run = ColonyRun(
            search,
            self.params,
            self.neighbours,
            self.seed,
            sites.copy(),
            is_running=True,
            trails=self._trails,
        )
        run.ants[:] = self._sent
        for number in range(len(search.chains)):
            run.adopt(number)
        changes: list[ChainChange] = []

        def allows(change: ChainChange) -> bool:
            if not self.is_worth_its_pause(change, pause_s):
                return False
            changes.append(change)
            return True

        count = len(search.chains)
        for n in range(min(count, self.most_chains)):
            run.improve((self._turn + n) % count, self.routing_ants, self.scouts, allows)
        self._turn = (self._turn + self.most_chains) % count if count > self.most_chains else 0
        self._trails, self._sent = run.trails, self._sent + self.routing_ants + self.scouts
        self.sent_bytes += float(run.colony.sent_bytes.sum())
        for kind, steps in zip(("routing ants", "scouts"), run.colony.steps.tolist(), strict=True):
            self.steps[kind] += steps
        return sorted(
            (change for change in changes if not np.array_equal(change.before, change.after)),
            key=lambda change: change.then_s - change.now_s,
        )

    def is_worth_its_pause(self, change: ChainChange, pause_s: Floats) -> bool:
        """What comes while a fragment stands still waits half of that on average, and as long again until
        the backlog is gone."""
        own_s = pause_s[list(change.chain.fragments)]
        waited = float((change.chain.weights * own_s**2)[change.before != change.after].sum())
        return (change.now_s - change.then_s) * self.horizon_s >= waited
