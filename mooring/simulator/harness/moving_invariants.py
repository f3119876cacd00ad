"""What must hold of any protocol that proposes moves to a mover, whatever fails: agents, sites, the mover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.protocols.moving import Accepted, Answer, Over, ProposalId
from mooring.protocols.protocol import Send
from mooring.simulator.harness.checkers import Step, WorldView
from mooring.simulator.harness.runner_model import Ground, RunnerNode, SiteNode

SETTLE_MS = 6000.0
ON_ITS_WAY_MS = 250.0
"""The mover asks the sites, and tells all of them: a few round trips and a look."""


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
    nodes = (world.machine(site) for site in range(world.sites))
    return next((node.ground for node in nodes if node is not None), None)


class RunsOnce:
    """Never can two of a fragment commit, an epoch is one site's, and in the end each runs at one site."""

    name = "a fragment runs exactly once"

    def __init__(self) -> None:
        self._home: dict[tuple[int, int], int] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        ground = ground_of(world)
        if ground is None or step.site >= world.sites - 1:
            return None
        for fragment, epoch in ground.running[step.site].items():
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
        for item in self._going(world):
            self._since.setdefault(item, step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        for item in self._going(world):
            if world.now_ms - self._since[item] > SETTLE_MS / 2:
                return f"{item} since {self._since[item]:.0f} ms"
        return None

    def _going(self, world: WorldView) -> Iterator[tuple[str, int, ProposalId]]:
        for machine in machines_of(world):
            yield from (("room is held", machine.site, id) for id in machine.residence.held)
            if machine.proposer.open is not None:
                yield ("a proposal is open", machine.site, machine.proposer.open.id)
        runner = runner_of(world)
        for going in () if runner is None else runner.mover.memory.accepted:
            yield ("a plan is carried out", world.sites - 1, going.id)


class WithinCapacity:
    """What protocols move fits, and what may not move stays; recovery and people do as they must."""

    name = "capacities and pins hold"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        node = world.machine(step.site)
        if not isinstance(node, SiteNode) or node.ground.by_others:
            return None
        machine, ground = node.machine, node.ground
        here = [f for f, epoch in ground.running[step.site].items() if epoch == ground.epochs[f]]
        used = sum(machine.residence.specs[fragment].cores for fragment in here)
        if used > machine.residence.capacity_cores + 1e-9:
            return f"site {step.site} runs {used} cores of {machine.residence.capacity_cores}"
        moved = [f for f in here if not machine.residence.specs[f].movable and ground.epochs[f] > 0]
        return f"fragment {moved[0]} may not move, and did" if moved else None

    def at_end(self, world: WorldView) -> str | None:
        return None


class KnownToAll:
    """In the end every machine knows where everything runs, whoever moved it. What was started just now may
    still be on its way to some of them.
    """

    name = "whereabouts reach everybody"

    def __init__(self) -> None:
        self._started: dict[int, tuple[int, float]] = {}
        """Fragment -> its epoch, and when that was first seen."""

    def after_step(self, step: Step, world: WorldView) -> str | None:
        ground = ground_of(world)
        for fragment, epoch in enumerate(() if ground is None else ground.epochs):
            if self._started.get(fragment, (-1, 0.0))[0] != epoch:
                self._started[fragment] = (epoch, step.time_ms)
        return None

    def at_end(self, world: WorldView) -> str | None:
        ground = ground_of(world)
        assert ground is not None
        for machine in machines_of(world):
            for fragment, place in machine.residence.where.items():
                running = ground.committing(fragment)
                since_ms = self._started.get(fragment, (0, 0.0))[1]
                if not running or world.now_ms - since_ms < ON_ITS_WAY_MS:
                    continue
                if (place.site, place.epoch) != (running[0], ground.epochs[fragment]):
                    return f"site {machine.site} knows {place}, and it runs at {running[0]}"
        return None
