"""Boxes begin as large as the network asks for, and grow by what they have held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mooring.algorithms.overlay.protocol.candidate_search import FIRST_RADIUS_MS, CandidateSearches
from mooring.algorithms.overlay.protocol.directory import Advert, Directory, DirectoryParams, Found, Search
from mooring.algorithms.overlay.protocol.messages import CandidateSite
from mooring.algorithms.overlay.protocol.monitor import NetworkMonitor
from mooring.contracts.site_machine import Effect, Send
from mooring.model.network.coordinate import Coordinate
from mooring.model.network.vivaldi import VivaldiParams

SITES, WANTED = 1000, 8
HERE = Coordinate((0.0, 0.0, 0.0))


class Searched:
    """One site's searches around one point, and the answers that they get."""

    def __init__(self, apart_ms: float | None) -> None:
        monitor = NetworkMonitor(0, np.random.default_rng(0), VivaldiParams(), HERE)
        for site in range(1, 17):
            if apart_ms is not None:
                monitor.learn_place(site, Coordinate((apart_ms, 0.0, 0.0)))
        self.searches = CandidateSearches(Directory(0, SITES, DirectoryParams()), monitor, SITES, 3)
        self.found: tuple[CandidateSite, ...] | None = None

    def begin(self) -> float:
        return self._radius_ms(self.searches.near([HERE], 0.1, 0.0, WANTED, self._done))

    def answer(self, adverts: int) -> float | None:
        """The radius of the next box, if there is one."""
        held = tuple(Advert(k, 1, (0.0, 0.0, 0.0, 1.0, 1.0), 1e9, HERE) for k in range(adverts))
        effects = self.searches.found(Found(self.number, held, 3, True))
        return self._radius_ms(effects) if effects else None

    def _radius_ms(self, effects: Sequence[Effect]) -> float:
        (effect,) = effects
        assert isinstance(effect, Send)
        assert isinstance(effect.message, Search)
        self.number = effect.message.number
        return max(each.most for each in effect.message.ranges if each.attribute == 0)

    def _done(self, found: tuple[CandidateSite, ...]) -> Sequence[Effect]:
        self.found = found
        return ()


def test_the_first_box_is_as_large_as_the_network_is_wide() -> None:
    assert Searched(None).begin() == FIRST_RADIUS_MS
    for apart_ms in (30.0, 300.0):
        assert Searched(apart_ms).begin() == pytest.approx(apart_ms * (2 * WANTED / SITES) ** (1 / 3))


def test_a_box_grows_by_what_it_held_and_the_next_search_begins_where_this_one_ended() -> None:
    searched = Searched(300.0)
    first = searched.begin()
    assert searched.answer(0) == pytest.approx(2.0 * first)
    assert searched.answer(4) == pytest.approx(2.0 * first * 4.0 ** (1 / 3))
    last = 2.0 * first * 4.0 ** (1 / 3) * (16 / 7) ** (1 / 3)
    assert searched.answer(7) == pytest.approx(last)
    assert searched.found is None
    assert searched.answer(WANTED) is None
    assert len(searched.found or ()) == WANTED
    assert searched.begin() == pytest.approx(last)
    searched.answer(5 * WANTED)  # more than it had to hold
    assert searched.begin() == pytest.approx(last / 2.0)
    searched.answer(WANTED)
    searched.searches.widen()
    assert searched.begin() == pytest.approx(last)
