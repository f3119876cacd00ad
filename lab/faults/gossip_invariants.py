"""What must hold of the gossip protocol, whatever happens to its messages and sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.faults import FaultParams
from lab.faults.scenario import Request, Scenario, draw_scenario
from mooring.contracts.site_machine import Asked, Persist, Started
from mooring.coordination.gossip import Entry, GossipParams


def entries_of(world: WorldView, site: int) -> dict[int, Entry[Any]]:
    machine: Any = world.machine(site)
    return machine.entries if machine is not None else {}


class VersionsGrow:
    """A site's knowledge of an owner never goes back within an incarnation; the owner's own never at all."""

    name = "versions never go backwards"

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        site = step.site
        if isinstance(step.event, Started):
            for owner in range(world.sites):
                if owner != site:
                    self._seen.pop((site, owner), None)
        if world.machine(site) is None:
            return None
        entries = entries_of(world, site)
        for owner in range(world.sites):
            version = entries[owner].version if owner in entries else 0
            before = self._seen.get((site, owner), 0)
            if version < before:
                return f"site {site} knew version {before} of site {owner}, now {version}"
            self._seen[site, owner] = version
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class NothingFromThinAir:
    """Every entry held anywhere was published by its owner, and no version was published twice."""

    name = "no value out of thin air"

    def __init__(self) -> None:
        self._published: dict[tuple[int, int], Entry[Any]] = {}

    def after_step(self, step: Step, world: WorldView) -> str | None:
        entries = entries_of(world, step.site)
        for entry in self._published_in(step, entries):
            other = self._published.setdefault((entry.owner, entry.version), entry)
            if other != entry:
                return f"site {step.site} gave version {entry.version} to {other.value!r} and {entry.value!r}"
        for owner, entry in entries.items():
            if self._published.get((owner, entry.version)) != entry:
                return f"site {step.site} holds {entry}, which site {owner} never published"
        return None

    @staticmethod
    def _published_in(step: Step, entries: dict[int, Entry[Any]]) -> list[Entry[Any]]:
        """What was made durable, also where the site went down right after; and whatever a user asked for."""
        found = [effect.state for effect in step.effects if isinstance(effect, Persist)]
        durable = [state for state in found if isinstance(state, Entry)]
        asked = isinstance(step.event, Asked) and step.site in entries
        return [*durable, entries[step.site]] if asked else durable

    def at_end(self, world: WorldView) -> str | None:
        return None


class AllAgree:
    """Once faults have healed and the time to settle has passed, every site holds every owner's newest
    entry.
    """

    name = "sites converge"

    def after_step(self, step: Step, world: WorldView) -> str | None:
        return None

    def at_end(self, world: WorldView) -> str | None:
        newest = {
            owner: entries_of(world, owner)[owner]
            for owner in range(world.sites)
            if owner in entries_of(world, owner)
        }
        for site in range(world.sites):
            if world.machine(site) is None:
                return f"site {site} is still down"
            held = entries_of(world, site)
            if held != newest:
                owner = min(owner for owner in range(world.sites) if held.get(owner) != newest.get(owner))
                return f"site {site} holds {held.get(owner)}, site {owner} published {newest.get(owner)}"
        return None


def gossip_checkers() -> Sequence[Checker]:
    return (VersionsGrow(), NothingFromThinAir(), AllAgree())


def draw_publications(generator: np.random.Generator, sites: int, horizon_ms: float) -> tuple[Request, ...]:
    """Up to twelve values, each different, from random sites at random times."""
    count = int(generator.integers(1, 13))
    times = np.sort(generator.integers(0, int(horizon_ms), count)).tolist()
    return tuple(
        Request(float(at_ms), int(generator.integers(sites)), value) for value, at_ms in enumerate(times)
    )


def gossip_scenarios(params: GossipParams, faults: FaultParams | None = None) -> Callable[[int], Scenario]:
    """Random scenarios that end exactly when the protocol's own bound says that everyone agrees."""
    return lambda seed: draw_scenario(seed, draw_publications, params.convergence_ms, faults)
