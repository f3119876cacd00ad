"""What must hold of leases, whatever happens to messages, sites and the mover.

The mover's journal is the truth: where things are, and which plans are on. It is durable, so a checker goes
by what it last saw of it while the mover is down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.leases.world import (
    CORES,
    OPERATORS,
    QUICK,
    SETTLE_MS,
    USABLE_CORES,
    first_places,
    latencies_of,
    ring_ms,
    shared_queries,
)
from lab.faults.moving_invariants import machines_of, runner_of
from mooring.algorithms.overlay.leases.lease_site import LeaseSite
from mooring.algorithms.overlay.leases.transitions import LeaseStage
from mooring.algorithms.overlay.search.partial_plans import LATENCY_SLACK_MS
from mooring.algorithms.overlay.search.replicas import as_served, original_of
from mooring.algorithms.overlay.search.shared_operator import NOWHERE, SharedOperator, queries_of
from mooring.contracts.site_machine import Send
from mooring.coordination.move_messages import ProposalId, Proposed, StartedAt

LEASE_MS = 2.0 * QUICK.lock_ms
"""No lease is sought for longer."""
TOLD_MS = 3000.0
"""By then everybody has heard of the last change."""


class MoverJournal:
    """What the mover has written down: where everything is, and which plans are on."""

    def __init__(self) -> None:
        self.where: dict[int, StartedAt] = {}
        self.on: dict[tuple[int, int, int], Proposed] = {}
        self.new: list[Proposed] = []
        """Accepted with the last step."""

    def see(self, world: WorldView) -> None:
        mover = world.machine(world.sites - 1)
        self.new = []
        if not self.where:
            self.where = {place.fragment: place for place in first_places(world.sites - 1)}
        if mover is not None:
            self.where = {place.fragment: place for place in mover.memory.places}
            on = {work.proposed.id: work.proposed for work in mover.memory.work}
            self.new = [proposed for id_, proposed in on.items() if id_ not in self.on]
            self.on = on

    def served(self, sites: int) -> list[SharedOperator]:
        running = [place.fragment for place in self.where.values() if place.site != NOWHERE]
        return as_served(shared_queries(sites), running)


def lease_site(world: WorldView, site: int) -> LeaseSite | None:
    """The part of a site that keeps and seeks leases, be it of a whole agent; None while there is none, as
    the site is down or has not been told of the operators."""
    machine = world.machine(site)
    found: LeaseSite | None = getattr(machine, "lease", machine)
    return found


def _sites(world: WorldView) -> list[LeaseSite]:
    found = [lease_site(world, site) for site in range(world.sites - 1)]
    return [machine for machine in found if machine is not None]


def _copies(proposed: Proposed) -> bool:
    return any(original_of(move.fragment)[1] is not None for move in proposed.plan.moves)


def _from(proposed: Proposed) -> set[tuple[int, int]]:
    """What it moves, and from where."""
    return {(move.fragment, move.from_site) for move in proposed.plan.moves}


class OneLeasePerQuery:
    """Of plans that are on, no two affect a common query; copies affect their own query alone."""

    name = "no two leases affect one query"

    def __init__(self) -> None:
        self._journal = MoverJournal()
        self._affects: dict[tuple[int, int, int], set[int]] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self._journal.see(world)
        if not self._journal.new:
            return None
        shared = queries_of(self._journal.served(world.sites - 1))
        for proposed in self._journal.new:
            moved = [move.fragment for move in proposed.plan.moves]
            own = {original_of(number)[1] for number in moved} - {None}
            found = {query for number in moved for query in shared.get(number, ())}
            self._affects[proposed.id] = {q for q in own if q is not None} if own else found
        for proposed in self._journal.new:
            for other in self._journal.on.values():
                common = self._affects[proposed.id] & self._affects[other.id]
                alike = _copies(proposed) == _copies(other)
                if other.id != proposed.id and common and alike:
                    return f"{proposed.id} and {other.id} both affect queries {sorted(common)}"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class LockedWhileOn:
    """Who keeps locks for a plan that is on keeps them until the mover's last word on it.

    Two leases at once need more to happen than a lock that is lost: a second plan for the same queries, while
    the first is on, that meets it nowhere else. This sees what makes it possible.
    """

    name = "locks last as long as their plan"

    def __init__(self) -> None:
        self._journal = MoverJournal()

    def after_step(self, step: Step, world: WorldView) -> str | None:
        mover = world.sites - 1
        if world.machine(mover) is None:
            return None  # its last word may be on its way, and not be known here
        if step.site == mover:
            self._journal.see(world)
        for id_, proposed in self._journal.on.items():
            for site in proposed.lease.holders:
                machine = lease_site(world, site) if step.site in (site, mover) else None
                if machine is None:
                    continue
                if not any(lock.id == id_ and lock.held for lock in machine.keeper.locks.values()):
                    return f"site {site} holds no lock for {id_}, which is being carried out"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class LeasesFit:
    """Nothing comes to a site that had no room for it at any time while the lease was sought and carried out,
    beside what runs there and what has left under a list that may yet be undone. What is there already may be
    too much once a site has less to give: that is to be relieved, not promised. So what comes back, as the
    rest of its list failed, is not held against capacities: its room was never anybody else's.
    """

    name = "capacities hold"

    def __init__(self) -> None:
        self._journal = MoverJournal()
        self._proposed_ms: dict[ProposalId, float] = {}
        self._cores: dict[int, list[tuple[float, float]]] = {}
        """Site -> since when it knows that it can give so much."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Proposed):
                self._proposed_ms.setdefault(effect.message.id, step.time_ms)
        if step.site < world.sites - 1:
            if (machine := lease_site(world, step.site)) is not None:
                known = self._cores.setdefault(step.site, [(0.0, machine.around.usable_cores)])
                if known[-1][1] != machine.around.usable_cores:
                    known.append((step.time_ms, machine.around.usable_cores))
            return None
        before, plans = self._journal.where, dict(self._journal.on)
        self._journal.see(world)
        plans |= self._journal.on
        where = self._journal.where
        for place in where.values() if before is not where else ():
            if place.site == NOWHERE or before.get(place.fragment, place).site == place.site:
                continue
            moving = [p for p in plans.values() if place.fragment in {m.fragment for m in p.plan.moves}]
            if any((place.fragment, place.site) in _from(each) for each in moving):
                continue
            others = [each for id_, each in self._journal.on.items() if id_ not in {p.id for p in moving}]
            here = {each.fragment for each in where.values() if each.site == place.site}
            here |= {f for each in others for f, site in _from(each) if site == place.site}
            used = CORES * len(here)
            since_ms = min((self._proposed_ms[each.id] for each in moving), default=step.time_ms) - LEASE_MS
            if used > (most := self._most_cores(place.site, since_ms)) + 1e-9:
                return f"{place} came to a site that runs {used:.1f} cores of {most:.1f} then"
        return None

    def _most_cores(self, site: int, since_ms: float) -> float:
        known = self._cores.get(site, [(0.0, USABLE_CORES)])
        begun = [cores for at_ms, cores in known if at_ms <= since_ms]
        return max([*(begun[-1:] or [known[0][1]]), *(cores for at_ms, cores in known if at_ms > since_ms)])

    def at_end(self, world: WorldView) -> str | None:
        return None


