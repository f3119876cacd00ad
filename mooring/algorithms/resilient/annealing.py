"""Simulated annealing of a plan on its scenarios, in short stretches so that a deadline is kept.

Temperatures are relative changes of the value, so one schedule fits plans that reach a thousandth of the
ideal set and plans that reach nearly all of it. The schedule follows the part of the budget that is used
up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mooring.algorithms.resilient import search_kernels
from mooring.algorithms.resilient.budget import Used
from mooring.arrays import Floats, Ints
from mooring.model.goals.rules import RuleBook
from mooring.model.load.model import LoadModel
from mooring.model.rate_scenarios.scenarios import ArcIndex, Scenarios

STRETCH_STEPS = 20_000
FIRST_STRETCH_STEPS = 500
STRETCHES = 40
"""Against a clock a stretch takes about this part of a cooling, so that the budget is hardly overrun."""
STRETCH_ACCEPTED = 400
SWAP_SHARE = 0.6
ALIKE_SHARE, ALIKE_REACH = 0.3, 6
"""The share of candidates that swap a fragment with one of its nearest in `movable`'s order: when it is cold,
only small changes have a chance, and among all swaps few are small."""
PROBE_STEPS = 400


def movable(model: LoadModel) -> Ints:
    """Fragments that may move, by the variable they load most and how much: neighbours are alike."""
    free = np.flatnonzero(model.pinned_site < 0)
    active = model.active
    if not len(free) or not len(active):
        return free
    parts = csr_array(model.coefficients[free][:, active] * (1.0 / model.totals[active]))
    return free[np.lexsort((np.asarray(parts.sum(axis=1)), np.asarray(parts.argmax(axis=1))))]


@dataclass(frozen=True, eq=False)
class MoveRules:
    """Which changes the search may make."""

    free: Ints
    """Fragments that may move, alike ones beside each other (`movable`)."""
    homes: Ints
    """Where each fragment runs now; -1: nowhere yet."""
    cost: Floats
    """Per fragment, what leaving home costs: the relative gain in value that it has to be worth."""
    max_moves: int
    """The most fragments away from home."""

    @classmethod
    def fresh(cls, model: LoadModel) -> MoveRules:
        fragments = model.fragment_count
        return cls(movable(model), np.full(fragments, -1), np.zeros(fragments), fragments)

    def penalty(self, site_of_fragment: Ints) -> float:
        away = (self.homes >= 0) & (site_of_fragment != self.homes)
        return float(self.cost[away].sum())

    def moves_left(self, site_of_fragment: Ints) -> int:
        return self.max_moves - int(((self.homes >= 0) & (site_of_fragment != self.homes)).sum())


class Annealer:
    """One plan under improvement on one set of scenarios."""

    def __init__(
        self,
        model: LoadModel,
        scenarios: Scenarios,
        rules: MoveRules,
        start: Ints,
        rng: np.random.Generator,
        book: RuleBook | None = None,
    ) -> None:
        self._book = RuleBook(model) if book is None else book
        self._model, self._scenarios, self._rules = model, scenarios, rules
        self._arcs = ArcIndex.build(model)
        self._word = rng.integers(1, 2**63, size=1).astype(np.uint64)
        self.sites = np.array(start, dtype=np.int64)
        used = np.bincount(self.sites, model.memory_mb, model.site_count)
        self._held = self._book.held(self.sites)
        self._memory_left = model.memory_limit_mb - used
        self._reference = np.float32(1.0)
        self.score = -np.inf
        self.best = self.sites.copy()
        self.best_score = -np.inf
        self.steps = 0
        self.stretch(0, 1.0)

    def stretch(self, steps: int, temperature: float) -> int:
        """Anneal for so many steps at most; returns how many it took. Scores are logarithms of worth."""
        paid = self._rules.penalty(self.sites)
        scale = self._scenarios.exponent * float(np.log(self._reference)) + paid
        known = float(np.exp(self.best_score + scale)) if np.isfinite(self.best_score) else 0.0
        value, worth, taken, _ = self._kernel(steps, temperature, known)
        self.steps += taken
        if value > 0.0:
            self.score = float(np.log(value)) - scale + paid - self._rules.penalty(self.sites)
            if worth != known:  # less only where rules are kept that were broken before
                self.best_score = float(np.log(worth)) - scale
            # Keep the kernel's numbers near one, whatever part of the ideal set the plan reaches.
            self._reference = np.float32(self._reference * value ** (-1.0 / self._scenarios.exponent))
        return taken

    def acceptance(self, temperature: float) -> float:
        """The share of candidates accepted at a temperature; the plan is left somewhere else."""
        value, _, taken, accepted = self._kernel(PROBE_STEPS, temperature, np.inf)
        return accepted / taken if taken and value > 0.0 else 0.0

    def _kernel(self, steps: int, temperature: float, known: float) -> tuple[float, float, int, int]:
        s, rules = self._scenarios, self._rules
        value, worth, taken, accepted = search_kernels.anneal(
            self._book.rules, self._held, s.rows, s.base, s.weights, s.exponent, self._reference, s.capacity,
            self._arcs.start, self._arcs.of, self._arcs.ends, rules.free, rules.homes, rules.cost,
            rules.moves_left(self.sites), self._model.memory_mb, self._memory_left, self.sites,
            SWAP_SHARE, ALIKE_SHARE, ALIKE_REACH, temperature, steps, STRETCH_ACCEPTED, self._word,
            self.best, known,
        )  # fmt: skip
        return float(value), float(worth), int(taken), int(accepted)

    def run(
        self, hot: float, cold: float, used: Used, report: Callable[[float], None] = lambda part: None
    ) -> None:
        """Cool from hot to cold while the part of its budget that is used goes from 0 to 1; that is
        reported."""
        begun = self.steps
        if len(self._rules.free) == 0 or not np.isfinite(self.score):
            return
        most = FIRST_STRETCH_STEPS if used.steps is None else min(STRETCH_STEPS, used.steps // 20 + 1)
        part = used(0)
        while part < 1.0:
            temperature = hot * (cold / hot) ** part
            taken = self.stretch(most, temperature)
            if taken == 0:
                return
            before, part = part, used(self.steps - begun)
            report(min(part, 1.0))
            if used.steps is None:
                wanted = taken / max((part - before) * STRETCHES, 1e-9)
                most = int(np.clip(wanted, FIRST_STRETCH_STEPS, STRETCH_STEPS))
