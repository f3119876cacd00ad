"""Routing ants: forward along pheromones past the queues, back past the cells (sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import msgspec

from mooring.algorithms.ants import rules
from mooring.algorithms.ants.machines.cell import Cell
from mooring.algorithms.ants.machines.colony_params import SiteFacts
from mooring.algorithms.ants.machines.messages import ChainSpec, RoutingAnt, RoutingReturn


def new_routing_ant(chain: ChainSpec, number: int, seed: int) -> RoutingAnt:
    state = rules.ant_seed(seed, chain.number, number)
    return RoutingAnt(chain.number, number, chain.destination, state, (chain.source,), (0.0,), (0.0,))


def forward(
    ant: RoutingAnt, cell: Cell, facts: SiteFacts, wait_s: float, now_ms: float
) -> tuple[int, RoutingAnt] | None:
    """The next site and the ant as it will be there; None if it dies here.

    Where it must return to a site of its path, the cycle is forgotten; if the cycle took longer than all
    before it, the ant dies.
    """
    here = ant.path[-1]
    assert here != ant.destination
    other, state = cell.next_hop(ant.destination, ant.path, ant.state, now_ms)
    took_s = wait_s + facts.to_s[other]
    if not took_s < math.inf:
        return None
    now_s, clock_s = ant.now_s + took_s, ant.clock_s + took_s
    if other not in ant.path:
        return other, msgspec.structs.replace(
            ant,
            state=state,
            path=(*ant.path, other),
            elapsed_s=(*ant.elapsed_s, now_s),
            age_s=(*ant.age_s, clock_s),
            now_s=now_s,
            clock_s=clock_s,
        )
    begun = ant.path.index(other)
    if clock_s - ant.age_s[begun] > ant.age_s[begun]:
        return None
    return other, msgspec.structs.replace(
        ant,
        state=state,
        path=ant.path[: begun + 1],
        elapsed_s=ant.elapsed_s[: begun + 1],
        age_s=ant.age_s[: begun + 1],
        now_s=ant.elapsed_s[begun],
        clock_s=clock_s,
    )


def backward(back: RoutingReturn, cell: Cell, now_ms: float) -> None:
    """Reinforce the way that it took from here, by what the rest of the trip took."""
    ant, position = back.ant, back.position
    trip_s = ant.now_s - ant.elapsed_s[position]
    cell.reinforce(ant.destination, ant.path[position + 1], trip_s, now_ms)
