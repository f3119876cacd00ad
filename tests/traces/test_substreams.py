"""Sub-streams by source address: nothing lost, rates that differ and move independently."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.errors import InputError
from mooring.traces.rates import rate_series, rate_table
from mooring.traces.read import arrival_instants
from mooring.traces.self_similarity import hurst
from mooring.traces.substreams import split, substream_of


def test_every_arrival_is_in_exactly_one_substream_in_order() -> None:
    instants_s = arrival_instants("bc-paug89-extract")
    parts = split(instants_s, seed=1, substreams=7)
    assert len(parts) == 7
    assert np.array_equal(np.sort(np.concatenate(parts)), instants_s)
    assert all((np.diff(part) >= 0).all() for part in parts)


def test_each_substream_has_a_tenth_of_the_addresses() -> None:
    assert np.bincount(substream_of(np.arange(1000, dtype=np.int32), 10)).tolist() == [100] * 10


def test_substreams_differ_and_move_independently() -> None:
    """As the ROD paper says of its sub-streams (7.3.5): rates "non-uniform and independent"."""
    instants_s = arrival_instants("bc-paug89-extract")
    spread, correlation, variation = [], [], []
    for seed in range(5):
        parts = split(instants_s, seed)
        table = rate_table({f"s{i}": part for i, part in enumerate(parts)}, bin_s=1.0)
        others = table.correlation()[~np.eye(10, dtype=bool)]
        spread.append(table.mean().max() / table.mean().min())
        correlation.append(np.abs(others).mean())
        variation.append((table.deviation() / table.mean()).min())
    assert min(spread) > 1.5
    assert np.mean(correlation) < 0.2
    assert min(variation) > 0.4


def test_substreams_stay_self_similar() -> None:
    parts = split(arrival_instants("bc-paug89-extract"), seed=0)
    assert np.mean([hurst(rate_series(part, 0.1)) for part in parts]) > 0.7


def test_a_stream_can_stay_whole_but_not_vanish() -> None:
    instants_s = np.arange(0.0, 10.0, 0.1)
    assert np.array_equal(split(instants_s, seed=0, substreams=1)[0], instants_s)
    assert [part.size for part in split(np.zeros(0), seed=0, substreams=3)] == [0, 0, 0]
    with pytest.raises(InputError, match="at least 1"):
        split(instants_s, seed=0, substreams=0)
