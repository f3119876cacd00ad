"""The journal: what a run was about to do and what it had done, so that the next one can go on from there.

One JSON document per line, with a checksum, on disk before the step that it announces is taken. A crash can
tear the last line, which is then as if it had never been written; a line that is wrong anywhere else means
the file was damaged, and is refused rather than guessed at.

A run that lasts writes for months, so the journal is compacted as it grows: records that are no longer needed
are left out, and the rest is rewritten, all or nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mooring.disk import DISK, Disk, is_folder, read_if_there
from mooring.errors import EngineError
from mooring.model.deployment.move import Move, apply_moves, moves_fingerprint
from mooring.model.deployment.move_times import PastMove
from mooring.model.placement.placement import FragmentSites

Record = dict[str, Any]
FILE_NAME = "journal.jsonl"
COMPACT_AT_BYTES = 256_000
"""A journal of this length is compacted; the next time at twice what was left of it, if that is more."""
MOST_LISTS = 100
"""Lists of moves that a compacted journal still tells of, with who asked for them and how they ended."""
MOST_OTHERS = 100
"""Records of other kinds (who stopped a run) that it keeps."""
MOST_PAST_MOVES = 20
"""Moves of each kind of fragment whose pauses are kept, to predict the next ones from."""
_TAIL_BYTES = 4096


ListState = Literal["announced", "under way", "turned back", "done", "rolled back", "superseded"]
"""Of a list of moves, by what the journal says of it:

| state       | next record           | leads to    | a run that finds it so     |
| ----------- | --------------------- | ----------- | -------------------------- |
| announced   | a step done           | under way   | goes back                  |
| under way   | a step done           | under way   | finishes the list          |
| under way   | done                  | done        |                            |
| any of both | turned back, abort    | turned back | goes back                  |
| turned back | rolled back           | rolled back |                            |
| any of all  | relocated             | itself      | as before, but leaves those fragments where they are |
| any of all  | a placement           | superseded  | goes on from the placement |

A fragment is *relocated* when its site was lost while the list was carried out and it went on elsewhere, or
when its own way back was barred.
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
    relocated: Mapping[str, str] = field(default_factory=dict)
    """Fragment -> where it is, whatever the list says."""
    asked_by: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def new(self) -> FragmentSites:
        """Where everything is once the list is done."""
        return FragmentSites({**apply_moves(self.old, self.moves), **self.relocated})

    @property
    def back(self) -> FragmentSites:
        """Where everything is once the list has been taken back."""
        return FragmentSites({**self.old, **self.relocated})


class Journal:
    """`now_s` is asked for each record's time. One process writes it, from any of its threads."""

    def __init__(
        self,
        folder: Path,
        now_s: Callable[[], float],
        *,
        compact_at_bytes: int = COMPACT_AT_BYTES,
        disk: Disk = DISK,
    ) -> None:
        self.file = folder / FILE_NAME
        self._now_s, self._disk = now_s, disk
        self._least_bytes = self._compact_at_bytes = compact_at_bytes
        self._refused: tuple[int, bytes] | None = None
        """A line whose writing failed, and where: what of it is there does not count."""
        self._lock = threading.RLock()

    def append(self, kind: str, **fields: object) -> None:
        """On disk when this returns. The folder is its owner's: it is never made here, where the storage may
        be away.
        """
        record = {"kind": kind, "at_s": self._now_s(), **fields}
        with self._lock:
            try:
                length = self._write(_line(record))
            except OSError as failure:
                raise self._unwritten(failure) from failure
            if length > self._compact_at_bytes:
                self._compact(length)

    def _write(self, line: bytes) -> int:
        found = self._disk.look(self.file)
        size = 0 if found is None else found.size
        end = self._end(size)
        try:
            # What a crash tore off goes before anything follows it. Nothing else is ever cut.
            length = self._disk.append(self.file, line, at=end if end < size else None)
        except OSError:
            self._refused = end, line
            raise
        self._refused = None
        return length

    def _end(self, size: int) -> int:
        """Where the last complete line ends, found from the file's end: it may be long."""
        if self._refused is not None and self._refused[0] < size:
            at, line = self._refused
            if line.startswith(self._disk.read(self.file, at).data):
                return at
        begin, tail = size, _TAIL_BYTES
        while begin > 0:
            begin, tail = max(0, begin - tail), 2 * tail
            if (at := self._disk.read(self.file, begin).data.rfind(b"\n")) >= 0:
                return begin + at + 1
        return 0

    def _unwritten(self, failure: OSError) -> EngineError:
        with contextlib.suppress(OSError):
            if not is_folder(self._disk, self.file.parent):
                return EngineError(
                    f"the journal {self.file} cannot be written: there is no folder {self.file.parent}",
                    remedy="check that the storage root is mounted at its place; nothing was changed",
                )
        return EngineError(
            f"the journal {self.file} cannot be written: {failure}",
            remedy="free space or repair the folder; nothing was changed",
        )

    def _compact(self, length: int) -> None:
        """A journal that cannot be compacted now (a full disk, damage that its next reader names) has still
        been written: it is left for later.
        """
        with contextlib.suppress(OSError, EngineError):
            if records := self.records():  # none are found where a network disk shows an old listing
                content = b"".join(map(_line, essential(records)))
                self._disk.replace(self.file, content)
                length = len(content)
        self._compact_at_bytes = max(self._least_bytes, 2 * length)

    def records(self) -> list[Record]:
        with self._lock:
            try:
                content = read_if_there(self._disk, self.file) or b""
            except OSError as failure:
                raise EngineError(
                    f"the journal {self.file} cannot be read: {failure}",
                    remedy="check that the storage root exists and is readable",
                ) from failure
            if self._refused is not None and self._refused[1].startswith(content[self._refused[0] :]):
                content = content[: self._refused[0]]
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
                known = one.new if record["kind"] == "done" else one.back
        return known

    def last_list(self) -> Applied | None:
        """The newest list of moves, finished or not."""
        lists: dict[str, Applied] = {}
        for record in self.records():
            _take_in(lists, record)
        return next(reversed(lists.values()), None)

    def left_sites(self) -> dict[str, str]:
        """Sites that are kept empty on purpose, and who asked for it."""
        return {record["site"]: record["asked_by"] for record in _still_left(self.records()).values()}

    def note_left(self, site: str, asked_by: str) -> None:
        """From now on, and in every run to come, nothing is put there."""
        self.append("left", site=site, asked_by=asked_by)

    def note_returned(self, site: str, asked_by: str) -> None:
        """The site is used again."""
        self.append("returned", site=site, asked_by=asked_by)

    def past_moves(self) -> list[PastMove]:
        """The newest moves of each kind that were done, by this run or earlier ones."""
        records = self.records()
        return [_past_move(records[i]) for i in _newest_done(records)]

    def note_placement(
        self, placement: FragmentSites, why: str, changed: Mapping[str, str] | None = None
    ) -> None:
        """`changed`: the fragments that it is about, if not all, and where they are."""
        more = {} if changed is None else {"sites": dict(changed)}
        self.append("placement", placement=dict(placement), why=why, **more)

    def note_relocated(self, sites: Mapping[str, str], placement: FragmentSites, why: str) -> None:
        """Fragments went on at other sites; `placement` is where everything is now. A list under way goes on
        without them, so the placement in the midst of it says nothing.
        """
        with self._lock:
            last = self.last_list()
            if last is None or last.ended:
                self.note_placement(placement, why, sites)
            else:
                self.append("relocated", list=last.id, sites=dict(sites), why=why)

    def begin_list(self, old: FragmentSites, moves: Sequence[Move], asked_by: str = "") -> str:
        """Announce a list; returns its id, new each time."""
        apply_moves(old, moves)  # refuses a list that does not fit where things are
        with self._lock:
            name = f"{lists_so_far(self.records()) + 1}-{moves_fingerprint(old, moves)}"
            steps = [[move.fragment, move.from_site, move.to_site] for move in moves]
            self.append("list", id=name, old=dict(old), moves=steps, asked_by=asked_by)
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
        lists[record["id"]] = Applied(
            record["id"], FragmentSites(record["old"]), moves, asked_by=record.get("asked_by", "")
        )
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
    elif kind == "relocated":
        known = replace(known, relocated={**known.relocated, **record["sites"]})
    elif kind in ("turned back", "abort") and known.state in ("announced", "under way"):
        known = replace(known, state="turned back")
    elif kind in ("done", "rolled back"):
        known = replace(known, state=kind)
    lists[known.id] = known


