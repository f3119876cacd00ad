"""One site's gossip machine, event by event: no host, no network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.contracts.site_machine import Asked, Persist, Received, Send, Started, TimerDue
from mooring.coordination.gossip import Entries, Entry, Gossip, GossipParams, KnownVersions, Reply
from mooring.errors import InputError


def started(site: int = 0, sites: int = 3, durable: Entry[str] | None = None) -> Gossip:
    machine = Gossip(site, sites, np.random.default_rng(1))
    assert machine.handle(Started(0, durable), 0.0) == ()
    return machine


def test_a_published_value_is_durable_and_numbered() -> None:
    machine = started()
    assert machine.handle(Asked("a"), 1.0) == (Persist(Entry(0, 1, "a")),)
    assert machine.handle(Asked("b"), 2.0) == (Persist(Entry(0, 2, "b")),)


def test_numbering_goes_on_after_a_restart() -> None:
    machine = started(durable=Entry(0, 7, "old"))
    assert machine.handle(Asked("new"), 1.0) == (Persist(Entry(0, 8, "new")),)


def test_push_and_pull_take_three_messages() -> None:
    left, right = started(0), started(1)
    left.handle(Asked("left"), 1.0)
    right.handle(Asked("right"), 1.0)
    (reply,) = right.handle(Received(0, KnownVersions((1, 0, 0))), 2.0)
    assert reply == Send(0, Reply((Entry(1, 1, "right"),), (0,)))
    (pushed,) = left.handle(Received(1, reply.message), 3.0)
    assert pushed == Send(1, Entries((Entry(0, 1, "left"),)))
    assert right.handle(Received(0, pushed.message), 4.0) == ()
    assert left.entries == right.entries == {0: Entry(0, 1, "left"), 1: Entry(1, 1, "right")}


def test_equal_knowledge_is_not_answered() -> None:
    assert started().handle(Received(1, KnownVersions((0, 0, 0))), 1.0) == ()


@pytest.mark.parametrize("sites", [2, 3, 7])
def test_every_peer_is_visited_within_the_bound_from_any_round_on(sites: int) -> None:
    machine = started(0, sites)
    visits = [machine.handle(TimerDue(), 100.0 * i)[0].to for i in range(10 * sites)]  # type: ignore[union-attr]
    window = 2 * (sites - 1)
    for start in range(len(visits) - window):
        assert set(visits[start : start + window]) == set(range(1, sites))


def test_a_site_alone_has_nobody_to_visit() -> None:
    assert started(0, 1).handle(TimerDue(), 1.0) == ()


def test_rounds_follow_each_other_at_the_period() -> None:
    machine = started()
    first_ms = machine.next_timer()
    assert first_ms is not None
    assert 0 <= first_ms < 100
    machine.handle(TimerDue(), first_ms + 5)
    assert machine.next_timer() == first_ms + 105


@given(
    st.lists(st.builds(Entry, st.integers(1, 2), st.integers(1, 5), st.just("v")), max_size=12), st.randoms()
)
def test_merging_does_not_depend_on_order_or_repetition(entries: list[Entry[str]], shuffler: object) -> None:
    once, again = started(), started()
    once.merge(entries)
    mixed = entries * 2
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    again.merge(mixed)
    assert once.entries == again.entries


def test_an_owner_has_the_last_word_on_its_own_value() -> None:
    machine = started()
    machine.handle(Asked("mine"), 1.0)
    effects = machine.handle(Received(1, Entries((Entry(0, 2**30, "a lie"),))), 2.0)
    assert effects == (Persist(Entry(0, 2**30 + 1, "mine")),)
    assert machine.entries[0].value == "mine"


def test_versions_cannot_be_used_up() -> None:
    machine = started()
    machine.handle(Asked("mine"), 1.0)
    machine.handle(Received(1, Entries((Entry(0, 2**63 - 1, "a lie"), Entry(2, 2**63 - 1, "a lie")))), 2.0)
    assert machine.entries == {0: Entry(0, 1, "mine")}


def test_a_period_must_be_positive() -> None:
    with pytest.raises(InputError):
        GossipParams(period_ms=0)
