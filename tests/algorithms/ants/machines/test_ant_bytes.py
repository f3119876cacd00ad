"""The bytes that compiled ants count are those of the protocol's messages."""

from __future__ import annotations

import msgspec
import pytest

from mooring.algorithms.ants.cell_kernels import ANT_BYTES, HOP_BYTES
from mooring.algorithms.ants.colony import LIGHT_SCOUT_BYTES, SCOUT_BYTES
from mooring.algorithms.ants.colony_kernels import BACK_BYTES, BORDER_BYTES
from mooring.algorithms.ants.machines.messages import ChainSpec, RoutingAnt, ScoutAnt, ScoutReturn, Segment
from mooring.algorithms.ants.machines.scout_encoding import light


def encoded(message: object) -> int:
    return len(msgspec.msgpack.encode(message))


@pytest.mark.parametrize("hops", [3, 10, 30])
def test_routing_ants(hops: int) -> None:
    path, times = tuple(range(200, 200 + hops)), tuple(0.37 * k for k in range(hops))
    ant = RoutingAnt(123, 45, 301, 2**30, path, times, times, 0.3, 0.4)
    assert encoded(ant) == pytest.approx(ANT_BYTES + HOP_BYTES * hops, rel=0.15)


@pytest.mark.parametrize("tasks", [2, 3, 5])
@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_scouts_there_and_back_with_their_chain_and_without(tasks: int, chosen: int) -> None:
    chain = ChainSpec(123, ((0.37,) * 9,) * tasks, (), 200, False, 1.1, 301, False, 0.1)
    segments = tuple(Segment(200 + k, k, k, 0.7, 0.3, 0.1) for k in range(chosen))
    scout = ScoutAnt(chain, 1, 45, 2**30, 2, 0.9, 0.3, 0.1, tuple(range(200, 206)), segments, chosen, 1.1)
    borders = ((0.3, 0.1),) * (tasks if chosen > 1 else 0)
    back = ScoutReturn(scout, 0.3, 1, borders, looks_by=True, onward=0.2)
    more = BACK_BYTES + (BORDER_BYTES * tasks if chosen > 1 else 0.0)
    for own, own_back, (base, per_task, per_site) in (
        (scout, back, SCOUT_BYTES),
        (light(scout), light(back), LIGHT_SCOUT_BYTES),
    ):
        expected = base + per_task * tasks + per_site * chosen
        assert encoded(own) == pytest.approx(expected, rel=0.15)
        assert encoded(own_back) == pytest.approx(expected + more, rel=0.15)