def _past_move(done: Record) -> PastMove:
    return PastMove(
        float(done["pause_s"]),
        float(done.get("state_bytes") or 0.0),
        done.get("moved_as"),
        float(done.get("batch_s") or 0.0),
        str(done.get("to") or ""),
    )


def _newest_done(records: Sequence[Record]) -> list[int]:
    """Where the newest steps stand that were done, of each kind of fragment."""
    found: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        if record["kind"] == "step" and record["stage"] == "done":
            found.setdefault(_past_move(record).moved_as, []).append(i)
    return sorted(i for own in found.values() for i in own[-MOST_PAST_MOVES:])


def _still_left(records: Sequence[Record]) -> dict[int, Record]:
    """Of the sites that were left and not returned to: the newest record of each, by where it stands."""
    newest: dict[str, int] = {}
    for i, record in enumerate(records):
        if record["kind"] in ("left", "returned"):
            newest[record["site"]] = i
    return {i: records[i] for i in newest.values() if records[i]["kind"] == "left"}


def essential(records: Sequence[Record]) -> list[Record]:
    """What a compacted journal keeps, in order: the newest placement, the newest lists with all that became
    of them, the newest pauses, which sites are kept empty, and how many lists there were before.
    """
    at: dict[str, list[int]] = {"placement": [], "list": [], "done step": [], "other": []}
    for i, record in enumerate(records):
        kind = record["kind"]
        if kind in ("placement", "list"):
            at[kind].append(i)
        elif kind == "step" and record["stage"] == "done":
            at["done step"].append(i)
        elif kind not in ("step", "compacted") and "list" not in record:
            at["other"].append(i)
    newest = at["list"][-MOST_LISTS:]
    told = {records[i]["id"] for i in newest}
    last = records[newest[-1]]["id"] if newest else ""
    kept = {
        *at["placement"][-1:],
        *newest,
        *_newest_done(records),
        *(i for i in at["done step"] if records[i]["list"] == last),
        *at["other"][-MOST_OTHERS:],
        *_still_left(records),
        *(i for i, r in enumerate(records) if r["kind"] != "step" and r.get("list") in told),
    }
    before = lists_so_far(records) - len(newest)
    return [{"kind": "compacted", "lists_before": before}, *(records[i] for i in sorted(kept))]


def lists_so_far(records: Sequence[Record]) -> int:
    """How many lists of moves were ever announced, those that a compacted journal left out included."""
    return sum(
        record["lists_before"] if record["kind"] == "compacted" else record["kind"] == "list"
        for record in records
    )


def _line(record: Record) -> bytes:
    return json.dumps({"record": record, "sum": _checksum(record)}, sort_keys=True).encode() + b"\n"


def _checksum(record: Record) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
