"""A member that says well-typed nonsense harms nobody but itself."""

from __future__ import annotations

import pytest

from tests.agents.liars import run

END_MS = {"survey": 3_000.0, "relaxation": 3_000.0, "ants": 3_000.0, "overlay": 30_000.0}


@pytest.mark.parametrize("protocol", END_MS)
def test_what_honest_members_say_is_never_refused(protocol: str) -> None:
    told = run(protocol, 0, END_MS[protocol], lies=False)
    assert told.harness.violation is None
    assert sum(door.names.total() for door in told.doors) > 300
    assert [door.refused for door in told.doors if door.refused] == []


@pytest.mark.parametrize("protocol", END_MS)
@pytest.mark.parametrize("seed", range(2))
def test_no_machine_fails_on_what_a_liar_sends(protocol: str, seed: int) -> None:
    told = run(protocol, seed, END_MS[protocol], lies=True)
    assert told.harness.violation is None, told.harness.violation.message
    assert sum(door.refused.total() for door in told.doors) > 100


@pytest.mark.parametrize("protocol", ["survey", "ants"])
def test_without_the_door_machines_fail_or_write_to_nobody(protocol: str) -> None:
    """So the liar says what does harm."""
    runs = (run(protocol, seed, END_MS[protocol], lies=True, open_doors=True) for seed in range(9))
    assert any(told.raised or told.harness.violation for told in runs)
