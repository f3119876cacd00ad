"""Which placement a run begins with: the one asked for, the one the last run had, or a new plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mooring.controller.apply import resume, settle
from mooring.controller.journal import Journal
from mooring.errors import InputError
from mooring.load.build import build_load_model
from mooring.placement.admission import require_all_queries
from mooring.placement.checker import violations
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem
from mooring.run import evaluate, plan


@dataclass(frozen=True)
class Wish:
    """What was asked for; with nothing asked, the last run is resumed or its policy plans anew."""

    default_policy: str
    """Of the project, where no other is asked for."""
    policy: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    placement: Callable[[Problem], Placement] | None = None
    """Gives the placement to run, once the problem is known."""
    placement_name: str = ""
    seed: int = 0
    fresh: bool = False
    """Nothing of an earlier run counts."""

    @property
    def resumes(self) -> bool:
        return not (self.policy or self.settings or self.placement is not None or self.fresh)

    def replan(self, problem: Problem) -> Placement:
        """By the policy of this run, whatever it began with: for what faults leave of the problem."""
        return plan(
            problem, self.policy or self.default_policy, seed=self.seed, settings=self.settings
        ).placement


@dataclass(frozen=True)
class Beginning:
    """A placement to begin with, and what there is to say of it."""

    placement: Placement
    policy: str
    """Who made it, in words."""
    metrics: Mapping[str, object]
    why: tuple[str, ...]


def begin(
    problem: Problem, journal: Journal, wish: Wish, note: Callable[[str], None] = lambda line: None
) -> Beginning:
    """`note` is called where the last placement no longer fits."""
    if wish.placement is not None:
        given = wish.placement(problem)
        require_all_queries(given, "the placement")
        return Beginning(given, wish.placement_name, evaluate(problem, given), ("given by the user",))
    if wish.resumes and (resumed := _resumed(problem, journal, note)) is not None:
        return resumed
    policy = wish.policy or wish.default_policy
    made = plan(problem, policy, seed=wish.seed, settings=wish.settings)
    require_all_queries(made.placement, f"policy {policy}")
    return Beginning(made.placement, policy, made.metrics, tuple(made.explanation.sentences))


def _resumed(problem: Problem, journal: Journal, note: Callable[[str], None]) -> Beginning | None:
    """The placement that the last run had, or was moving to, unless it no longer fits."""
    found = resume(journal)
    if found is None:
        return None
    try:
        placement = Placement.from_fragments(problem, found.placement)
        wrong = violations(problem, build_load_model(problem), placement)
    except InputError as misfit:
        wrong = [misfit.message]
    if wrong:
        note(f"planning anew: the last placement no longer fits ({wrong[0]})")
        return None
    settle(journal)
    return Beginning(placement, f"the journal, {found.why}", evaluate(problem, placement), ())
