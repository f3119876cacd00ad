"""The policy places what lost its site; survivors stay, and nothing goes to a lost site."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations

import pytest

from mooring.errors import InfeasibleError
from mooring.model.load.build import build_load_model
from mooring.model.placement.closed_sites import replace_lost
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.planning import plan

SITES = ("a", "b", "c")


def problem(fixed_cores: float = 0.01) -> Problem:
    return Problem.from_dict(
        {
            "sites": {name: {"capacity": 1.0} for name in SITES},
            "streams": {"x": {"site": "a", "rate": 100}, "y": {"site": "b", "rate": 100}},
            "operators": {
                "x:in": {"inputs": ["x"], "cost_us": 500, "site": "a", "fixed_cores": fixed_cores},
                "y:in": {"inputs": ["y"], "cost_us": 500, "site": "b", "fixed_cores": fixed_cores},
                **{
                    f"{stream}{k}": {"inputs": [f"{stream}:in"], "cost_us": 900, "fixed_cores": fixed_cores}
                    for stream in "xy"
                    for k in range(4)
                },
            },
        }
    )


def places(policy: str) -> Callable[[Problem], Placement]:
    def place(reduced: Problem) -> Placement:
        return plan(reduced, policy).placement

    return place


@pytest.mark.parametrize("policy", ["rod", "llf", "connected", "random", "max_rate"])
def test_survivors_stay_and_orphans_go_to_sites_that_are_up(policy: str) -> None:
    whole = problem()
    before = plan(whole, policy, seed=3).placement.by_fragment()
    for lost in chain(combinations(SITES, 1), combinations(SITES, 2)):
        after = replace_lost(whole, before, lost, places(policy))
        for name, site in before.items():
            pin = {"x:in": "a", "y:in": "b"}.get(name)
            if site not in lost or pin in lost:
                assert after[name] == site
            else:
                assert after[name] not in lost


def test_rod_spreads_the_orphans_of_one_site_over_those_left() -> None:
    whole = problem()
    before = FragmentSites({"x:in": "a", "y:in": "b"} | {f"{s}{k}": "c" for s in "xy" for k in range(4)})
    after = replace_lost(whole, before, ["c"], places("rod"))
    assert sorted(after[f"x{k}"] for k in range(4)) == ["a", "a", "b", "b"]
    assert sorted(after[f"y{k}"] for k in range(4)) == ["a", "a", "b", "b"]


def test_where_the_policy_finds_nothing_orphans_fill_the_sites_left_and_the_rest_waits() -> None:
    whole = problem(fixed_cores=0.3)  # ten fragments: more than two sites can take at all
    before = FragmentSites({operator.name: operator.site or "c" for operator in whole.operators})
    after = replace_lost(whole, before, ["c"], places("rod"))
    model = build_load_model(whole)
    loads = dict(
        zip(whole.fragment_names, model.coefficients @ model.present + model.fixed_cores, strict=True)
    )
    for site in ("a", "b"):
        used = sum(loads[name] for name, at in after.items() if at == site)
        assert used <= 1.0
        assert used + min(loads[name] for name, at in after.items() if at == "c") > 1.0
    assert after.keys() == before.keys()


def test_losing_every_site_is_said() -> None:
    whole = problem()
    with pytest.raises(InfeasibleError, match="every site"):
        replace_lost(whole, plan(whole).placement.by_fragment(), SITES, places("rod"))
