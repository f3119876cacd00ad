"""A run's looks become statistics: totals are met, start-up is left out, estimates are called so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mooring.spark.runs.record.operation_statistics import share_out

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.spark.engine.snapshot import ChannelSnapshot, FragmentSnapshot, SiteSnapshot, Snapshot
from mooring.spark.runs.record.operation_statistics import (
    MEMORY_LOOKS,
    FragmentFigures,
    OperationStatistics,
    Prior,
)

TRUTH = {"in": (0.15, 3e-6), "out": (0.40, 9e-6)}
"""CPU seconds per batch and per row."""
FRAGMENT = FragmentSnapshot("a", 0.0, 0.0, 0, 0, 0, 0.3, 7, 0)


def looks(count: int, *, estimated: bool = False, cold: int = 0) -> list[Snapshot]:
    """A look every five seconds, one batch of each fragment in between, rows that vary."""
    rows = {"in": 0, "out": 0}
    made = []
    for n in range(count):
        cpu_s = 0.0
        for at, name in enumerate(rows):
            new = 1000 + 700 * ((n * (3 + at)) % 7) if n else 0
            rows[name] += new
            cpu_s += TRUTH[name][0] + TRUTH[name][1] * new if n else 0.0
        load = None if n == 0 else cpu_s / 5 * (4 if n <= cold else 1)
        fragments = {
            name: replace(FRAGMENT, rows_in=rows[name], rows_out=rows[name] // 10, batches=n) for name in rows
        }
        channels = {name: ChannelSnapshot(0, 8 * (rows[name] // 10), 0, {}, []) for name in rows}
        sites = {"a": SiteSnapshot(load, estimated, 1.0, 500, list(rows))}
        made.append(Snapshot(1000.0 + 5 * n, 5.0 * n, sites, fragments, {}, channels))
    return made


def figures(snapshots: list[Snapshot], off: float = 1.0) -> dict[str, FragmentFigures]:
    statistics = OperationStatistics({name: Prior(1e6 * b * off, a * off) for name, (a, b) in TRUTH.items()})
    for snapshot in snapshots:
        statistics.take(snapshot)
    return statistics.figures()


def test_the_cpu_of_the_site_is_all_accounted_for_whatever_was_believed() -> None:
    for off in (0.3, 1.0, 3.0):
        found = figures(looks(40), off)
        total = sum(f.cores for f in found.values())
        expected = sum(a / 5 + b * found[name].rows_in_per_s for name, (a, b) in TRUTH.items())
        assert total == pytest.approx(expected, rel=0.05)
        assert found["out"].batch_cpu_s == pytest.approx(0.40, rel=0.3)
        assert found["in"].selectivity == pytest.approx(0.1, rel=0.01)
        assert found["in"].bytes == pytest.approx(8.0)
        assert found["in"].state_rows == 7
        assert not found["in"].estimated


def test_start_up_is_left_out_and_too_few_looks_say_nothing() -> None:
    warm, cold = figures(looks(40)), figures(looks(40, cold=5))
    assert cold["out"].cores == pytest.approx(warm["out"].cores, rel=0.01)
    assert figures(looks(5)) == {}


def test_where_processes_cannot_be_seen_costs_stay_as_they_were_known() -> None:
    found = figures(looks(20, estimated=True), off=3.0)
    assert all(f.estimated for f in found.values())
    for name, (per_batch_s, per_row_s) in TRUTH.items():
        assert found[name].batch_cpu_s == 3.0 * per_batch_s
        assert found[name].cost_us == pytest.approx(3e6 * per_row_s)
        assert found[name].selectivity == pytest.approx(0.1, rel=0.01)


def test_what_a_run_has_learnt_is_no_estimate_at_a_site_that_cannot_be_seen() -> None:
    statistics = OperationStatistics({name: Prior(5.0, 0.2, looks=40) for name in TRUTH})
    for snapshot in looks(20, estimated=True):
        statistics.take(snapshot)
    assert all(not f.estimated and (f.cost_us, f.looks) == (5.0, 40) for f in statistics.figures().values())


def test_executors_tell_each_fragment_and_the_driver_goes_by_batches() -> None:
    """Both run at one site, in step, so that the site's CPU alone could not tell them apart."""
    seen = []
    for before, now in pairwise(looks(40)):
        fragments = {}
        for name, (_, per_row_s) in TRUTH.items():
            rows = now.fragments[name].rows_in - before.fragments[name].rows_in
            fragments[name] = replace(now.fragments[name], cores=10.0 * per_row_s * rows / 5)
        sites = {"a": replace(now.sites["a"], executors=2, driver_cores=0.12)}
        seen.append(replace(now, sites=sites, fragments=fragments))
    found = figures(seen, off=0.3)
    for name, (_, per_row_s) in TRUTH.items():
        assert found[name].cost_us == pytest.approx(1e7 * per_row_s, rel=0.3)
        assert found[name].batch_cpu_s == pytest.approx(0.3, rel=0.25)  # 0.12 cores of 5 s over two batches


