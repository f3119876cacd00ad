"""The journal: what a run was about to do and what it had done, so that the next one can go on from there.

One JSON document per line, with a checksum, on disk before the step that it announces is taken. A crash can
tear the last line, which is then as if it had never been written; a line that is wrong anywhere else means
the file was damaged, and is refused rather than guessed at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mooring.deployment.moves import Move, apply_moves, moves_fingerprint
from mooring.errors import EngineError
from mooring.placement.placement import FragmentSites

Record = dict[str, Any]
FILE_NAME = "journal.jsonl"


ListState = Literal["announced", "under way", "turned back", "done", "rolled back", "superseded"]
"""Of a list of moves, by what the journal says of it:

| state       | next record           | leads to    | a run that finds it so     |
| ----------- | --------------------- | ----------- | -------------------------- |
| announced   | a step done           | under way   | goes back                  |
| under way   | a step done           | under way   | finishes the list          |
| under way   | done                  | done        |                            |
| any of both | turned back           | turned back | goes back                  |
| turned back | rolled back           | rolled back |                            |
| any of all  | a placement           | superseded  | goes on from the placement |
"""
ENDED: tuple[ListState, ...] = ("done", "rolled back", "superseded")
FORWARD: Mapping[ListState, bool] = {"announced": False, "under way": True, "turned back": False}
"""Whether an unfinished list is finished by the run that finds it, or taken back."""


@dataclass(frozen=True)
class Applied:
    """A list of moves as the journal knows it."""

    id: str
    old: FragmentSites
    moves: tuple[Move, ...]
    state: ListState = "announced"
    done: int = 0
    """Moves whose fragment is known to have started at its target."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def new(self) -> FragmentSites:
        return apply_moves(self.old, self.moves)


class Journal:
    """Append-only. `now_s` is asked for each record's time."""

    def __init__(self, folder: Path, now_s: Callable[[], float]) -> None:
        self.file = folder / FILE_NAME
        self._now_s = now_s

    def append(self, kind: str, **fields: object) -> None:
        """On disk when this returns."""
        record = {"kind": kind, "at_s": self._now_s(), **fields}
        line = json.dumps({"record": record, "sum": _checksum(record)}, sort_keys=True) + "\n"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.file.open("ab") as out:
                whole = _whole_length(self.file.read_bytes())
                out.truncate(whole)  # what a crash tore off goes before anything follows it
                out.write(line.encode())
                out.flush()
                os.fsync(out.fileno())
        except OSError as failure:
            raise EngineError(
                f"the journal {self.file} cannot be written: {failure}",
                remedy="make room or mend the folder; nothing was changed",
            ) from failure

    def records(self) -> list[Record]:
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return []
        lines = content.split(b"\n")[:-1]
        return [self._record(number, line) for number, line in enumerate(lines, start=1)]

    # What the records say

    def placement(self) -> FragmentSites | None:
        """As last known; between two lists of moves only."""
        known: FragmentSites | None = None
        lists: dict[str, Applied] = {}
        for record in self.records():
            _take_in(lists, record)
            if record["kind"] == "placement":
                known = FragmentSites(record["placement"])
            elif record["kind"] in ("done", "rolled back") and record["list"] in lists:
                one = lists[record["list"]]
                known = one.new if record["kind"] == "done" else one.old
        return known

    def last_list(self) -> Applied | None:
        """The newest list of moves, finished or not."""
        lists: dict[str, Applied] = {}
        for record in self.records():
            _take_in(lists, record)
        return next(reversed(lists.values()), None)

    def past_moves(self, newest: int = 20) -> list[tuple[float, float]]:
        """Pause in seconds and bytes of state of the newest moves that were done."""
        done = [r for r in self.records() if r["kind"] == "step" and r["stage"] == "done"]
        return [(float(r["pause_s"]), float(r.get("state_bytes") or 0.0)) for r in done[-newest:]]

    def note_placement(self, placement: FragmentSites, why: str) -> None:
        self.append("placement", placement=dict(placement), why=why)

    def begin_list(self, old: FragmentSites, moves: Sequence[Move]) -> str:
        """Announce a list; returns its id, new each time."""
        apply_moves(old, moves)  # refuses a list that does not fit where things are
        number = sum(record["kind"] == "list" for record in self.records()) + 1
        name = f"{number}-{moves_fingerprint(old, moves)}"
        steps = [[move.fragment, move.from_site, move.to_site] for move in moves]
        self.append("list", id=name, old=dict(old), moves=steps)
        return name

    def _record(self, number: int, line: bytes) -> Record:
        try:
            document = json.loads(line)
            record: Record = document["record"]
            fine = document["sum"] == _checksum(record)
        except (ValueError, KeyError, TypeError):
            fine = False
        if not fine:
            raise EngineError(
                f"line {number} of the journal {self.file} is damaged",
                remedy="move the file away and run with --placement or --policy; checkpoints are not in it",
            )
        return record


def _take_in(lists: dict[str, Applied], record: Record) -> None:
    """Bring the lists known so far up to date with one more record."""
    kind = record["kind"]
    if kind == "list":
        moves = tuple(Move(*step) for step in record["moves"])
        lists[record["id"]] = Applied(record["id"], FragmentSites(record["old"]), moves)
        return
    if kind == "placement":  # a run that was started some other way has left an unfinished list behind
        for name, one in lists.items():
            lists[name] = one if one.ended else replace(one, state="superseded")
        return
    known = lists.get(record.get("list", ""))
    if known is None:
        return
    if kind == "step" and record["stage"] == "done" and known.state in ("announced", "under way"):
        known = replace(known, state="under way", done=record["step"] + 1)
    elif kind in ("turned back", "done", "rolled back"):
        known = replace(known, state=kind)
    lists[known.id] = known


def _checksum(record: Record) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _whole_length(content: bytes) -> int:
    """Bytes up to the last complete line."""
    return content.rfind(b"\n") + 1
