"""`mooring check` finds before a plan what no plan can do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

PROBLEM = """
sites: {{a: {{capacity: 1, memory_mb: 500}}, b: {{capacity: 1, memory_mb: 500}}}}
latency_ms: {{a: {{b: 100}}}}
streams: {{s: {{rate: 100, site: a}}}}
operators:
  big: {{inputs: [s], cost_us: {cost_us}, memory_mb: {memory_mb}, site: a}}
  next: {{inputs: [big], cost_us: 10, site: b}}
  back: {{inputs: [next], cost_us: 10, site: a, instances: 2}}
queries: {{out: {{reads: back, site: b, max_latency_ms: {limit_ms}}}}}
"""


def problem(folder: Path, *, cost_us: float = 10, memory_mb: float = 100, limit_ms: float = 400) -> Path:
    file = folder / "problem.yaml"
    file.write_text(PROBLEM.format(cost_us=cost_us, memory_mb=memory_mb, limit_ms=limit_ms))
    return file


def test_a_pin_that_its_site_cannot_take_is_infeasible(mooring: Mooring, tmp_path: Path) -> None:
    found = mooring("check", problem(tmp_path, memory_mb=900))
    assert found.code == 3
    assert "fragment 'big' needs 0 cores at rate zero and 900 MB" in " ".join(found.out.split())


@pytest.mark.parametrize(("limit_ms", "late"), [(299, True), (300, False)])
def test_a_limit_below_what_the_pins_allow_is_named(
    mooring: Mooring, tmp_path: Path, limit_ms: float, late: bool
) -> None:
    """From a to b, back to a, and to the query at b."""
    warnings = mooring("check", problem(tmp_path, limit_ms=limit_ms), "--json").document["warnings"]
    assert [line for line in warnings if "no placement is below 300 ms" in line] == warnings
    assert bool(warnings) == late


def test_the_load_of_each_operator_is_shown_with_its_instances_together(
    mooring: Mooring, tmp_path: Path
) -> None:
    file = problem(tmp_path, cost_us=12_000)
    document = mooring("check", file, "--json").document
    assert document["loads"] == pytest.approx({"big": 1.2, "next": 0.001, "back": 0.001})
    assert document["warnings"] == [
        "what is pinned to a needs 1.2 cores at the present rates, more than its 1"
    ]
    assert "big 1.2 pinned to a" in mooring("check", file).out
