"""What must hold of any protocol that proposes moves to a mover, whatever fails: agents, sites, the mover.

A step changes its own site alone, so after a step only that site is looked at wherever that suffices: the
checkers see every step of campaigns of millions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.faults.checkers import Step, WorldView
from lab.faults.runner_model import ROUND_MS, Ground, RunnerNode, SiteNode
from mooring.contracts.site_machine import Received, Send
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    Over,
    ProposalId,
    StartedAt,
    Whereabouts,
)

SETTLE_MS = 6000.0
"""From when all faults are over to the end of a scenario."""
LONGEST_LINK_MS = 100.0
"""Of the scenarios, whose sites lie on a plane of 60 by 60 ms."""
SEEN_MS = 3 * LONGEST_LINK_MS + 2 * ROUND_MS
"""Until the runner has seen what it starts: the order, and a question and its answer after that."""


def runner_of(world: WorldView) -> RunnerNode | None:
    found: RunnerNode | None = world.machine(world.sites - 1)
    return found


def machines_of(world: WorldView) -> Iterator[Any]:
    """Of the sites that are up."""
    for site in range(world.sites - 1):
        node: SiteNode | None = world.machine(site)
        if node is not None:
            yield node.machine


def ground_of(world: WorldView) -> Ground | None:
    """All nodes stand on the same; None while all are down."""
    for site in range(world.sites):
        node: SiteNode | RunnerNode | None = world.machine(site)
        if node is not None:
            return node.ground
    return None


class RunsOnce:
    """Never can two of a fragment commit, an epoch is one site's, and in the end each runs at one site."""

    name = "a fragment runs exactly once"

    def __init__(self) -> None:
        self._home: dict[tuple[int, int], int] = {}
        self._ran: dict[int, dict[int, int]] = {}
        """Site -> what ran there after its last step. Epochs only grow: what stays cannot begin to commit."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        node = world.machine(step.site)
        if not isinstance(node, SiteNode):
            return None
        ground = node.ground
        running = ground.running[step.site]
        if self._ran.get(step.site) == running:
            return None
        self._ran[step.site] = dict(running)
        for fragment, epoch in running.items():
            home = self._home.setdefault((fragment, epoch), step.site)
            if home != step.site:
                return f"fragment {fragment} was started under epoch {epoch} at sites {home} and {step.site}"
            if len(sites := ground.committing(fragment)) > 1:
                return f"fragment {fragment} commits at sites {sites}"
        return None

    def at_end(self, world: WorldView) -> str | None:
        ground = ground_of(world)
        assert ground is not None
        up = [site for site in range(world.sites - 1) if world.machine(site) is not None]
        runner = runner_of(world)
        moving = set() if runner is None else runner.in_transit
        for fragment in set(range(len(ground.epochs))) - moving:
            sites = [site for site in ground.committing(fragment) if site in up]
            if len(sites) != 1:
                return f"fragment {fragment} runs at sites {sites} at the end"
        return None


class AnsweredOnce:
    """A proposal that was refused is never carried out, and one that has ended stays as it ended."""

    name = "answers do not change"

    def __init__(self) -> None:
        self._said: dict[ProposalId, Answer] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects if step.site == world.sites - 1 else ():
            if isinstance(effect, Send) and isinstance(effect.message, Answer):
                new, old = effect.message, self._said.get(effect.message.id)
                if isinstance(new, Over):
                    if isinstance(old, Accepted):
                        return f"{new.id} was accepted, and never said how it ended"
                    continue
                if old is not None and new != old and not isinstance(old, Accepted):
                    return f"{old} was followed by {new}"
                self._said[new.id] = new
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class HeldUntilAnswered:
    """Whoever holds something for a plan that is being carried out holds it until that has ended."""

    name = "what was accepted is held"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        runner = runner_of(world)
        for going in () if runner is None else runner.mover.memory.accepted:
            for holder in going.lease.holders:
                node = world.machine(holder)
                if node is not None and going.id not in node.machine.residence.held:
                    return f"site {holder} holds nothing for {going.id}, which is being carried out"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class NothingLeaks:
    """Once all is healthy, no proposal stays open, and no room stays held, for long."""

    name = "proposals and leases come to an end"

    def __init__(self) -> None:
        self._since: dict[object, float] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for item in self._going(world, step.site):
            self._since.setdefault(item, step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        for site in range(world.sites):
            for item in self._going(world, site):
                if world.now_ms - self._since[item] > SETTLE_MS / 2:
                    return f"{item} since {self._since[item]:.0f} ms"
        return None

    @staticmethod
    def _going(world: WorldView, site: int) -> list[tuple[str, int, ProposalId]]:
        node = world.machine(site)
        if isinstance(node, RunnerNode):
            return [("a plan is carried out", site, going.id) for going in node.mover.memory.accepted]
        if node is None:
            return []
        found = [("room is held", site, id) for id in node.machine.residence.held]
        if node.machine.proposer.open is not None:
            found.append(("a proposal is open", site, node.machine.proposer.open.id))
        return found


class WithinCapacity:
    """What protocols move fits, and what may not move stays; recovery and people do as they must."""

    name = "capacities and pins hold"

    def __init__(self) -> None:
        self._ran: dict[int, tuple[float, dict[int, int]]] = {}
        """Site -> its cores and what ran there after its last step; what stays has been looked at."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        node = world.machine(step.site)
        if not isinstance(node, SiteNode) or node.ground.by_others:
            return None
        machine, ground = node.machine, node.ground
        running = ground.running[step.site]
        now = (machine.residence.capacity_cores, running)
        if self._ran.get(step.site) == now:
            return None
        self._ran[step.site] = (now[0], dict(running))
        here = [f for f, epoch in running.items() if epoch == ground.epochs[f]]
        used = sum(machine.residence.specs[fragment].cores for fragment in here)
        came = any(ground.epochs[fragment] > 0 for fragment in here)
        if came and used > machine.residence.capacity_cores + 1e-9:
            return f"site {step.site} runs {used} cores of {machine.residence.capacity_cores}"
        moved = [f for f in here if not machine.residence.specs[f].movable and ground.epochs[f] > 0]
        return f"fragment {moved[0]} may not move, and did" if moved else None

    def at_end(self, world: WorldView) -> str | None:
        return None


