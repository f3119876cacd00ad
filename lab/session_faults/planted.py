"""Mistakes on purpose, each of which some schedule must show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.session_faults.process import JournalOfRun, Process
from mooring.controller.journal import Applied, Journal
from mooring.spark.ownership.owner import Ownership, look
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.owned_folder import OWNED, OwnedFolder


class _Behind(JournalOfRun):
    """The steps of a list are written when it is over."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._held: list[dict[str, Any]] = []

    def append(self, kind: str, **fields: object) -> None:
        if kind == "step":
            self._held.append(fields)
            return
        held, self._held = self._held, []
        for each in held if kind in ("done", "rolled back") else ():
            super().append("step", **each)
        super().append(kind, **fields)


class JournalAfterTheEffect(Process):
    def made_journal(self) -> Journal:
        return _Behind(self)


class _Forgetful(JournalOfRun):
    def last_list(self) -> Applied | None:
        last = super().last_list()
        return last if self.process.begun else None


class UnfinishedMoveForgotten(Process):
    """A run begins with the last placement, whatever list was under way."""

    def made_journal(self) -> Journal:
        return _Forgetful(self)


class RestartWithoutFence(Process):
    """What a fault has stopped goes on elsewhere in the checkpoint that it had."""

    def fenced(self, fragment: str) -> Path:
        home = self.layout.checkpoints(fragment)
        return current_epoch(home) if self.begun and not self.carrying else super().fenced(fragment)


class MoveWithoutFence(Process):
    def fenced(self, fragment: str) -> Path:
        home = self.layout.checkpoints(fragment)
        return current_epoch(home) if self.carrying else super().fenced(fragment)


class TakeoverWithoutFence(Process):
    """A standby goes on in the folder of the owner that it takes for dead."""

    def owning(self) -> Ownership:
        if not self.standby:
            return super().owning()
        self.clock.sleep(5.0)
        folder = current_epoch(self.world.root / OWNED)
        record = look(self.world.root).record
        assert record is not None
        return Ownership(OwnedFolder(folder), record, (folder / "lock").open("ab"))


PLANTED = (
    JournalAfterTheEffect,
    UnfinishedMoveForgotten,
    RestartWithoutFence,
    MoveWithoutFence,
    TakeoverWithoutFence,
)
