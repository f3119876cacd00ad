"""A summary says of many rows what they have in common, and nothing that they do not say."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.experiments.summary import Reference, Shown, Summary, summarise
from lab.experiments.trials import Row
from mooring.cli.output.result_table import ResultTable

TRIALS: list[Row] = [
    {"network": network, "policy": policy, "penalty": penalty, "seed": seed}
    for seed in (0, 1)
    for network, policy, penalty in (
        ("plane", "relaxation", 0.1 + 0.1 * seed),
        ("plane", "random", 0.8),
        ("aws", "relaxation", 0.3),
    )
]


def columns(table: ResultTable) -> dict[str, list[str]]:
    return {name: [row[at] for row in table.rows] for at, name in enumerate(table.headings)}


def test_trials_of_a_group_become_one_line_with_mean_standard_error_and_count() -> None:
    table = summarise(Summary(by=("network", "policy"), shown=(Shown("penalty"),)), TRIALS)
    assert table.headings == ("network", "policy", "penalty", "trials")
    assert table.rows == (
        ("plane", "relaxation", "0.150 ±0.050", "2"),
        ("plane", "random", "0.800 ±0.000", "2"),
        ("aws", "relaxation", "0.300 ±0.000", "2"),
    )


@given(st.lists(st.floats(0.1, 9.0), min_size=2, max_size=20))
def test_the_standard_error_is_that_of_the_mean(values: list[float]) -> None:
    rows: list[Row] = [{"value": value} for value in values]
    ((cell, count),) = summarise(Summary(by=(), shown=(Shown("value"),)), rows).rows
    mean, error = map(float, cell.split(" ±"))
    assert mean == pytest.approx(fmean(values), abs=6e-4)
    assert error == pytest.approx(stdev(values) / len(values) ** 0.5, abs=6e-4)
    assert int(count) == len(values)


def test_one_trial_alone_has_no_standard_error() -> None:
    assert summarise(Summary(by=("policy",), shown=(Shown("penalty"),)), TRIALS[:1]).rows == (
        ("relaxation", "0.100", "1"),
    )


def test_rows_that_are_means_already_keep_their_error_and_count() -> None:
    rows: list[Row] = [{"policy": "rod", "ratio": 0.6, "error": 0.02, "graphs": 20}]
    summary = Summary(by=("policy",), shown=(Shown("ratio", error_column="error"),), counted="graphs")
    assert summarise(summary, rows).rows == (("rod", "0.600 ±0.020", "20"),)
    with pytest.raises(ValueError, match="too many values"):
        summarise(summary, rows * 2)


def test_the_papers_figures_stand_beside_the_groups_that_have_one() -> None:
    paper = Reference("paper", {("plane", "random"): 0.81, ("plane", "relaxation"): 0.2})
    summary = Summary(by=("network", "policy"), shown=(Shown("penalty", beside=paper),))
    assert columns(summarise(summary, TRIALS))["paper"] == ["0.20", "0.81", ""]


def test_only_the_rows_asked_for_count() -> None:
    summary = Summary(by=(), shown=(Shown("penalty"),), where=lambda row: row["network"] == "aws")
    assert summarise(summary, TRIALS).rows == (("0.300 ±0.000", "2"),)


def test_the_least_and_the_largest_and_a_mean_without_error() -> None:
    shown = (
        Shown("penalty", "least", how="least"),
        Shown("penalty", "largest", how="largest"),
        Shown("penalty", "mean alone", how="mean alone"),
    )
    summary = Summary(by=(), shown=shown, counted="")
    assert summarise(summary, TRIALS).rows == (("0.100", "0.800", "0.417"),)


def test_what_is_not_a_number_is_left_out_and_whole_numbers_have_no_decimals() -> None:
    rows: list[Row] = [{"late_ms": float("nan"), "lost": 2}, {"late_ms": 5.0, "lost": 4}]
    assert summarise(Summary(by=("lost",), shown=(Shown("late_ms"),)), rows).rows == (
        ("2", "", "1"),
        ("4", "5", "1"),
    )


def test_values_are_grouped_in_steps_in_their_order() -> None:
    rows: list[Row] = [{"distance": distance, "ratio": distance / 2} for distance in (0.95, 0.31, 0.39)]
    summary = Summary(by=("distance",), steps={"distance": 0.2}, shown=(Shown("ratio", how="largest"),))
    assert summarise(summary, rows).rows == (("0.2 to 0.4", "0.195", "2"), ("0.8 to 1", "0.475", "1"))


def test_policies_stand_side_by_side_and_gaps_stay_empty() -> None:
    summary = Summary(by=("network",), across="policy", shown=(Shown("penalty", how="mean alone"),))
    table = summarise(summary, TRIALS)
    assert table.headings == ("network", "relaxation", "random", "trials")
    assert table.rows == (("plane", "0.150", "0.800", "2"), ("aws", "0.300", "", "2"))


def test_side_by_side_nothing_can_stand_beside() -> None:
    paper = Reference("paper", {})
    for shown in ((Shown("a"), Shown("b")), (Shown("a", beside=paper),)):
        with pytest.raises(ValueError, match="only one thing"):
            Summary(by=(), across="policy", shown=shown)


def test_no_rows_give_no_lines() -> None:
    assert summarise(Summary(by=("policy",), shown=(Shown("penalty"),)), []).rows == ()
