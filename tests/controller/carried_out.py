"""A list of moves carried out at once, by whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.contracts.engine import Engine, MoveReport
from mooring.controller.journal import Journal
from mooring.controller.move_list import MoveListRun, Progress, quiet
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites


def apply_list(
    engine: Engine,
    journal: Journal,
    old: FragmentSites,
    moves: Sequence[Move],
    progress: Progress = quiet,
) -> list[MoveReport]:
    """Carry out exactly these moves, now. On failure those done are taken back and the failure is raised."""
    run = MoveListRun(engine, journal, old, moves, progress)
    run.carry_out()
    if run.failure is not None:
        raise run.failure
    return run.reports
