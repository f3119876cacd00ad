"""Scouts of running queries as they go from site to site: every site has all chains, so scouts carry none.

Each site computes with the chain as it received it last. A scout of a chain that the site lacks, or has with
another number of tasks, goes no further.
"""

from __future__ import annotations

import msgspec

from mooring.algorithms.ants.machines.messages import SHORT, ChainSpec, ScoutAnt, ScoutReturn, Segment


class LightScout(msgspec.Struct, frozen=True, array_like=True):
    """A `ScoutAnt` with its chain's ends alone; arrays leave out the names of fields."""

    chain: int
    tasks: int
    source: int
    destination: int
    attempt: int
    number: int
    state: int
    greed: int
    limit: float
    skipped: float
    astray: float
    path: tuple[int, ...]
    segments: tuple[tuple[int, int, int, float, float, float, int], ...]
    """Fields of a `Segment`."""
    placed: int
    variability: float


class WalkingScout(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    scout: LightScout


class ReturningScout(msgspec.Struct, frozen=True, tag=True, rename=SHORT):
    """As a `ScoutReturn`."""

    scout: LightScout
    end_cost: float
    position: int
    behind: tuple[tuple[float, float], ...]
    looks_by: bool
    onward: float


def light(ant: ScoutAnt | ScoutReturn) -> WalkingScout | ReturningScout:
    if isinstance(ant, ScoutReturn):
        # Who goes back over the sites chosen needs no path.
        scout = msgspec.structs.replace(ant.scout, path=())
        return ReturningScout(_light(scout), ant.end_cost, ant.position, ant.behind, ant.looks_by, ant.onward)
    return WalkingScout(_light(ant))


def whole(ant: WalkingScout | ReturningScout, known: ChainSpec | None) -> ScoutAnt | ScoutReturn | None:
    """With what is known of its chain here; None if that is nothing, or another chain by now."""
    walking = ant.scout
    if known is None or len(known.tasks) != walking.tasks:
        return None
    chain = msgspec.structs.replace(known, source=walking.source, destination=walking.destination)
    scout = ScoutAnt(
        chain,
        walking.attempt,
        walking.number,
        walking.state,
        walking.greed,
        walking.limit,
        walking.skipped,
        walking.astray,
        walking.path,
        tuple(Segment(*each) for each in walking.segments),
        walking.placed,
        walking.variability,
    )
    if isinstance(ant, WalkingScout):
        return scout
    return ScoutReturn(scout, ant.end_cost, ant.position, ant.behind, ant.looks_by, ant.onward)


def _light(scout: ScoutAnt) -> LightScout:
    chain = scout.chain
    return LightScout(
        chain.number,
        len(chain.tasks),
        chain.source,
        chain.destination,
        scout.attempt,
        scout.number,
        scout.state,
        scout.greed,
        scout.limit,
        scout.skipped,
        scout.astray,
        scout.path,
        tuple(msgspec.structs.astuple(segment) for segment in scout.segments),
        scout.placed,
        scout.variability,
    )
