"""Rate series, what describes them, and their CSV."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.model.problem.history import read_history_columns
from mooring.traces.rates import RateTable, rate_series, rate_table, read_rates, write_rates


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 10))
def test_rates_times_bin_length_count_the_arrivals_of_whole_bins(instants: list[float], bin_s: float) -> None:
    instants_s = np.sort(instants)
    rates = rate_series(instants_s, bin_s, span_s=101.0)
    covered = (instants_s < rates.size * bin_s).sum()
    assert (rates * bin_s).sum() == pytest.approx(covered)


def test_streams_that_end_early_get_zeros_to_the_common_end() -> None:
    table = rate_table({"a": np.array([0.1, 3.9]), "b": np.array([0.2])}, bin_s=1.0, span_s=4.0)
    assert table.rates.tolist() == [[1, 1], [0, 0], [0, 0], [1, 0]]
    assert table.time_s.tolist() == [0, 1, 2, 3]


def test_correlation_agrees_with_numpy_and_survives_a_constant_stream() -> None:
    rates = np.random.default_rng(0).poisson(10, (200, 3)).astype(float)
    table = RateTable(np.arange(200.0), ("a", "b", "c"), rates)
    np.testing.assert_allclose(table.correlation(), np.corrcoef(rates.T), atol=1e-12)
    rates[:, 1] = 5.0
    assert table.correlation()[1].tolist() == [0, 1, 0]
    np.testing.assert_allclose(table.deviation(), rates.std(axis=0))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rates=arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(0, 1e9)))
def test_a_table_survives_its_csv(tmp_path: Path, rates: Floats) -> None:
    path = tmp_path / "history.csv"
    names = tuple(f"strøm, {column}" for column in range(rates.shape[1]))
    write_rates(path, RateTable(60.0 * np.arange(rates.shape[0], dtype=np.float64), names, rates))
    back = read_rates(path)
    assert back.streams == names
    np.testing.assert_allclose(back.rates, rates, rtol=1e-8, atol=1e-300)


def test_the_csv_is_the_documented_one(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    write_rates(path, RateTable(np.array([0.0, 0.5]), ("a", "b"), np.array([[1.0, 2.5], [0.0, 1e6]])))
    assert path.read_text() == "time_s,a,b\n0,1,2.5\n0.5,0,1000000\n"


def test_problem_files_read_the_same_rates(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    table = rate_table({"packets": np.arange(0, 60, 0.3), "dns": np.arange(0, 60, 1.7)}, bin_s=10.0)
    write_rates(path, table)
    columns = read_history_columns(path)
    assert tuple(columns) == table.streams
    np.testing.assert_allclose(np.column_stack(list(columns.values())), table.rates)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1"),
        ("when,a\n0,1\n", "line 1"),
        ("time_s,a,a\n0,1,1\n", "named twice"),
        ("time_s,a\n", "no rates"),
        ("time_s,a\n0,x\n", "line 2"),
        ("time_s,a\n0,1,2\n", "line 2"),
        ("time_s,a\n0,-1\n", "line 2"),
        ("time_s,a\n0,nan\n", "line 2"),
        ("time_s,a\n0,1\n1,1\n3,1\n", "line 3"),
        ("time_s,a\n0,1\n0,1\n", "line 2"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "history.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=what):
        read_rates(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=40), at=st.integers(0, 40), cut=st.integers(0, 40))
def test_a_damaged_table_never_raises_anything_but_an_input_error(
    tmp_path: Path, noise: bytes, at: int, cut: int
) -> None:
    path = tmp_path / "history.csv"
    whole = b"time_s,a,b\n0,1,2.5\n0.5,0,1000000\n1,4,4\n"
    path.write_bytes(whole[:at] + noise + whole[at + cut :])
    with contextlib.suppress(InputError):
        assert (read_rates(path).rates >= 0).all()


def test_bins_without_meaning_are_refused() -> None:
    for bin_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="bin_s"):
            rate_series(np.array([1.0]), bin_s)
    with pytest.raises(InputError, match="too many"):
        rate_series(np.array([1e12]), 1e-3)
    with pytest.raises(InputError, match="begin at 0"):
        rate_series(np.array([-1.0]), 1.0)
