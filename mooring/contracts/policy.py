"""What a policy is: a frozen dataclass of parameters that turns a problem into a placement, and how it is
asked for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from mooring.contracts.deadline import NO_DEADLINE, Deadline
from mooring.errors import ConflictError, InfeasibleError, InputError, UnsupportedError
from mooring.model.evaluation.explanation import Subject
from mooring.model.goals.conflicts import conflict
from mooring.model.goals.mending import mended
from mooring.model.goals.merging import merged, on_merged, on_whole
from mooring.model.goals.rules import RuleBook
from mooring.model.load.build import build_load_model
from mooring.model.load.limits import require_some_capacity
from mooring.model.load.model import LoadModel
from mooring.model.placement.checker import violations
from mooring.model.placement.goal_checker import has_goals
from mooring.model.placement.limited_moves import hold_immovable, limit_moves
from mooring.model.placement.placement import Placement
from mooring.model.problem.problem import Problem
from mooring.progress import Report, silent


@dataclass(frozen=True)
class Context:
    """The inputs of a policy beside the problem. A policy reads no clock and draws no randomness of its
    own."""

    load: LoadModel
    rng: np.random.Generator
    deadline: Deadline = NO_DEADLINE
    """Anytime policies check between steps whether it has expired; annealing cools by the share spent."""
    steps: int | None = None
    """The most improvement steps an anytime policy takes, for results that do not depend on speed."""
    progress: Report = silent
    current: Placement | None = None
    """The placement that runs now, if any."""
    max_moves: int | None = None
    """The most fragments that may leave their present site."""

    @classmethod
    def of(cls, problem: Problem, seed: int = 0) -> Context:
        return cls(load=build_load_model(problem), rng=np.random.default_rng(seed))


@runtime_checkable
class Policy(Protocol):
    name: ClassVar[str]

    @property
    def about(self) -> Subject:
        """The goal that explains its placements."""
        ...

    def unsupported(self, problem: Problem) -> str | None:
        """The reason why this policy cannot place this problem; None if it can."""
        ...

    def place(self, problem: Problem, context: Context) -> Placement: ...


def place(
    policy: Policy,
    problem: Problem,
    *,
    seed: int = 0,
    steps: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    progress: Report = silent,
    current: Placement | None = None,
    max_moves: int | None = None,
) -> tuple[Placement, LoadModel]:
    """The checked result of a policy for a problem, and the load model of the placed operators."""
    whole, problem = problem, merged(problem)
    reason = policy.unsupported(problem)
    if reason is not None:
        raise UnsupportedError(f"policy {policy.name} cannot place this problem: {reason}")
    if current is not None and current.rejected and not getattr(policy, "admits", False):
        raise InputError(
            f"found a plan that leaves out {', '.join(current.rejected)}, expected all queries",
            field="current",
            remedy=f"start from another plan; {policy.name} leaves out no queries, overlay may",
        )
    if current is not None and problem is not whole and not current.rejected:
        current = on_merged(current, problem)
    model = build_load_model(problem)
    require_some_capacity(model)
    if current is not None and not current.rejected:
        model = hold_immovable(model, current)
    context = Context(
        load=model,
        rng=np.random.default_rng(seed),
        deadline=deadline,
        steps=steps,
        progress=progress,
        current=current,
        max_moves=max_moves,
    )
    try:
        placement = policy.place(problem, context)
    except InfeasibleError:
        if has_goals(whole):
            _refuse_conflict(whole)
        raise
    if current is not None and max_moves is not None and not (current.rejected or placement.rejected):
        placement = limit_moves(model, current, placement, max_moves)
    if placement.rejected:
        model = build_load_model(placement.problem)
    wrong = violations(placement.problem, model, placement)
    if wrong and has_goals(whole):
        placement = _kept(policy, whole, placement, model, context, wrong)
    elif wrong:
        raise InfeasibleError(f"policy {policy.name} found no valid placement: {wrong[0]}")
    if problem is not whole:
        placement = on_whole(placement, whole)
        model = build_load_model(placement.problem)
    return placement, model


def _kept(
    policy: Policy,
    whole: Problem,
    placement: Placement,
    model: LoadModel,
    context: Context,
    wrong: list[str],
) -> Placement:
    """The nearest placement that keeps the goals which a policy's own does not know. What papers published
    stays as it is, and is refused."""
    if getattr(policy, "as_published", False):
        _refuse_conflict(whole)
        raise UnsupportedError(
            f"policy {policy.name} takes no account of goals, and its plan breaks {len(wrong)}: {wrong[0]}",
            remedy="combined and resilient keep them",
        )
    homes = None if context.current is None or placement.rejected else context.current.site_of_fragment
    book = RuleBook(model, placement.problem)
    sites = mended(book, placement.site_of_fragment, context.rng, homes=homes, most_away=context.max_moves)
    found = replace(placement, site_of_fragment=sites)
    if left := violations(placement.problem, model, found):
        _refuse_conflict(whole)
        raise InfeasibleError(
            f"policy {policy.name} found no placement that keeps all goals: {left[0]}",
            remedy="whether there is one is not proven; relax a goal, or allow more moves",
        )
    return found


def _refuse_conflict(problem: Problem) -> None:
    """Say which goals cannot be kept together, where that is so."""
    found = conflict(problem)
    if found:
        raise ConflictError([(each.field, each.words) for each in found])
