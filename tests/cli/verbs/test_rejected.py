"""Plans that leave out queries: said on the first line, kept in the document, understood when read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring


@pytest.fixture
def late(tmp_path: Path) -> Path:
    path = tmp_path / "late.yaml"
    path.write_text(
        """
        sites: {a: {capacity: 1}, b: {capacity: 1}, c: {capacity: 1}}
        latency_ms: {a: {b: 40, c: 80}, b: {c: 50}}
        streams: {x: {site: a, rate: 100, bytes: 100}}
        operators:
          one: {inputs: [x], cost_us: 4000}
          two: {inputs: [one], cost_us: 4000}
          three: {inputs: [two], cost_us: 4000}
        queries:
          fast: {reads: three, site: c, max_latency_ms: 30}
          slow: {reads: two, site: c, max_latency_ms: 200}
        """
    )
    return path


def test_the_first_line_says_how_many_queries_are_rejected(mooring: Mooring, late: Path) -> None:
    shown = mooring("plan", late, "--policy", "overlay")
    assert shown.code == 0
    said = " ".join(shown.out.split())
    assert said.startswith(
        f"{late} placed by overlay: 1 of 2 queries rejected rejected fast: its limit is 30 ms"
    )
    assert "and the best plan takes 80 ms, 50 ms too long" in said


def test_a_plan_with_rejections_can_be_read_again(mooring: Mooring, late: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    made = mooring("plan", late, "--policy", "overlay", "--output", saved, "--json").document
    assert set(made["placement"]) == {"one", "two"}
    assert set(made["rejected"]) == {"fast"}
    assert made["metrics"]["qos_met"] == 0.5
    judged = mooring("evaluate", late, "--placement", saved, "--json").document
    assert judged["rejected"] == made["rejected"]
    assert judged["metrics"] == made["metrics"]
    assert judged["violations"] == []
    again = mooring("plan", late, "--policy", "overlay", "--from", saved, "--json").document
    assert again["placement"] == made["placement"]
    assert mooring("headroom", late, "--placement", saved).code == 0
    refused = mooring("plan", late, "--policy", "rod", "--from", saved)
    assert refused.code == 2
    assert "leaves out fast" in refused.err


def test_a_plan_must_not_reject_queries_that_do_not_exist(
    mooring: Mooring, late: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    saved.write_text('{"placement": {"one": "a", "two": "a", "three": "a"}, "rejected": {"fats": "late"}}')
    refused = mooring("evaluate", late, "--placement", saved)
    assert refused.code == 2
    assert "rejected.fats" in refused.err


def test_compare_says_who_leaves_out_queries_and_does_not_call_it_best(mooring: Mooring, late: Path) -> None:
    compared = mooring("compare", late, "--policies", "overlay,producer", "--json").document
    assert set(compared["policies"]["overlay"]["rejected"]) == {"fast"}
    assert compared["policies"]["producer"]["rejected"] == {}
    assert compared["best"] == "producer"
    assert "overlay: 1 of 2 queries rejected" in mooring("compare", late, "--policies", "overlay").out
