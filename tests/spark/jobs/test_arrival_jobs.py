"""Packets drawn stretch by stretch are those drawn all at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.spark.jobs.arrival_jobs import PacketDraws
from mooring.traces.packets import PacketParams, draw_packets

INSTANTS_S = np.cumsum(np.random.default_rng(2).exponential(0.01, 3000))


def by_stretches(cuts: list[int], seed: int, params: PacketParams) -> np.ndarray:
    since_first_s = INSTANTS_S - INSTANTS_S[0]
    draws = PacketDraws.of(seed, float(since_first_s[-1]), INSTANTS_S.size, params)
    sources, trains, last_start_s = [], 0, 0.0
    edges = [0, *sorted(cuts), INSTANTS_S.size]
    for first, end in pairwise(edges):
        stretch_s = since_first_s[first:end]
        sources.append(draws.sources(stretch_s, first, trains, last_start_s))
        starts_s = stretch_s[draws.starts(first, stretch_s.size)]
        trains += starts_s.size
        last_start_s = float(starts_s[-1]) if starts_s.size else last_start_s
    return np.concatenate(sources)


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, INSTANTS_S.size), max_size=8), seed=st.integers(0, 2**63 - 1))
def test_any_cuts_give_the_sources_of_one_draw(cuts: list[int], seed: int) -> None:
    whole = draw_packets(INSTANTS_S, seed).source
    np.testing.assert_array_equal(by_stretches(cuts, seed, PacketParams()), whole)


@pytest.mark.parametrize("train", [1.0, 500.0])
def test_trains_longer_than_a_stretch_keep_their_session(train: float) -> None:
    params = PacketParams(train=train)
    whole = draw_packets(INSTANTS_S, 9, params).source
    np.testing.assert_array_equal(by_stretches(list(range(0, 3000, 7)), 9, params), whole)
