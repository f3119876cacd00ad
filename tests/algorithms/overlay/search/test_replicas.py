"""Replicas: a query reads its own copies, everybody else what they read before."""

from __future__ import annotations

from mooring.algorithms.overlay.search.replicas import as_served, copied_for, replica_number
from mooring.algorithms.overlay.search.shared_operator import queries_of, upstream_first
from tests.algorithms.overlay.search.figure_2 import O1, O2, O3, O4, Q1, Q2, figure_2

COPY_1, COPY_2 = replica_number(O1, Q1), replica_number(O2, Q1)


def test_without_replicas_nothing_changes() -> None:
    assert as_served(figure_2(), [O1, O2, O3, O4]) == figure_2()


def test_a_query_reads_its_copies_and_the_others_do_not() -> None:
    """o4 serves q1 alone, so it is not copied: it reads the copy of o2."""
    served = as_served(figure_2(), [O1, O2, O3, O4, COPY_2])
    own = {each.operator: each for each in served}
    assert own[O4].publishers == (COPY_2,)
    assert own[COPY_2].publishers == (O1,)
    assert own[O3].publishers == (O2,)
    queries = queries_of(served)
    assert set(queries[O2]) == {Q2}
    assert set(queries[COPY_2]) == {Q1}
    assert set(queries[O1]) == {Q1, Q2}


def test_copies_of_copies_read_each_other() -> None:
    own = {each.operator: each for each in as_served(figure_2(), [COPY_1, COPY_2])}
    assert own[COPY_2].publishers == (COPY_1,)


def test_everything_shared_from_what_is_needed_to_the_query_is_copied() -> None:
    ordered = upstream_first(figure_2())
    assert copied_for(ordered, Q1, {O1}.__contains__) == (O1, O2)
    assert copied_for(ordered, Q1, {O2}.__contains__) == (O2,)
    assert copied_for(ordered, Q1, {O4}.__contains__) == ()
