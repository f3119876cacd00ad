"""The table of leases: nothing that has begun expires, everything comes to an end, and the guide shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mooring.algorithms.overlay.leases.transitions import (
    KEEPING,
    SEEKING,
    Event,
    LeaseStage,
    stepped,
)

GUIDE = Path(__file__).parents[4] / "docs" / "overlays.md"


def diagram() -> str:
    """Both tables for Mermaid, as the guide shows them."""
    lines = ["stateDiagram-v2"]
    for name, table in (("Seeking", SEEKING), ("Keeping", KEEPING)):
        lines.append(f"  state {name} {{")
        arrows: dict[tuple[LeaseStage, LeaseStage], list[str]] = {}
        for (stage, event), after in table.items():
            if stage is not after:
                arrows.setdefault((stage, after), []).append(event.value)
        for (stage, after), events in arrows.items():
            lines.append(f"    {_named(name, stage)} --> {_named(name, after)}: {' / '.join(events)}")
        lines.append("  }")
    return "\n".join(lines)


def _named(part: str, stage: LeaseStage) -> str:
    return f"{part.lower()}_none" if stage is LeaseStage.NONE else stage.value


def test_the_guide_shows_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in GUIDE.read_text()


def test_nothing_expires_once_it_is_held_or_proposed() -> None:
    table = {**SEEKING, **KEEPING}
    lasting = {LeaseStage.PROPOSED, LeaseStage.MOVING, LeaseStage.HELD}
    assert not [stage for stage, event in table if stage in lasting and event is Event.EXPIRED]


@pytest.mark.parametrize("table", [SEEKING, KEEPING])
def test_every_stage_is_reached_and_comes_to_an_end(
    table: Mapping[tuple[LeaseStage, Event], LeaseStage],
) -> None:
    stages = {stage for stage, _ in table} | set(table.values())
    for start, goal in [(LeaseStage.NONE, stage) for stage in stages] + [
        (stage, LeaseStage.NONE) for stage in stages
    ]:
        reached = {start}
        for _ in stages:
            reached |= {after for (stage, _), after in table.items() if stage in reached}
        assert goal in reached


def test_a_step_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no transition from 'held' by 'time is up'"):
        stepped(KEEPING, LeaseStage.HELD, Event.EXPIRED)
