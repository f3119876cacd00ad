"""Every policy through the command line with its defaults: it ends, and takes the steps it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.algorithms.catalogue import POLICIES
from mooring.algorithms.resilient.annealing import Annealer
from mooring.algorithms.resilient.budget import Used
from mooring.algorithms.resilient.policy import Resilient

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
REFUSE_SMALL = {"relaxation", "producer", "consumer", "ip_multicast", "descent", "ants", "overlay"}
"""The small problem has neither latencies nor queries."""


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_ends_with_its_defaults(
    mooring: Any, small: Path, monitoring: Path, policy: str
) -> None:
    planned = mooring("plan", monitoring, "--policy", policy, "--json")
    assert planned.code == 0, planned.out
    assert planned.document["policy"] == policy
    on_small = mooring("plan", small, "--policy", policy, "--json")
    assert on_small.code == (2 if policy in REFUSE_SMALL else 0), on_small.out


@pytest.fixture
def steps_asked_for(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What the annealer is told to take, stretch by stretch; it takes none of them."""
    asked: list[int | None] = []

    def note(self: Annealer, hot: float, cold: float, used: Used, report: object = None) -> None:
        asked.append(used.steps)

    monkeypatch.setattr(Annealer, "run", note)
    return asked


def test_resilient_takes_its_default_steps(mooring: Any, steps_asked_for: list[int]) -> None:
    assert mooring("plan", EXAMPLES / "forest.yaml", "--policy", "resilient").code == 0
    planning = steps_asked_for[-2:]  # before that, compiled code is loaded on a tiny problem
    assert sum(planning) == Resilient().default_steps == 1_000_000


def test_resilient_takes_its_default_steps_from_a_running_plan_too(
    mooring: Any, tmp_path: Path, steps_asked_for: list[int]
) -> None:
    running = tmp_path / "running.json"
    forest = EXAMPLES / "forest.yaml"
    mooring("plan", forest, "--policy", "random", "--output", running)
    assert mooring("plan", forest, "--policy", "resilient", "--from", running).code == 0
    assert sum(steps_asked_for[-24:]) == pytest.approx(1_000_000, rel=1e-4)


def test_a_budget_replaces_the_default_steps(mooring: Any, steps_asked_for: list[int | None]) -> None:
    mooring("plan", EXAMPLES / "forest.yaml", "--policy", "resilient", "--budget", "60")
    assert steps_asked_for[-2:] == [None, None]
