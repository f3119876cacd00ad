"""`ants-central`: takes the place of the ants' leaders, with all observations in one place (section 3.9 of
their paper).

At every look the chains of the queries that run are scouted for along pheromones that stay from look to look.
A chain moves where its latency, with what others wait for it, is beta times that of the best report, and the
pause is made up for. The queueing model goes by the rates, costs and capacities that were observed; where
fragments run in micro-batches, the model of those does, and says what latencies moves lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from mooring.algorithms.ants.colony import ChainChange
from mooring.algorithms.ants.latency_search import LatencySearch
from mooring.algorithms.ants.neighbours import neighbours_of
from mooring.algorithms.ants.policy import LARGEST_SEED, Ants
from mooring.algorithms.ants.updating import Updating
from mooring.arrays import Floats, Ints
from mooring.contracts.decider import DeciderWish, Proposal, ProposedMove
from mooring.contracts.picture import HORIZON_S, Picture
from mooring.model.deployment.move_times import MoveTimes, fragment_pause_s
from mooring.model.deployment.moves import Move
from mooring.model.load.build import build_load_model
from mooring.model.problem.problem import Problem

BETA = 1.1
"""Below this, scouts that chance upon slightly better ways would move chains for ever."""
MOST_MOVES = 12
"""Fragments in one proposal, unless the first chain alone has more."""


class AntsDecider:
    name: ClassVar[str] = "ants-central"

    def __init__(
        self,
        policy: Ants | None = None,
        seed: int = 0,
        *,
        trigger_s: float = 0.0,
        most_moves: int = MOST_MOVES,
        times: MoveTimes | None = None,
    ) -> None:
        """trigger_s: between micro-batches; 0: messages queue."""
        self.policy, self.seed, self.trigger_s = policy or Ants(beta=BETA), seed, trigger_s
        self._most_moves, self._times = most_moves, times or MoveTimes()
        self._colony: Updating | None = None

    @property
    def sent_messages(self) -> Mapping[str, int]:
        """Steps of ants from site to site so far."""
        return {} if self._colony is None else dict(self._colony.steps)

    @property
    def sent_bytes(self) -> float:
        return 0.0 if self._colony is None else self._colony.sent_bytes

    def decide(self, picture: Picture) -> Proposal:
        picture = replace(picture, trigger_s=self.trigger_s)
        now = picture.predict(picture.sites, in_full=True)
        if (reason := self.policy.unsupported(picture.problem)) is not None:
            return Proposal(now, (), f"ants cannot place this problem: {reason}")
        part = running_part(picture)
        if part is None:
            return Proposal(now, (), "a site is lost: no ants run until recovery has restarted its fragments")
        problem, rows = part
        if not problem.queries:
            return Proposal(now, (), "no query runs, so there is no latency to improve")
        sites = picture.sites[rows]
        changes = self._look(picture, problem, rows, sites)
        moves = self._moves(picture, rows, changes)
        if not moves:
            beta = self.policy.beta
            return Proposal(now, (), f"no scout found a path that makes a chain {beta:g} times as fast")
        what = ", ".join(f"{each.move.fragment} to {each.move.to_site}" for each in moves)
        return Proposal(now, tuple(moves), f"scouts found faster paths: {what}", drawn=True)

    def _look(self, picture: Picture, problem: Problem, rows: Ints, sites: Ints) -> list[ChainChange]:
        model = picture.model if problem is picture.problem else build_load_model(problem)
        # What may not be moved now is as if it were pinned: chains begin and end there.
        pinned = np.where(picture.movable[rows], model.pinned_site, sites)
        search = LatencySearch.of(
            problem, replace(model, pinned_site=pinned), self.trigger_s, self.policy.delay_limit_ms / 1e3
        )
        if self._colony is None:
            rng = np.random.default_rng(self.seed)
            neighbours = neighbours_of(problem.network, len(problem.sites), rng)
            seed = int(rng.integers(LARGEST_SEED))
            again = self.policy.routing_again
            self._colony = Updating(self.policy.params(), neighbours, seed, again, horizon_s=HORIZON_S)
        return self._colony.look(search, sites, self._pauses_s(problem))

    def _pauses_s(self, problem: Problem) -> Floats:
        count = len(problem.fragments)
        return np.array([fragment_pause_s(problem, f, self._times) for f in range(count)])

    def _moves(self, picture: Picture, rows: Ints, changes: list[ChainChange]) -> list[ProposedMove]:
        """Chain by chain. One that would have more tuples under way is left where it is: guards count
        those, and would refuse the others with it."""
        sites, moves = picture.sites.copy(), list[ProposedMove]()
        under_way = picture.tuples_under_way(sites)
        for change in changes:
            own = rows[list(change.chain.fragments)]
            leaving = own[change.before != change.after]
            if moves and len(moves) + len(leaving) > self._most_moves:
                break
            after = sites.copy()
            after[own] = change.after
            if (left := picture.tuples_under_way(after)) >= under_way:
                continue
            under_way = left
            for fragment in leaving.tolist():
                moves.append(self._move(picture, sites, fragment, int(after[fragment])))
        return moves

    def _move(self, picture: Picture, sites: Ints, fragment: int, to: int) -> ProposedMove:
        """Made in `sites` too."""
        problem = picture.problem
        names = problem.sites[int(sites[fragment])].name, problem.sites[to].name
        sites[fragment] = to
        return ProposedMove(
            Move(problem.fragment_names[fragment], *names), picture.predict(sites, in_full=True)
        )


def running_part(picture: Picture) -> tuple[Problem, Ints] | None:
    """The problem of what runs, and per fragment of it its number in the whole; None where something that
    runs waits for something that does not."""
    problem = picture.problem
    if picture.running.all():
        return problem, np.arange(len(problem.fragments))
    runs = {j for f in np.flatnonzero(picture.running) for j in problem.fragments[f]}
    kept = tuple(operator for j, operator in enumerate(problem.operators) if j in runs)
    outputs = {stream.name for stream in problem.streams} | {operator.logical_name for operator in kept}
    if any(name not in outputs for operator in kept for name in operator.inputs):
        return None
    queries = tuple(query for query in problem.queries if query.reads in outputs)
    part = replace(problem, operators=kept, queries=queries, changes=())
    number = {name: f for f, name in enumerate(problem.fragment_names)}
    return part, np.array([number[name] for name in part.fragment_names], dtype=np.int64)


def decider(wish: DeciderWish) -> AntsDecider:
    policy = wish.policy(beta=BETA)
    assert isinstance(policy, Ants)
    return AntsDecider(policy, wish.seed, trigger_s=wish.trigger_s)