def moved(snapshots: list[Snapshot], fragment: str, at: int) -> list[Snapshot]:
    """The same looks, but from one of them on the fragment runs alone at another site, at the same cost."""
    told = []
    for n, snapshot in enumerate(snapshots):
        if n >= at:
            a, before, now = snapshot.sites["a"], snapshots[n - 1], snapshot.fragments[fragment]
            rows = now.rows_in - before.fragments[fragment].rows_in
            load = (TRUTH[fragment][0] + TRUTH[fragment][1] * rows) / 5
            assert a.load_cores is not None
            sites = {
                "a": replace(
                    a, load_cores=a.load_cores - load, fragments=[f for f in a.fragments if f != fragment]
                ),
                "b": replace(a, load_cores=load, fragments=[fragment]),
            }
            fragments = {**snapshot.fragments, fragment: replace(now, site="b")}
            snapshot = replace(snapshot, sites=sites, fragments=fragments)
        told.append(snapshot)
    return told


def test_what_was_learnt_at_one_site_is_known_at_the_next() -> None:
    """The prior says far too little; four looks at the new site are not all that is known there."""
    snapshots, at = looks(70), 66
    settled = figures(snapshots[:at], off=0.3)["out"]
    after = figures(moved(snapshots, "out", at), off=0.3)["out"]
    assert after.site == "b"
    assert after.cost_us == pytest.approx(settled.cost_us, rel=0.1)
    assert after.looks == settled.looks


def test_what_earlier_runs_learnt_counts_less_with_every_look_until_it_is_forgotten() -> None:
    rows = {n: looks(n) for n in (20, 70, MEMORY_LOOKS + 20)}
    known = {
        name: Prior(3e6 * b, 3 * a, looks=500, cost_us_error=1.0, batch_cpu_s_error=0.1)
        for name, (a, b) in TRUTH.items()
    }

    def after(count: int) -> FragmentFigures:
        statistics = OperationStatistics(known)
        for snapshot in rows[count]:
            statistics.take(snapshot)
        return statistics.figures()["out"]

    few, some, all_of_it = after(20), after(70), after(MEMORY_LOOKS + 20)
    assert TRUTH["out"][0] < all_of_it.batch_cpu_s * 1.2 < some.batch_cpu_s < few.batch_cpu_s
    assert few.batch_cpu_s < 3 * TRUTH["out"][0]
    assert few.looks == MEMORY_LOOKS
    # Halfway the two disagree most, and the error says so.
    assert some.batch_cpu_s_error > few.batch_cpu_s_error > all_of_it.batch_cpu_s_error


def test_the_stated_error_of_a_cost_holds_what_it_is_off_by() -> None:
    """In four of five cases within twice the standard error, whatever was believed."""
    rng, held = np.random.default_rng(7), 0
    truth = np.array([0.2, 5e-6, 0.1, 2e-6])
    for _ in range(25):
        amounts = site_looks(rng, 40)
        cpu_s = amounts @ truth * (1 + 0.05 * rng.standard_normal(40))
        found = share_out(cpu_s, amounts, prior=truth * np.exp(0.4 * rng.standard_normal(4)))
        held += int(np.sum(np.abs(found.costs - truth) <= 2 * found.errors))
    assert held >= 80


def site_looks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Batches and rows of two fragments per look."""
    return np.column_stack(
        [
            np.ones(count),
            rng.uniform(1_000, 9_000, count),
            rng.integers(1, 3, count).astype(float),
            rng.uniform(500, 20_000, count),
        ]
    )


def test_looks_that_differ_find_the_costs_whatever_was_believed_before() -> None:
    rng = np.random.default_rng(0)
    amounts, truth = site_looks(rng, 60), np.array([0.2, 5e-6, 0.1, 2e-6])
    cpu_s = amounts @ truth * (1 + 0.03 * rng.standard_normal(60))
    shares = share_out(cpu_s, amounts, prior=truth * [0.5, 2.0, 1.5, 0.7])
    assert shares.costs == pytest.approx(truth, rel=0.35)
    assert shares.error < 0.1


def test_looks_that_are_all_alike_scale_what_was_known_to_the_total() -> None:
    amounts = np.tile([1.0, 4000.0, 1.0, 4000.0], (12, 1))
    prior = np.array([0.1, 5e-6, 0.2, 1e-6])
    cpu_s = 2.0 * amounts @ prior
    assert share_out(cpu_s, amounts, prior).costs == pytest.approx(2.0 * prior)


@pytest.mark.parametrize("seed", range(10))
def test_no_cost_is_negative_and_the_total_is_met(seed: int) -> None:
    rng = np.random.default_rng(seed)
    amounts, truth = site_looks(rng, 8), np.array([0.2, 5e-6, 0.1, 2e-6])
    cpu_s = amounts @ truth * rng.uniform(0.5, 1.5, 8)
    shares = share_out(cpu_s, amounts, prior=truth * rng.uniform(0.1, 10, 4))
    assert np.all(shares.costs >= 0.0)
    assert float((amounts @ shares.costs).sum()) == pytest.approx(float(cpu_s.sum()), rel=0.25)


def test_a_site_that_was_idle_teaches_nothing() -> None:
    prior = np.array([0.1, 1e-6])
    assert share_out(np.zeros(3), np.zeros((3, 2)), prior).costs == pytest.approx(prior)