class PromisesHold:
    """A plan that is accepted leaves no affected query beyond its limit, unless it was later before.

    Both by links as they were about when it was proposed: what changes later is nobody's promise.
    """

    name = "limits hold under leases"

    def __init__(self) -> None:
        self._journal = MoverJournal()
        self._links: dict[tuple[int, int], list[tuple[float, float]]] = {}
        self._proposed_ms: dict[tuple[int, int, int], float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        if step.site < world.sites - 1 and (machine := lease_site(world, step.site)) is not None:
            for other, ms in machine.around.latency_ms.items():
                seen = self._links.setdefault((other, step.site), [])
                if not seen or seen[-1][1] != ms:
                    seen.append((step.time_ms, ms))
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Proposed):
                self._proposed_ms.setdefault(effect.message.id, step.time_ms)
        if step.site != world.sites - 1:
            return None
        before_step = dict(self._journal.where)
        self._journal.see(world)
        for proposed in self._journal.new:
            if wrong := self._late(proposed, before_step or self._journal.where, world.sites - 1):
                return wrong
        return None

    def _late(self, proposed: Proposed, where: dict[int, StartedAt], sites: int) -> str | None:
        at_ms = self._proposed_ms[proposed.id]
        now = {number: place.site for number, place in where.items()}
        then = now | {move.fragment: move.to_site for move in proposed.plan.moves}
        limits = {end.query: end.limit_ms for own in shared_queries(sites) for end in own.ends}
        # Before, a link counts with the most that either end has seen: it may have been taken for that.
        before = self._latencies(
            now,
            sites,
            lambda a, b: max(*self._seen_ms(a, b, sites, at_ms), *self._seen_ms(b, a, sites, at_ms)),
        )
        after = self._latencies(then, sites, lambda a, b: min(self._seen_ms(a, b, sites, at_ms)))
        for query, ms in after.items():
            if ms > max(limits[query], before[query]) + LATENCY_SLACK_MS:
                return f"{proposed.id} lets query {query} take {ms:.0f} ms, {before[query]:.0f} before"
        return None

    @staticmethod
    def _latencies(at: dict[int, int], sites: int, hop_ms: Callable[[int, int], float]) -> dict[int, float]:
        running = [number for number, site in at.items() if site != NOWHERE]
        return latencies_of(as_served(shared_queries(sites), running), at.__getitem__, hop_ms)

    def _seen_ms(self, a: int, b: int, sites: int, at_ms: float) -> list[float]:
        """What a link took, as seen from its second end, while the lease was sought and a little before. Who
        is down when a link is measured does not know of it."""
        seen = [(0.0, ring_ms(a, b, sites)), *self._links.get((a, b), ())]
        begun = [ms for time_ms, ms in seen if time_ms <= at_ms - LEASE_MS]
        return [begun[-1] if begun else seen[0][1], *(ms for t, ms in seen if at_ms - LEASE_MS < t <= at_ms)]

    def at_end(self, world: WorldView) -> str | None:
        return None


