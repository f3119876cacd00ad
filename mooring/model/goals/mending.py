"""The nearest placement that keeps the rules, or the one that breaks them least.

Annealed on what is broken, tier by tier from the heaviest, so that a lighter rule is never paid for with a
heavier one. With a running placement every move costs a little, and only so many may be made.
"""

from __future__ import annotations

import numpy as np

from mooring.arrays import Ints
from mooring.model.goals import rule_kernels
from mooring.model.goals.rule_kernels import ENOUGH
from mooring.model.goals.rules import MARGIN, TIERS, RuleBook

STEPS_PER_FRAGMENT, LEAST_STEPS, MOST_STEPS = 2_000, 20_000, 2_000_000
"""Of one tier; a placement that can be mended takes a small part of them."""
ROUNDS = 4
"""Coolings of a tier, each from the best so far."""
HOT, COLD = 0.3, 3e-4
"""Temperatures, in loads of a mean fragment."""
STAY = 1e-3
"""What all fragments away from where they run count together, in the units of the lightest tier."""


def mended(
    book: RuleBook,
    sites: Ints,
    rng: np.random.Generator,
    *,
    homes: Ints | None = None,
    most_away: int | None = None,
    steps: int | None = None,
    lightest: float = MARGIN,
) -> Ints:
    """`sites` where they keep the rules already; `homes`: where fragments run now (-1: nowhere); `lightest`:
    the tier down to which rules are kept."""
    best = book.at_home(np.array(sites, dtype=np.int64))
    if book.broken(best) == 0.0 or not len(book.free):
        return best
    if steps is None:
        steps = int(np.clip(STEPS_PER_FRAGMENT * len(book.free), LEAST_STEPS, MOST_STEPS))
    word = rng.integers(1, 2**63, size=1).astype(np.uint64)
    at_home = np.full(len(best), -1) if homes is None else np.asarray(homes, dtype=np.int64)
    stay = 0.0 if homes is None else STAY * MARGIN / max(len(best), 1)
    away = len(best) if most_away is None else most_away
    for tier in TIERS:
        if tier < lightest:
            break
        rules = book.down_to(tier)
        scale = tier * book.typical
        left, floor = book.broken(best, rules), book.least_broken(rules) * (1.0 + ENOUGH) + ENOUGH
        for _ in range(ROUNDS):
            if left <= floor:
                break
            held, found = book.held(best, rules), best.copy()
            rule_kernels.mend(
                rules, held, book.free, at_home, stay, away, HOT * scale, COLD * scale, floor,
                steps // ROUNDS, found, word,
            )  # fmt: skip
            after = book.broken(found, rules)
            if after < left:
                best, left = found, after
    return best
