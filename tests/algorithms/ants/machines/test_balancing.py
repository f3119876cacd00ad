"""A scout on its way back: tasks go over borders, and neighbours take over."""

from __future__ import annotations

import msgspec
import pytest

from mooring.algorithms.ants.machines.colony_params import ENDLESS, SiteFacts
from mooring.algorithms.ants.machines.deployed import Deployed
from mooring.algorithms.ants.machines.messages import ChainSpec, ScoutAnt, ScoutReturn, Segment
from mooring.algorithms.ants.machines.scouting import balanced, reported

LIMIT = 0.95
TO_S = (
    (0.0, 0.03, 0.06, 0.04),
    (0.03, 0.0, 0.03, 0.01),
    (0.06, 0.03, 0.0, 0.02),
    (0.04, 0.01, 0.02, 0.0),
)
"""Messages go from site 0 to site 2; site 3 is a little off the way."""


def chain(tasks: int = 3) -> ChainSpec:
    return ChainSpec(
        7, ((10.0, 0.01, 0.0, 0.01, 1.0, 0.0, 1.0, 0.0, 0.0),) * tasks, (), 0, False, 1.0, 2, False, 1.0
    )


class Sites:
    """All of them, to walk a scout home."""

    def __init__(self, capacities: tuple[float, ...], neighbours: dict[int, tuple[int, ...]]) -> None:
        self.neighbours = neighbours
        self.deployed = [
            Deployed(s, SiteFacts(neighbours.get(s, ()), TO_S[s], TO_S[s], cores, 100.0))
            for s, cores in enumerate(capacities)
        ]

    def cost(self, segments: list[tuple[int, int, int]]) -> list[Segment]:
        found, before = list[Segment](), 0
        for site, first, last in segments:
            cost, effect, _ = self.deployed[site].cost(
                chain(), first, last, 1.0, before, waits=True, limit=LIMIT
            )
            found.append(Segment(site, first, last, 1.0, cost, effect))
            before = site
        return found

    def home(self, segments: list[tuple[int, int, int]]) -> tuple[ScoutReturn, list[int]]:
        """As the leader gets it, and the sites that it came by."""
        own = self.cost(segments)
        scout = ScoutAnt(chain(), 1, 1, 12345, 1, 0.6, 0.0, 0.0, (0, 1, 2), tuple(own), 3, 1.0)
        end_cost = self.deployed[2].end_cost(chain(), own[-1].site)
        back, at, passed = ScoutReturn(scout, end_cost, len(own) - 1), own[-1].site, list[int]()
        while back.position >= 0:
            passed.append(at)
            at, back = balanced(back, at, self.neighbours.get(at, ()), self.deployed[at], LIMIT)
        assert at == chain().source
        return back, passed


def where(back: ScoutReturn) -> list[int]:
    return [s.site for s in back.scout.segments for _ in range(s.first, s.last + 1)]


def test_all_tasks_go_over_to_the_faster_site() -> None:
    """Site 2, which is where they go to, is ten times as fast: no task stays on the way there."""
    sites = Sites((1.0, 1.0, 10.0, 1.0), {})
    back, passed = sites.home([(1, 0, 1), (2, 2, 2)])
    assert (where(back), passed) == ([2, 2, 2], [2, 1])
    assert reported(back)[0] == pytest.approx(sites.cost([(2, 0, 2)])[0].cost)


def test_all_tasks_go_back_to_the_faster_site() -> None:
    sites = Sites((1.0, 10.0, 1.0, 1.0), {})
    back, _ = sites.home([(1, 0, 0), (2, 1, 2)])
    assert where(back) == [1, 1, 1]
    assert reported(back)[0] == pytest.approx(sites.cost([(1, 0, 2)])[0].cost + 0.03)


def test_a_neighbour_takes_over_where_that_costs_less_its_way_included() -> None:
    sites = Sites((1.0, 1.0, 1.0, 10.0), {1: (3,)})
    back, passed = sites.home([(1, 0, 2)])
    assert (where(back), passed) == ([3, 3, 3], [1, 3])
    assert reported(back)[0] == pytest.approx(sites.cost([(3, 0, 2)])[0].cost + 0.02)
    slow = Sites((1.0, 1.0, 1.0, 1.0), {1: (3,)})
    assert where(slow.home([(1, 0, 2)])[0]) == [1, 1, 1]


def test_a_site_has_one_segment_of_a_chain() -> None:
    sites = Sites((1.0, 10.0, 10.0, 1.0), {1: (2,), 2: (1,)})
    assert sites.home([(1, 0, 1), (2, 2, 2)])[1] == [2, 1]


def test_what_is_shared_stays_where_it_runs() -> None:
    sites = Sites((1.0, 1.0, 10.0, 1.0), {1: (3,)})
    own = [Segment(1, 0, 1, 1.0, 0.1, 0.0, shared=1), *sites.cost([(2, 2, 2)])]
    scout = ScoutAnt(chain(), 1, 1, 12345, 1, 0.6, 0.0, 0.0, (0, 1, 2), tuple(own), 3, 1.0)
    to, back = balanced(ScoutReturn(scout, 0.0, 1), 2, (), sites.deployed[2], LIMIT)
    to, back = balanced(back, to, (3,), sites.deployed[1], LIMIT)
    assert (to, back.scout.segments) == (0, tuple(own))


def test_what_scouts_carry_where_there_is_no_room_can_be_traced() -> None:
    """JSON has no infinity: a trace with one could not be replayed."""
    own = Sites((1.0, 1.0, 1.0, 1.0), {}).cost([(1, 0, 1), (2, 2, 2)])
    scout = ScoutAnt(chain(), 1, 1, 12345, 1, 0.6, 0.0, 0.0, (0, 1, 2), tuple(own), 3, 1.0)
    full = Sites((1.0, 1.0, 0.15, 1.0), {}).deployed[2]
    _, back = balanced(ScoutReturn(scout, 0.0, 1), 2, (), full, LIMIT)
    assert [cost == ENDLESS for cost, _ in back.behind] == [True, True, False, False]
    assert msgspec.json.decode(msgspec.json.encode(back), type=ScoutReturn) == back
