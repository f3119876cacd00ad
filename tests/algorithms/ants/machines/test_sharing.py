"""What runs for one chain is shared by another that comes by, looked for again when it is enforced."""

from __future__ import annotations

import msgspec
import pytest

from lab.faults.ants_invariants import LIMIT, QUICK, ring_facts, some_chain
from lab.faults.placing_ants import (
    Aborted,
    Enforced,
    EnforcementAnt,
    PlacingSite,
    ReleaseChain,
)
from mooring.algorithms.ants.machines.messages import (
    ChainSpec,
    ScoutAnt,
    Segment,
)
from mooring.algorithms.ants.machines.scouting import new_scout, visit
from mooring.contracts.site_machine import Data, Received, Send, Started

SITES = 3
FIRST, SECOND = (some_chain(number, SITES, shares=True) for number in (0, 1))


def told(site: PlacingSite, message: Data) -> Data:
    (answer,) = (e.message for e in site.handle(Received(1, message), 0.0) if isinstance(e, Send))
    return answer


def site_with_the_first() -> PlacingSite:
    """Its two tasks that others have too, at half a core."""
    site = PlacingSite(0, ring_facts(SITES)[0], QUICK)
    site.handle(Started(0, None), 0.0)
    told(site, EnforcementAnt(FIRST, 1, LIMIT, (Segment(0, 0, 1, 1.0, 9.0, 0.0),), 0))
    assert site.deployed.load == pytest.approx(0.5)
    return site


def scout_of(chain: ChainSpec) -> ScoutAnt:
    """One task per site, up to nine tenths of a core, passing none by."""
    drawn = new_scout(chain, 1, 0, 0, QUICK.ants)
    return msgspec.structs.replace(drawn, greed=1, limit=LIMIT, skipped=0.0)


def scouted(site: PlacingSite, chain: ChainSpec) -> Segment:
    (segment,) = visit(scout_of(chain), 0, site.deployed).segments
    return segment


def test_a_scout_shares_beyond_its_greediness_at_the_wait_and_work_of_what_runs() -> None:
    site = site_with_the_first()
    found = scouted(site, SECOND)
    assert (found.first, found.last, found.shared, found.effect) == (0, 1, 2, 0.0)
    weight = SECOND.tasks[0][6]
    assert found.cost == pytest.approx(weight * (site.deployed.wait_s + 2 * 0.005))
    assert scouted(site, msgspec.structs.replace(SECOND, signatures=())).shared == 0
    assert scouted(site, msgspec.structs.replace(SECOND, signatures=(7, 1, 3))).shared == 0


def test_enforcement_shares_what_still_runs_and_adds_no_load() -> None:
    site = site_with_the_first()
    answer = told(site, EnforcementAnt(SECOND, 1, LIMIT, (scouted(site, SECOND),), 0))
    assert isinstance(answer, Enforced)
    assert answer.segments[0].shared == 2
    assert site.deployed.load == pytest.approx(0.5)
    told_of = site.handle(Received(0, ReleaseChain(0, 1)), 0.0)
    assert told_of  # it is written down that the second has it now
    assert site.deployed.load == pytest.approx(0.5)
    site.handle(Received(0, ReleaseChain(1, 1)), 0.0)
    assert site.deployed.load == 0.0


def test_enforcement_aborts_where_it_no_longer_runs_and_anew_costs_more() -> None:
    """Beside others, that is: an empty site would be cheaper than the full one."""
    site = site_with_the_first()
    segment = scouted(site, SECOND)
    site.handle(Received(0, ReleaseChain(0, 1)), 0.0)
    others = msgspec.structs.replace(some_chain(2, SITES), tasks=FIRST.tasks)
    told(site, EnforcementAnt(others, 1, LIMIT, (Segment(0, 0, 1, 1.0, 9.0, 0.0),), 0))
    answer = told(site, EnforcementAnt(SECOND, 1, LIMIT, (segment,), 0))
    assert isinstance(answer, Aborted)
    assert site.deployed.load == pytest.approx(0.5)


def test_enforcement_shares_what_came_since_it_was_scouted() -> None:
    site = PlacingSite(0, ring_facts(SITES)[0], QUICK)
    site.handle(Started(0, None), 0.0)
    alone = msgspec.structs.replace(scouted(site, SECOND), last=1, cost=9.0)
    told(site, EnforcementAnt(FIRST, 1, LIMIT, (Segment(0, 0, 1, 1.0, 9.0, 0.0),), 0))
    answer = told(site, EnforcementAnt(SECOND, 1, LIMIT, (alone,), 0))
    assert isinstance(answer, Enforced)
    assert answer.segments[0].shared == 2
    assert site.deployed.load == pytest.approx(0.5)


def test_behind_a_task_that_is_placed_anew_nothing_is_shared() -> None:
    """What feeds the running one is there already: another would run for nobody."""
    site = site_with_the_first()
    elsewhere = Segment(2, 0, 0, 1.0, 0.1, 0.0)
    scout = msgspec.structs.replace(scout_of(SECOND), segments=(elsewhere,), placed=1, path=(2, 0))
    (_, found) = visit(scout, 0, site.deployed).segments
    assert found.shared == 0
