"""Improving a placement that runs already, where every move has to be worth its cost.

Moving a fragment pauses it, for longer the more state it has. So a move is charged in the currency of the
objective: the relative gain in value that it has to bring, growing with the state moved. The charge starts
far too high and falls until it is what the user asked for: the moves that gain most are found first, and
with few moves allowed they are the ones made. A move that later ones made superfluous is taken back on the
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mooring.algorithms.resilient.annealing import Annealer, MoveRules, movable
from mooring.algorithms.resilient.budget import Budget
from mooring.arrays import Floats, Ints
from mooring.contracts.policy import Context
from mooring.model.goals.mending import mended
from mooring.model.goals.rules import RuleBook
from mooring.model.load.model import LoadModel
from mooring.model.problem.problem import Problem
from mooring.model.rate_scenarios.objective import Objective

if TYPE_CHECKING:
    from mooring.algorithms.resilient.policy import Resilient

FIRST_WORTH = 0.3
"""A move that raises the value by a third is made whatever it costs."""
FRAGMENT_WORTH, LEAST_WORTH = 0.1, 5e-5
"""By default a move has to gain this part of a fragment's share, and at least so much. With a charge of .1%
at 10,000 fragments, six moves of twenty were made."""
ROUNDS = 24
GREED = 0.02
"""Temperature over the charge for a move: enough to get past ties, too little to move for nothing."""


def improve_running(
    policy: Resilient,
    problem: Problem,
    model: LoadModel,
    objective: Objective,
    context: Context,
    book: RuleBook,
) -> Ints:
    """The running placement after the moves that are worth it, at most `max_moves` of them. Moves that mend a
    broken rule come first, whatever they cost."""
    assert context.current is not None
    running = np.array(context.current.site_of_fragment, dtype=np.int64)
    start = np.where(model.pinned_site >= 0, model.pinned_site, running)
    free = movable(model)
    if not len(free) or not len(model.active) or model.site_count == 1:
        return start
    most = model.fragment_count if context.max_moves is None else context.max_moves
    start = mended(book, start, context.rng, homes=running, most_away=most)
    scenarios = objective.scenarios(policy.count_for(model, policy.scenarios), context.rng)
    weights = state_weights(problem, policy.state_mb)
    least = policy.move_worth
    if least is None:
        least = max(FRAGMENT_WORTH / model.fragment_count, LEAST_WORTH)
    sites = start
    budget = Budget.of(context, policy.default_steps)
    for number in range(ROUNDS):
        worth = FIRST_WORTH * (least / FIRST_WORTH) ** (number / (ROUNDS - 1))
        rules = MoveRules(free, running, worth * weights, most)
        annealer = Annealer(model, scenarios, rules, sites, context.rng, book)
        if not np.isfinite(annealer.score):
            return start  # no moves allowed carry the minimum rates
        annealer.run(GREED * worth, GREED * worth, budget.part(number / ROUNDS, (number + 1) / ROUNDS))
        context.progress((number + 1) / ROUNDS, f"moves worth {worth:.2g} each")
        sites = annealer.sites
    return max([start, sites], key=lambda plan: (-book.broken(plan), objective.judge(plan)))


def state_weights(problem: Problem, state_mb: float) -> Floats:
    """What moving each fragment costs, in moves without state."""
    state = [sum(problem.operators[j].state_bytes for j in members) for members in problem.fragments]
    return np.asarray(1.0 + np.array(state) / (state_mb * 1e6))
