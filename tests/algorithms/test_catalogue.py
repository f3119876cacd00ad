"""Policies by name, with settings in words."""

from __future__ import annotations

import pytest

from mooring.algorithms.baselines.random_placement import Random
from mooring.algorithms.catalogue import (
    CENTRAL,
    DECIDERS,
    HOSTED,
    POLICIES,
    make_decider,
    make_policy,
    parse_setting,
)
from mooring.algorithms.exact.policy import Optimal
from mooring.algorithms.rod.policy import Rod
from mooring.contracts.policy import Policy
from mooring.errors import InputError


def test_every_policy_is_known_by_its_own_name_and_needs_no_settings() -> None:
    assert {"rod", "random", "llf", "max_rate", "connected", "correlation", "optimal"} <= set(POLICIES)
    for name in POLICIES:
        policy = make_policy(name)
        assert isinstance(policy, Policy)
        assert policy.name == name


def test_settings_are_read_by_the_type_of_their_field() -> None:
    assert make_policy("random", {"balanced": "no"}) == Random(balanced=False)
    assert make_policy("optimal", {"node_budget": "1000"}) == Optimal(node_budget=1000)
    assert make_policy("rod", {"class_one": "random", "weight_cap": "2.5"}) == Rod(
        class_one="random", weight_cap=2.5
    )


def test_a_setting_that_may_be_none_takes_none_or_its_type() -> None:
    assert parse_setting("none", int | None, "x") is None
    assert parse_setting("3", int | None, "x") == 3


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("rodd", {}, "'rodd'.*did you mean 'rod'"),
        ("rod", {"classone": "random"}, "'classone'.*did you mean 'class_one'"),
        ("rod", {"class_one": "randon"}, "'randon'.*did you mean 'random'"),
        ("rod", {"weight_cap": "heavy"}, "'heavy', expected a number"),
        ("optimal", {"node_budget": "1.5"}, "'1.5', expected a whole number"),
        ("random", {"balanced": "perhaps"}, "'perhaps', expected true or false"),
        ("llf", {"anything": "1"}, "'anything'"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest_word(
    name: str, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        make_policy(name, settings)


@pytest.mark.parametrize("name", DECIDERS)
def test_a_decider_in_one_place_never_has_the_name_of_machines(name: str) -> None:
    """What decided is told by this name: it says which of the two it was."""
    decider = make_decider(name)
    assert decider.name not in HOSTED
    assert decider.name in (name, f"{name}{CENTRAL}")
