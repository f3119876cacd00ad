"""What a list of moves saves and harms, by what is known of a run: the currency in which guards weigh moves.

Three things are counted: time over limits, tuples under way, and bytes in flight. Sites that are too full and
queries that are late are mended or not, and that is never weighed. Everything else is a gain: the tuples or
bytes that are saved, held against those of the queries that the moves touch, at the rates as they likely are
and as low as they may be. So in a run of a thousand sites a move has to be worth it where it is made, and not
to show in the sum over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from mooring.arrays import Bools, Floats
from mooring.contracts.decider import Proposal
from mooring.contracts.picture import ROOM, Picture
from mooring.model.deployment.move_times import MoveTimes, fragment_pause_s

Kind = Literal["tuples", "bytes"]
LONGER = 0.1
"""What bytes are saved for: latencies may become longer by this part of the share that is saved."""
_LEAST_CORES = 1e-3
_LEAST_MS = 1.0


@dataclass(frozen=True)
class Gain:
    """Of one kind."""

    kind: Kind
    saved: float
    """Under way at any time before the moves, and not after them; negative: more are."""
    surely: float
    """The same at rates as low as they may be."""
    touched: float
    """Under way before, of the queries that the moves touch."""
    touched_low: float
    cost: float
    """Tuple-seconds, or byte-seconds, that wait while fragments stand still."""

    @property
    def share(self) -> float:
        return self.saved / max(self.touched, 1e-300)


class MoveEffect:
    """Of a proposal's moves, from where the picture has its fragments."""

    def __init__(self, proposal: Proposal, picture: Picture) -> None:
        self._proposal, self.picture = proposal, picture
        problem = picture.problem
        rows = {name: f for f, name in enumerate(problem.fragment_names)}
        self.moved = [rows[each.move.fragment] for each in proposal.moves]
        self.sites = picture.sites.copy()
        for f, each in zip(self.moved, proposal.moves, strict=True):
            self.sites[f] = problem.site_index[each.move.to_site]

    @cached_property
    def touched(self) -> Bools:
        """Fragments of the queries that the moved ones are part of."""
        moved = np.zeros(self.picture.model.fragment_count, dtype=bool)
        moved[self.moved] = True
        return self.picture.queries_with(moved)

    @cached_property
    def _beside(self) -> Bools:
        """The same with the queries that pass the sites at both ends: they wait in the same queues."""
        sites = self.picture.sites
        ends = [*sites[self.moved].tolist(), *self.sites[self.moved].tolist()]
        return self.picture.queries_with(np.isin(sites, ends) | self.touched)

    # What is broken

    @cached_property
    def mends(self) -> bool:
        """It relieves sites that are too full, or queries that are late, of some of that."""
        if self._relieves:
            return True
        late, later = self._late_ms
        return self._relieved_cores > -_LEAST_CORES and late - later > _LEAST_MS

    @cached_property
    def _relieves(self) -> bool:
        before, after = self._excess_cores
        return self._relieved_cores > _LEAST_CORES and after.max() <= max(before.max(), 1e-12)

    @property
    def _relieved_cores(self) -> float:
        before, after = self._excess_cores
        return float(before.sum() - after.sum())

    @cached_property
    def _excess_cores(self) -> tuple[Floats, Floats]:
        return self.picture.excess_cores(self.picture.sites), self.picture.excess_cores(self.sites)

    @cached_property
    def _late_ms(self) -> tuple[float, float]:
        """Over limits before and after, of all queries: as measured, or as predicted if that is more."""
        before, after = self._proposal.now.latency_ms, self._proposal.predicted.latency_ms
        total = [0.0, 0.0]
        for query in self.picture.problem.queries:
            now, then = before.get(query.name), after.get(query.name)
            if query.max_latency_ms is None or now is None or then is None:
                continue
            over = max(now - query.max_latency_ms, self.picture.late_ms.get(query.name, -np.inf))
            total[0] += max(0.0, over)
            total[1] += max(0.0, over + then - now)
        return total[0], total[1]

    @cached_property
    def harm(self) -> str:
        """Why nobody may make these moves, whatever they save; empty if nothing speaks against them."""
        model, picture = self.picture.model, self.picture
        before, after = (model.site_loads(at, picture.rates) for at in (picture.sites, self.sites))
        more, capacity = after - before > _LEAST_CORES, model.capacity_cores
        over = [np.maximum(loads - capacity, 0.0) for loads in (before, after)]
        worst = float((before / capacity).max())
        for s in np.flatnonzero(more & (after > capacity)).tolist():
            name = picture.problem.sites[s].name
            if before[s] > capacity[s]:
                return f"it would add {after[s] - before[s]:.2f} cores to site {name}, which is overloaded"
            if after[s] / capacity[s] >= worst or over[1].sum() >= over[0].sum():
                return f"it would overload site {name}: {after[s]:.2f} of {capacity[s]:.2f} cores"
        # Behind a site that is too full, rows wait longer than any way takes.
        late, later = self._late_ms
        if later - late > _LEAST_MS and not self._relieves:
            return f"it would bring queries {later - late:,.0f} ms further over their limits"
        return ""

    @cached_property
    def crowds(self) -> str:
        """Which site it leaves less room than there should be, for something that only improves."""
        model, picture = self.picture.model, self.picture
        before, after = (ROOM * model.site_loads(at, picture.rates) for at in (picture.sites, self.sites))
        short = (after - before > _LEAST_CORES) & (after > model.capacity_cores)
        for s in np.flatnonzero(short).tolist():
            left = ROOM * model.capacity_cores[s] / after[s]
            return f"it would leave site {picture.problem.sites[s].name} a headroom of x {left:.2f}"
        return ""

    # What improves

    @property
    def longer(self) -> float:
        """Tuples that more are under way afterwards, over those of the touched queries: what of latencies a
        saving of bytes costs."""
        picture = self.picture
        more = picture.tuples_under_way(self.sites) - picture.tuples_under_way(picture.sites)
        return max(0.0, more) / max(picture.tuples_under_way(picture.sites, self.touched), 1e-300)

    def gains(self, times: MoveTimes) -> list[Gain]:
        return [gain for gain in (self._tuples(times), self._bytes(times)) if gain is not None]

    def _tuples(self, times: MoveTimes) -> Gain:
        """As its decider predicts it, whether rows wait in queues or in batches; which part of what is under
        way the touched queries have, and how sure it is, by queues.
        """
        picture, low = self.picture, self.picture.at_low_rates
        before, after = self._proposal.now.tuples_under_way, self._proposal.predicted.tuples_under_way
        whole = picture.tuples_under_way(picture.sites)
        if before is None or after is None:
            before, after = whole, picture.tuples_under_way(self.sites)
        part = picture.tuples_under_way(picture.sites, self._beside) / max(whole, 1e-300)
        surely = low.tuples_under_way(low.sites) - low.tuples_under_way(self.sites)
        touched_low = low.tuples_under_way(low.sites, self._beside)
        waited = sum(float(picture.input_rates[f]) * self._pause_s(f, times) ** 2 for f in self.moved)
        return Gain("tuples", before - after, surely, part * before, touched_low, waited)

    def _bytes(self, times: MoveTimes) -> Gain | None:
        picture, low = self.picture, self.picture.at_low_rates
        before, after = picture.bytes_in_flight(picture.sites), picture.bytes_in_flight(self.sites)
        if before is None or after is None:
            return None
        low_before, low_after = low.bytes_in_flight(low.sites), low.bytes_in_flight(self.sites)
        touched, low_touched = (seen.bytes_in_flight(seen.sites, self.touched) for seen in (picture, low))
        waited = sum(picture.bytes_into(f) * self._pause_s(f, times) ** 2 for f in self.moved)
        surely = (low_before or 0.0) - (low_after or 0.0)
        return Gain("bytes", before - after, surely, touched or 0.0, low_touched or 0.0, waited)

    def _pause_s(self, fragment: int, times: MoveTimes) -> float:
        to = self.picture.problem.sites[self.sites[fragment]].name
        return fragment_pause_s(self.picture.problem, fragment, times, to)
