"""The shipped extracts: small, found by name, and like the traces they were cut from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.arrays import Floats
from mooring.errors import InputError
from mooring.traces.counts import read_counts
from mooring.traces.extracts import ARRIVALS_NAME, COUNTS_NAME, DATA, extract_path, read_extract
from mooring.traces.rates import rate_series
from mooring.traces.read import arrival_instants
from mooring.traces.self_similarity import hurst


def test_the_extracts_take_less_than_300_kilobytes_and_come_with_their_terms() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 300_000
    source = (DATA / "SOURCE.md").read_text()
    for name in (ARRIVALS_NAME, COUNTS_NAME):
        path = extract_path(name)
        assert path is not None
        assert path.is_file()
        assert path.name in source
    assert "HEWLETT-PACKARD COMPANY WILL NOT IN ANY EVENT BE LIABLE" in source


def test_ten_minutes_of_bellcore_traffic_are_as_bursty_as_source_md_says() -> None:
    instants_s = arrival_instants("bc-paug89-extract")
    rates = rate_series(instants_s, 1.0, span_s=600.0)
    assert instants_s.size == 192_475
    assert rates.mean() == pytest.approx(320.8, abs=0.1)
    assert rates.std() == pytest.approx(121.0, abs=0.5)
    assert hurst(rate_series(instants_s, 0.01)) == pytest.approx(0.816, abs=0.01)


def test_a_week_of_world_cup_requests_adds_up() -> None:
    counts = read_counts("worldcup98-extract")
    assert counts.start == "1998-06-24T00:00:00"
    assert counts.counts.size == 7 * 24 * 60
    assert counts.counts.sum() == 345_374_586


def write_extract(path: Path, instants_s: Floats, tick_us: int) -> None:
    """As data/SOURCE.md describes the form."""
    gaps = np.diff(np.rint((instants_s - instants_s[0]) * (1e6 / tick_us)).astype(np.int64))
    low, high = (gaps & 255).astype(np.uint8), (gaps >> 8).astype(np.uint8)
    np.savez_compressed(path, tick_us=np.int64(tick_us), gap_low=low, gap_high=high)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gaps_us=st.lists(st.integers(0, 500_000), max_size=50), tick_us=st.integers(8, 100))
def test_rounding_moves_no_instant_by_more_than_half_a_tick(
    tmp_path: Path, gaps_us: list[int], tick_us: int
) -> None:
    instants_s = np.cumsum([0, *gaps_us]) / 1e6
    path = tmp_path / "extract.npz"
    write_extract(path, instants_s, tick_us)
    np.testing.assert_allclose(read_extract(path), instants_s, rtol=0, atol=tick_us / 2e6 + 1e-12)


@pytest.mark.parametrize(
    "fields",
    [
        {"tick_us": 0, "gap_low": np.ones(2, np.uint8), "gap_high": np.ones(2, np.uint8)},
        {"tick_us": 20, "gap_low": np.ones(2, np.uint8), "gap_high": np.ones(3, np.uint8)},
        {"tick_us": 20, "gap_low": np.ones(2), "gap_high": np.ones(2, np.uint8)},
        {"tick_us": 10**18, "gap_low": np.ones(2, np.uint8), "gap_high": np.ones(2, np.uint8)},
        {"gap_low": np.ones(2, np.uint8)},
        {"tick_us": np.array([{}], dtype=object), "gap_low": np.ones(2), "gap_high": np.ones(2)},
    ],
)
def test_a_malformed_extract_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **fields)
    with pytest.raises(InputError):
        read_extract(path)