class KnownToAll:
    """Once all is healthy, every machine that it concerns hears of a start as soon as the mover does, whoever
    started it; and in the end all know where what concerns them runs. Word of what was started just now may
    still be on its way.
    """

    name = "whereabouts reach everybody"

    def __init__(self) -> None:
        self._taken_ms: dict[tuple[int, int], float] = {}
        """Fragment and epoch -> when that was first seen."""
        self._told_ms: dict[StartedAt, float] = {}
        """Place -> when the mover was first seen to know of it."""
        self._heard_ms: dict[tuple[int, StartedAt], float] = {}
        """Site and place -> when it was first told of it."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        match step.event:
            case Received(message=Whereabouts(places=places) | Done(places=places) | Failed(places=places)):
                for place in places:
                    self._heard_ms.setdefault((step.site, place), step.time_ms)
        node = world.machine(step.site)
        if isinstance(node, RunnerNode):
            for taken in enumerate(node.ground.epochs):
                self._taken_ms.setdefault(taken, step.time_ms)
            for place in node.mover.where.values():
                self._told_ms.setdefault(place, step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        runner = runner_of(world)
        assert runner is not None
        for fragment, epoch in enumerate(runner.ground.epochs):
            if world.now_ms - self._taken_ms[fragment, epoch] < SEEN_MS:
                continue
            known, running = runner.mover.where.get(fragment), runner.ground.committing(fragment)
            if running and known != StartedAt(fragment, running[0], epoch):
                return f"the mover knows {known}, and it runs at {running[0]} under epoch {epoch}"
        long_ago = {p for p, told_ms in self._told_ms.items() if world.now_ms - told_ms >= LONGEST_LINK_MS}
        for machine in machines_of(world):
            for place in long_ago & set(runner.mover.where.values()):
                if not runner.mover.concerns(place.fragment, machine.site):
                    known = machine.residence.where.get(place.fragment)
                    if known is not None and known.site == machine.site:
                        return f"site {machine.site} knows {known}, and the mover {place}"
                    continue
                if (known := machine.residence.where.get(place.fragment)) != place:
                    return f"site {machine.site} knows {known}, and the mover {place}"
            for place in long_ago:
                if not runner.mover.concerns(place.fragment, machine.site) or (
                    runner.mover.belonging is not None and place.site != machine.site
                ):
                    continue
                told_ms = self._told_ms[place]
                heard_ms = self._heard_ms.get((machine.site, place), world.now_ms)
                if told_ms >= world.now_ms - SETTLE_MS and heard_ms - told_ms > LONGEST_LINK_MS:
                    return f"site {machine.site} heard of {place} {heard_ms - told_ms:.0f} ms after the mover"
        return None
