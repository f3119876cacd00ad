"""The five steps from a point in the cost space to a site."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.algorithms.relaxation.mapping import Mapper, MappingParams, OpenSites, Ranking
from mooring.algorithms.relaxation.springs import Springs
from mooring.errors import InfeasibleError
from mooring.model.network.cost_space import CostSpace
from mooring.model.network.embedding import Embedding

NODES = 30


class LineSites(OpenSites):
    """Sites on a line, one millisecond apart, some of them dead, full, running the operator, or lying."""

    def __init__(self, **sets: set[int]) -> None:
        at = np.arange(float(NODES))
        super().__init__(np.abs(at[:, None] - at))
        self.sets = {"dead": set(), "full": set(), "refusing": set(), "running": set(), **sets}

    def _in(self, name: str, sites: np.ndarray) -> np.ndarray:
        return np.isin(sites, list(self.sets[name]))

    def answering(self, sites: np.ndarray) -> np.ndarray:
        return ~self._in("dead", sites)

    def lacking(self, operator: int, sites: np.ndarray) -> np.ndarray:
        return self._in("full", sites)

    def running(self, operator: int) -> np.ndarray:
        return np.array(sorted(self.sets["running"]), dtype=np.int64)

    def accept(self, operator: int, site: int) -> bool:
        return site not in self.sets["refusing"]


def mapper(
    sites: LineSites, params: MappingParams | None = None, wrong: dict[int, float] | None = None
) -> Mapper:
    """An operator between site 0 and site 20 that wants to be at 10."""
    position = np.arange(float(NODES))[:, None].copy()
    for node, claimed in (wrong or {}).items():
        position[node] = claimed
    springs = Springs.of(1, np.array([~0, 0]), np.array([0, ~20]), np.ones(2))
    embedding = Embedding(position, np.zeros(NODES), np.zeros(NODES))
    return Mapper(
        springs, np.array([[10.2]]), CostSpace(embedding), sites, params or MappingParams(candidates=3)
    )


def test_the_nearest_site_is_taken() -> None:
    assert mapper(LineSites()).place(0) == 10


def test_a_site_that_runs_the_operator_is_taken_before_a_nearer_one() -> None:
    found = mapper(LineSites(running={11, 29}))
    assert found.place(0) == 11
    assert found.report.reused == 1
    assert mapper(LineSites(running={29})).place(0) == 10


def test_the_search_widens_until_somebody_has_room() -> None:
    assert mapper(LineSites(full=set(range(3, 18)))).place(0) == 18


def test_the_dead_are_passed_over_and_counted() -> None:
    found = mapper(LineSites(dead={10, 11}))
    assert found.place(0) == 9
    assert found.report.ignored["it did not answer"] == 2
    assert "did not answer" in found.report.sentences()[0]


def test_who_claims_room_and_turns_the_operator_down_is_passed_over() -> None:
    found = mapper(LineSites(refusing={10, 11}))
    assert found.place(0) == 9
    assert found.report.ignored["it refused the operator after advertising room"] == 2


def test_nobody_left_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="none of 30 sites"):
        mapper(LineSites(full=set(range(NODES)))).place(0)


def test_a_liar_is_believed_by_default_and_found_out_with_distrust() -> None:
    liar = {29: 10.2}
    assert mapper(LineSites(), wrong=liar).place(0) == 29
    wary = mapper(LineSites(), MappingParams(candidates=3, distrust=0.5, distrust_ms=1.0), wrong=liar)
    assert wary.place(0) == 10
    assert wary.report.ignored["its latency contradicts its coordinate"] == 1


def test_probes_measure_the_candidates_and_the_ends_and_take_the_cheapest() -> None:
    class Skewed(LineSites):
        def measured_ms(self, sites: np.ndarray, others: np.ndarray) -> np.ndarray:
            return np.where(sites[:, None] == 12, 0.5, super().measured_ms(sites, others))

    found = mapper(Skewed(), MappingParams(candidates=6, probes=8))
    assert found.place(0) == 12
    assert found.report.most_probed <= 8
    ranked = mapper(Skewed(), MappingParams("estimated", probes=NODES))
    assert ranked.place(0) == 12


@pytest.mark.parametrize("ranking", ["nearest", "estimated"])
@pytest.mark.parametrize("probes", [1, 3, 7, 12, 20, NODES])
def test_as_many_sites_are_measured_as_asked_for_however_few_are_candidates(
    ranking: Ranking, probes: int
) -> None:
    found = mapper(LineSites(), MappingParams(ranking, candidates=3, probes=probes))
    found.place(0)
    assert found.report.probed == probes


@pytest.mark.parametrize("ranking", ["nearest", "estimated"])
def test_dead_and_full_sites_use_up_no_probes(ranking: Ranking) -> None:
    sites = LineSites(dead={8, 9, 11}, full={7, 10, 12, 13})
    found = mapper(sites, MappingParams(ranking, candidates=3, shortlist=8, probes=8))
    found.place(0)
    assert found.report.probed == 8
    few = mapper(LineSites(full=set(range(5, NODES))), MappingParams(ranking, candidates=3, probes=8))
    few.place(0)
    assert few.report.probed == 5  # nobody else has room


def test_probes_reach_no_further_for_reuse() -> None:
    """A running equal counts as near among the `candidates` alone."""
    found = mapper(LineSites(running={14}), MappingParams(candidates=3, probes=20))
    assert found.place(0) != 14
    assert found.report.reused == 0
