"""The picture of a run: what stands where, by the graph and by what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.contracts.picture import picture_of
from mooring.controller.known_model import KnownModel, known_model_in
from mooring.controller.run_headroom import run_headroom
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.service.view.run_document import RunPicture

DIAMOND = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}},
        "streams": {"x": {"rate": 100}, "y": {"rate": 100}, "z": {"rate": 100}},
        "operators": {
            "read": {"inputs": ["x"], "cost_us": 1000},
            "left": {"inputs": ["read"], "cost_us": 1000},
            "right": {"inputs": ["read"], "cost_us": 1000},
            "both": {"inputs": ["right"], "cost_us": 1000},
            "other": {"inputs": ["y"], "cost_us": 1000},
            "third": {"inputs": ["z"], "cost_us": 100},
        },
        "queries": {"both": {"reads": "both", "site": "b"}, "left": {"reads": "right", "site": "a"}},
    }
)


def status(**rates: float) -> dict[str, Any]:
    return {
        "at_s": 1.0,
        "since_start_s": 1.0,
        "stream_rates": rates,
        "sites": {},
        "fragments": {name: {"site": "a"} for name in DIAMOND.fragment_names},
    }


def test_layers_follow_the_graph_even_where_queries_have_the_names_of_fragments() -> None:
    picture = RunPicture(DIAMOND)
    assert picture.layers == {"read": 0, "left": 1, "right": 1, "both": 2, "other": 0, "third": 0}
    drawn = {(each["from"], each["to"]) for each in picture.document(status())["channels"]}
    assert drawn == {("read", "left"), ("read", "right"), ("right", "both")}


def test_the_slice_goes_through_the_streams_that_fill_a_site() -> None:
    """y alone overloads a, whatever x and z do."""
    picture = RunPicture(DIAMOND)
    assert picture.first_slice(status(x=10.0, y=3000.0, z=10.0)) == ("x", "y")


def test_a_slice_says_which_site_gets_more_than_it_can_do() -> None:
    """With everything at a, a row of x costs it four milliseconds of its one core."""
    picture = RunPicture(DIAMOND)
    assert picture.slice(status(x=200.0, y=0.0, z=0.0), "x", "y")["beyond"] is None
    assert picture.slice(status(x=300.0, y=0.0, z=0.0), "x", "y")["beyond"] == "a"


def test_every_site_has_its_own_headroom() -> None:
    """All at a: 4 ms per row of x, 1 of y, .1 of z."""
    rates = DIAMOND.with_rates([100.0, 50.0, 100.0])
    all_at_a = Placement.from_fragments(rates, FragmentSites(dict.fromkeys(DIAMOND.fragment_names, "a")))
    known = run_headroom(picture_of(rates, all_at_a)).as_json()
    document = RunPicture(DIAMOND).document(status() | {"headroom": known})
    assert document["headroom"] == known
    assert document["sites"][0]["headroom"] == pytest.approx(1 / (0.4 + 0.05 + 0.01))
    assert document["sites"][1]["headroom"] is None


def test_what_a_run_learnt_of_costs_and_capacities_is_what_is_shown() -> None:
    """x's first fragment costs twice what was stated, 2 + 3 ms per row, and a has half a core."""
    rates, capacity = {"x": 10.0, "y": 0.0, "z": 0.0}, {"a": 0.5}
    model = KnownModel(rates, capacity, {"read": 2.0}, {"third": 0.05})
    seen = json.loads(json.dumps(status(x=90.0) | {"model": model.as_json()}))
    assert known_model_in(seen) == model
    document = RunPicture(DIAMOND).document(seen)
    assert document["sites"][0]["expected_cores"] == pytest.approx(0.1)
    assert RunPicture(DIAMOND).slice(seen, "x", "y")["rates"] == [10.0, 0.0]


def test_a_run_that_has_not_measured_enough_says_so_instead_of_a_headroom() -> None:
    found = RunPicture(DIAMOND).document(status(x=100.0, y=50.0, z=100.0))["headroom"]
    assert found["factor"] is None
    assert found["missing"]
    assert found["words"].startswith("not known yet")


def test_who_goes_on_elsewhere_while_moves_are_made_is_told() -> None:
    records = [{"kind": "relocated", "at_s": 2.0, "list": "1", "sites": {"left": "b"}, "why": "a was lost"}]
    (line,) = RunPicture(DIAMOND).document(status(), records)["happenings"]
    assert (line["kind"], line["what"]) == ("recovery", "a was lost: left at b")


def test_what_was_not_measured_is_missing_and_not_zero() -> None:
    document = RunPicture(DIAMOND).document(status())
    assert document["sites"][0]["share"] is None
    assert document["streams"][0]["rate"] is None
    assert document["queries"][0]["latency_s"] is None
