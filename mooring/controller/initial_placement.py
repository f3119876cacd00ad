"""Which placement a run begins with: the one asked for, the one the last run had, or a new plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from mooring.controller.joining import joined
from mooring.controller.journal import Journal
from mooring.controller.move_list import resume, settle
from mooring.errors import InputError
from mooring.model.evaluation.metrics import Metrics
from mooring.model.load.build import build_load_model
from mooring.model.placement.admission import require_all_queries
from mooring.model.placement.checker import violations
from mooring.model.placement.closed_sites import bound_fragments, closed_problem, off_closed, replace_lost
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.planning import Plan, evaluate, plan


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
    metrics: Metrics
    why: tuple[str, ...]


def begin(
    problem: Problem, journal: Journal, wish: Wish, note: Callable[[str], None] = lambda line: None
) -> Beginning:
    """`note` is called where the last placement no longer fits, or a new one overloads something. Sites that
    are kept empty get nothing."""
    left = journal.left_sites()
    left = {site: by for site, by in left.items() if site in problem.site_index}
    if wish.placement is not None:
        given = wish.placement(problem)
        require_all_queries(given, "the placement")
        _refuse_left(problem, given.by_fragment(), left)
        return Beginning(given, wish.placement_name, evaluate(problem, given), ("given by the user",))
    if wish.resumes and (resumed := _resumed(problem, journal, note)) is not None:
        return _emptied(problem, resumed, left, wish, note)
    policy = wish.policy or wish.default_policy
    closed = closed_problem(problem, left)
    made = plan_around(problem, left, plan(closed, policy, seed=wish.seed, settings=wish.settings))
    require_all_queries(made.placement, f"policy {policy}")
    if made.overload is not None:  # by an estimate, so the run begins all the same
        note(made.overload.sentence)
    return Beginning(made.placement, policy, made.metrics, made.sentences)


def _resumed(problem: Problem, journal: Journal, note: Callable[[str], None]) -> Beginning | None:
    """The placement that the last run had, or was moving to, unless it no longer fits."""
    found = resume(journal)
    if found is None:
        return None
    sites = found.placement
    if beside := _beside(problem, sites):
        sites, rejected = beside
        if rejected:
            note(f"making a new plan, since what is new does not fit beside what ran: {rejected}")
            return None
    try:
        placement = Placement.from_fragments(problem, sites)
        wrong = violations(problem, build_load_model(problem), placement)
    except InputError as misfit:
        wrong = [misfit.message]
    if wrong:
        note(f"making a new plan: the last placement violates the problem ({wrong[0]})")
        return None
    settle(journal)
    return Beginning(placement, f"the journal, {found.why}", evaluate(problem, placement), ())


def _beside(problem: Problem, before: FragmentSites) -> tuple[FragmentSites, str] | None:
    """The last run's placement with fragments that are new placed beside those that it had, and without those
    that are gone; or the number that is short. None: the fragments are the same.
    """
    names = set(problem.fragment_names)
    known = {name: site for name, site in before.items() if name in names and site in problem.site_index}
    coming = names - known.keys()
    if not coming and known.keys() == before.keys():
        return None
    at_first = {name: known.get(name, problem.sites[0].name) for name in problem.fragment_names}
    found = joined(problem, FragmentSites(at_first), known, coming)
    return FragmentSites({**at_first, **found.sites}), found.rejected


def plan_around(problem: Problem, closed: Collection[str], made: Plan) -> Plan:
    """A plan for `closed_problem` as one for the problem itself."""
    if not closed:
        return made
    sites = off_closed(problem, made.placement.by_fragment(), closed)
    return replace(made, problem=problem, placement=Placement.from_fragments(problem, sites))


def _refuse_left(problem: Problem, sites: FragmentSites, left: Collection[str]) -> None:
    bound = bound_fragments(problem)
    for name, site in sites.items():
        if site in left and name not in bound:
            raise InputError(
                f"the placement has {name!r} at {site!r}, which is kept empty",
                remedy=f"`mooring moves PROJECT --return {site}` opens it again",
            )


def _emptied(
    problem: Problem,
    found: Beginning,
    left: Collection[str],
    wish: Wish,
    note: Callable[[str], None],
) -> Beginning:
    """The last placement without the sites that were left since."""
    before, bound = found.placement.by_fragment(), bound_fragments(problem)
    after = replace_lost(problem, before, left, wish.replan)
    moved = {name: at for name, at in after.items() if at != before[name] and name not in bound}
    if stuck := [name for name, at in after.items() if at in left and name not in bound]:
        note(f"{', '.join(stuck)} waits: only {after[stuck[0]]} has room, and it is kept empty")
    if not moved:
        return found
    what = ", ".join(f"{name} goes to {at}" for name, at in moved.items())
    note(f"{', '.join(sorted(left))} is kept empty: {what}")
    placement = Placement.from_fragments(problem, FragmentSites({**before, **moved}))
    return replace(found, placement=placement, metrics=evaluate(problem, placement))