class LocksEnd:
    """Once all is healthy no lock and no lease lasts, also where a site is gone for good. What a mover still
    carries out, as slowly as it may, is rightly locked."""

    name = "locks are released"

    def __init__(self) -> None:
        self._journal = MoverJournal()
        self._since: dict[tuple[int, ProposalId], float] = {}
        self._on_ms: dict[ProposalId, float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        self._journal.see(world)
        self._on_ms |= dict.fromkeys(self._journal.on, step.time_ms)
        machine = lease_site(world, step.site) if step.site < world.sites - 1 else None
        for id_, *_ in () if machine is None else machine.keeper.locks:
            self._since.setdefault((step.site, id_), step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        late_ms = world.now_ms - SETTLE_MS / 2
        for machine in _sites(world):
            for (id_, *_), lock in machine.keeper.locks.items():
                since_ms = max(self._since[machine.site, id_], self._on_ms.get(id_, 0.0))
                if since_ms < late_ms:
                    return f"site {machine.site} has kept {lock} since {since_ms:.0f} ms"
            seeker = machine.seeker
            if seeker.id is not None and max(seeker.since_ms, self._on_ms.get(seeker.id, 0.0)) < late_ms:
                return f"site {machine.site} has sought {seeker.plan} since {seeker.since_ms:.0f} ms"
        return None


class NothingLost:
    """In the end every operator runs, no plan is left half done, and all sites know where things are."""

    name = "every operator runs, and all know where"

    def __init__(self) -> None:
        self._journal = MoverJournal()
        self._changed_ms = 0.0

    def after_step(self, step: Step, world: WorldView) -> str | None:
        if step.site == world.sites - 1:
            before, on = self._journal.where, list(self._journal.on)
            self._journal.see(world)
            if before != self._journal.where or on != list(self._journal.on):
                self._changed_ms = step.time_ms
        return None

    def at_end(self, world: WorldView) -> str | None:
        lost = [number for number in range(OPERATORS) if self._journal.where[number].site == NOWHERE]
        if lost:
            return f"operators {lost} do not run"
        if world.now_ms - self._changed_ms < TOLD_MS:
            return None
        if self._journal.on:
            return f"plans {list(self._journal.on)} are not over"
        for machine in _sites(world):
            if machine.around.where != self._journal.where:
                return f"site {machine.site} does not know where things are"
        return None


class HeldWhileItMoves:
    """In a run that carries out one list at a time: whoever keeps a lock for a list that is being carried out
    keeps it to the end; and none lasts."""

    name = "locks last as long as the move"

    def __init__(self) -> None:
        self._since: dict[object, float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        runner = runner_of(world)
        on: tuple[Proposed, ...] = () if runner is None else runner.mover.memory.accepted
        for machine in _of_a_run(world):
            ids = {key[0] for key in machine.keeper.locks}
            for id_ in ids:
                self._since.setdefault((machine.site, id_), step.time_ms)
            for going in on:
                if machine.site in going.lease.holders and going.id not in ids:
                    return f"site {machine.site} keeps no lock for {going.id}, which is being carried out"
        return None

    def at_end(self, world: WorldView) -> str | None:
        for machine in _of_a_run(world):
            for id_, *_ in machine.keeper.locks:
                since = self._since[machine.site, id_]
                if world.now_ms - since > SETTLE_MS / 2:
                    return f"site {machine.site} has kept a lock for {id_} since {since:.0f} ms"
            waits = machine.seeker.stage is not LeaseStage.NONE
            if waits and world.now_ms - machine.seeker.since_ms > SETTLE_MS / 2:
                return f"site {machine.site} has sought a lease since {machine.seeker.since_ms:.0f} ms"
        return None


def _of_a_run(world: WorldView) -> Iterator[LeaseSite]:
    for machine in machines_of(world):
        found: LeaseSite | None = getattr(machine, "lease", machine)
        if found is not None:
            yield found


def lease_checkers() -> Sequence[Checker]:
    return (OneLeasePerQuery(), LockedWhileOn(), LeasesFit(), PromisesHold(), LocksEnd(), NothingLost())
