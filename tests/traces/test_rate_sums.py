"""Moments and correlations from sums are those of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mooring.traces.rate_sums import RateSums
from mooring.traces.rates import RateTable

COUNTS = arrays(np.int64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(0, 10**6))


@given(counts=COUNTS, bin_s=st.sampled_from([0.5, 1.0, 60.0]))
def test_sums_give_what_the_table_gives(counts: np.ndarray, bin_s: float) -> None:
    names = tuple("abcd"[: counts.shape[1]])
    sums = RateSums.of_counts(counts, bin_s, names)
    table = RateTable(bin_s * np.arange(len(counts), dtype=np.float64), names, counts / bin_s)
    np.testing.assert_allclose(sums.mean(), table.mean(), rtol=1e-12)
    np.testing.assert_allclose(sums.deviation(), table.deviation(), rtol=1e-9, atol=1e-9 * table.rates.max())
    assert sums.peak() == table.rates.max(axis=0).tolist()
    if len(counts) > 2 and table.deviation().min() > 1e-6 * table.rates.max():
        np.testing.assert_allclose(sums.correlation(), table.correlation(), atol=1e-6)


def test_a_stream_that_never_changes_is_correlated_with_itself_alone() -> None:
    sums = RateSums.of_counts(np.array([[1, 5, 0], [2, 5, 0], [3, 5, 0]]), 1.0, ("a", "b", "c"))
    assert sums.correlation().tolist() == np.eye(3).tolist()
    assert sums.deviation()[1:] == [0.0, 0.0]


def test_nothing_cancels_where_rates_are_large_and_hardly_move() -> None:
    counts = np.array([[10**9, 10**9 + 1], [10**9 + 1, 10**9], [10**9, 10**9 + 1]])
    sums = RateSums.of_counts(counts, 1.0, ("up", "down"))
    assert sums.correlation()[0, 1] == pytest.approx(-1.0, abs=1e-15)
    assert sums.deviation() == pytest.approx([2**0.5 / 3] * 2, rel=1e-15)
