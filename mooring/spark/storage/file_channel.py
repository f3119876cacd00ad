"""A channel of files: the writing flow's Spark file sink, read by Spark's file source, trimmed by Mooring.

Chosen by measurement (docs/decisions/). One folder per writing flow, since two file sinks in one folder lose
rows. A position counts files. Trimming first takes the files out of the sink's log, so that no later reader
finds them there, then deletes them, then shortens the readers' logs; an intent written beforehand lets it
resume after a crash at any point.

Spark compacts its logs while we shorten them, so an entry can come back once, with the compaction that was
under way. Entries taken out therefore stay in doubt, and are not counted as stored, until two more batches
have passed without them.

Spark is given the folder by a link. A folder that was taken away then stays away: a writer makes every folder
it misses, but cannot make one where a link points nowhere. Without that, a reader finds a folder without its
files, takes them for deleted on purpose, and commits its batch without their rows
(docs/decisions/0017-channels-behind-links.md).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os.path
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from mooring.checksum import checked, with_sum
from mooring.disk import is_file, is_folder, is_link
from mooring.errors import EngineError
from mooring.model.deployment.channel_log import ChannelLog, ChannelState, Trimmed
from mooring.spark.storage import stream_logs
from mooring.spark.storage.ages import Ages
from mooring.spark.storage.channel_positions import ChannelPositions
from mooring.spark.storage.compacted_name import items_of
from mooring.spark.storage.compaction import MergePlan, Merges
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.retention import ALL, Keep


@dataclass
class Holds:
    """Whoever reads a fixed set of a channel's files holds them, and so has them on disk until it is done.

    Holds are kept in memory, since a reader that holds files lives no longer than the run that deletes them.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held by whoever decides what is deleted, and by whoever looks up what there is in order to hold it."""
    _positions: dict[int, int] = field(default_factory=dict)
    _since_s: dict[int, float] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def take(self, position: int) -> int:
        """Nothing from `position` on goes until the hold, whose number is returned, is released."""
        number = next(self._numbers)
        self._positions[number], self._since_s[number] = position, time.monotonic()
        return number

    def release(self, number: int) -> None:
        with self.lock:
            del self._positions[number], self._since_s[number]

    @property
    def lowest(self) -> float:
        """The position from which on something is held."""
        return min(self._positions.values(), default=math.inf)

    @property
    def longest_s(self) -> float:
        """Seconds since the oldest hold was taken; 0 if there is none."""
        return time.monotonic() - min(self._since_s.values()) if self._since_s else 0.0


_SINK_LOG = "_spark_metadata"
_REACHED = "reached"
"""Of the channel's note: how far its writer and readers were when files were last deleted."""


@dataclass(frozen=True)
class Committed:
    """What a channel holds at one moment."""

    batch: int
    """The last one of its flow that readers see; -1: none."""
    position: int
    """Of the first file."""
    entries: tuple[stream_logs.LogEntry, ...]
    """Oldest first."""


class FileChannel(ChannelLog):
    """The log of one flow. `checkpoint_of` tells where a reader's checkpoint lies; what is changed of the
    channel goes through the folder of the root's owner.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        link: Path,
        checkpoint_of: Callable[[str], Path],
        owned: OwnedFolder,
        keep: Keep = ALL,
        results: str = "results",
        inputs_of: Callable[[str], int | None] = lambda reader: None,
    ) -> None:
        """`results`: the reader that stands for those outside, for whom rows are kept as `keep` says.
        `inputs_of`: how many channels a reader reads; None if that is not known.
        """
        self.name = name
        self.folder = folder
        self.link = link
        """What Spark is told; it lies outside the folders that a channel may lose."""
        self._checkpoint_of = checkpoint_of
        self._owned, self._disk = owned, owned.disk
        self._keep, self._results = keep, results
        self._note_file = owned.channel_note(folder.name)
        self._positions = ChannelPositions(
            self.sink_log, (folder, link), checkpoint_of, inputs_of, self._disk
        )
        self.merges = Merges(folder, self.sink_log, owned, self._write_note)
        self.ages = Ages(self.merges.options.after_s if keep.age_s is None else keep.age_s)
        self.merges.now_s = self.ages.now_s
        self._entries_when_planned = 0
        self.holds = Holds()
        self.is_on_disk: Callable[[], bool] = lambda: True
        """Called before files are deleted: whether all that was made of them is on disk. If not, they stay
        until the next time (see syncing.py)."""

    @property
    def sink_log(self) -> Path:
        return self.folder / _SINK_LOG

    @property
    def exists(self) -> bool:
        """Whether it was ever made."""
        return self._disk.look(self._note_file) is not None

    def create(self) -> None:
        """Make the folder, since a reader may start before anything was written. Where a note says that there
        was one, it is never made again: a reader would take its missing files for deleted on purpose.
        """
        if self.exists:
            if is_folder(self._disk, self.folder):
                self._point_link()
            return
        if stream_logs.last_batch(self.sink_log, self._disk) >= 0:
            raise EngineError(
                f"{self.folder} holds rows, but its list of readers {self._note_file} is missing",
                remedy="restore the list from a copy, or start over with --fresh",
            )
        self._owned.make_folder(self.folder)
        self._point_link()
        self._write_note({"start": 0, "trimming": [], "doubtful": {}, "readers": {}, "made": token_hex(4)})

    @property
    def made(self) -> str:
        """Tells it from one of the same name that was there before, and began with batch 0 too."""
        return str(self._note().get("made", ""))

    def delete(self) -> None:
        """Remove all there is of it, once nobody writes there; safe to interrupt and to repeat."""
        for path in (self.folder, self._owned.merge_lists(self.folder.name), self.link):
            self._owned.remove(path)
        self._disk.delete(self._note_file)

    def register(self, reader: str) -> None:
        """A reader registered once stays registered across runs; a new one starts at what is stored now."""
        note = self._note()
        if reader not in note["readers"]:
            self.merges.give_up(note)
            note["readers"][reader] = note["start"]
            self._write_note(note)

    def inherit(self, reader: str, of: str) -> None:
        """A reader that goes on with the checkpoint of another one has read what that one has."""
        note = self._note()
        if of in note["readers"] and reader not in note["readers"]:
            note["readers"][reader] = note["readers"][of]
            self._write_note(note)

    def forget(self, reader: str) -> None:
        note = self._note()
        if note["readers"].pop(reader, None) is not None:
            doubtful = note["doubtful"].items()
            note["doubtful"] = {log: left for log, left in doubtful if not log.endswith(f" of {reader}")}
            self._write_note(note)

    def readers(self) -> list[str]:
        return list(self._note()["readers"])

    def state(self) -> ChannelState:
        return self._state(self._note())

    def _state(self, note: dict[str, Any]) -> ChannelState:
        positions = self._refreshed(note)
        committed = {
            reader: max(joined, positions.committed(reader)) for reader, joined in note["readers"].items()
        }
        if self._results in committed:
            committed[self._results] = positions.start + self._aged(note, positions)
        aged = note.get("aged", {})
        return ChannelState(
            positions.start,
            positions.end,
            committed,
            positions.stored_bytes,
            aged_items=aged.get("items", 0),
            aged_bytes=aged.get("bytes", 0),
        )

    def _aged(self, note: dict[str, Any], positions: ChannelPositions) -> int:
        """How many of the oldest files are older than the table keeps them, by the newest file and by no date
        (see ages.py).
        """
        if self._keep.age_s is None:
            return 0
        return max(0, self.ages.behind_newest(note, self._keep.age_s) - positions.start)

    def committed(self) -> Committed:
        """What the log vouches for now, without what is older than the table keeps it."""
        while True:
            before = self._note()
            batch, entries = stream_logs.noted_entries(self.sink_log, self._disk)
            if (note := self._note()) == before:
                break
        gone = _gone(note)
        entries = [entry for entry in entries if entry.path not in gone]
        position, old = note["start"], 0
        if self._keep.age_s is not None:
            bound = self.ages.behind_newest(note, self._keep.age_s)
            while old < len(entries) and position + entries[old].items <= bound:
                position, old = position + entries[old].items, old + 1
        return Committed(batch, position, tuple(entries[old:]))

    def trim(self) -> Trimmed:
        with self.holds.lock:
            return self._trim()

    def _trim(self) -> Trimmed:
        note = self._note()
        dated = self._keep.age_s is not None or self._is_merged
        if dated and self.ages.take(note, self._refreshed(note).end):
            self._write_note(note)
        self.merges.settle(note)
        self._finish(note)
        # Only files that were merged before any hold was taken, so that nobody reads them by it.
        if merged := self.merges.outlived(note, self.holds.longest_s):
            if not self.is_on_disk():
                return Trimmed(0, 0)  # the note is as it was
            self._delete(note, merged)
        if self.merges.under_way(note):
            return Trimmed(0, 0)  # what is trimmed must not come back under its older names
        state = self._state(note)
        upto = min(state.trim_to(), self.holds.lowest)
        doomed = self._stored_until(note, upto) if upto > state.start else []
        for entry in doomed:
            self._refuse_outside(entry.path)
        if doomed and not self.is_on_disk():
            doomed = []
        if doomed:
            note["start"] += sum(entry.items for entry in doomed)
            if self._keep.age_s is not None:
                aged = note.setdefault("aged", {"items": 0, "bytes": 0})
                aged["items"] += sum(entry.items for entry in doomed)
                aged["bytes"] += sum(entry.size for entry in doomed)
            self._delete(note, [entry.path for entry in doomed])
        if damaged := self._positions.damaged:
            said = "; ".join(f"that of {reader}: {why}" for reader, why in damaged.items())
            raise EngineError(f"nothing of it is removed, because a reader's log is damaged ({said})")
        return Trimmed(sum(entry.items for entry in doomed), sum(entry.size for entry in doomed))

    def waiting(self, reader: str) -> tuple[int, list[str]]:
        """How many files a reader that is at its end has left, and the names of those that are known.

        What cannot be told from its log is not counted: a source that has read nothing may be another
        channel's.
        """
        note = self._note()
        state = self._state(note)
        count, names = state.lag(reader), self._positions.not_taken(reader)
        return (count, []) if names is None else (min(count, sum(map(items_of, names))), names)

    def merge_plan(self) -> MergePlan | None:
        """Files of a kept table that would better be one, if there are such behind all readers."""
        note = self._note()
        positions = self._refreshed(note)
        options, grown = self.merges.options, positions.entries - self._entries_when_planned
        if grown < 0:
            self._entries_when_planned, grown = 0, positions.entries
        # Planning takes reading the whole log, so only when there is something new to plan.
        if not self._is_merged or 2 * grown < options.fan:
            return None
        if self.merges.under_way(note) or note["trimming"] or _SINK_LOG in note["doubtful"]:
            return None
        settled = self.ages.behind_now(note, options.after_s) if options.after_s else positions.end
        plan = self.merges.plan(note, self._behind(note), positions.end, settled, self._keep.age_s)
        if plan is None:
            self._entries_when_planned = positions.entries
            return None
        for entry in plan.files:
            self._refuse_outside(entry.path)
        return plan

    @property
    def _is_merged(self) -> bool:
        return self._keep.for_good and self._keep.merge

    def adopt(self, plan: MergePlan, count: int) -> None:
        """Let a merged file, written as planned, take the place of the first `count` of its files. It is
        dropped if a reader has come that has not committed them.
        """
        note = self._note()
        end = plan.first + sum(entry.items for entry in plan.files[:count])
        if count < 2:
            self.merges.skip(plan)
        if count < 2 or plan.first < note["start"] or self._behind(note) < end + self.merges.options.spared:
            self._disk.delete(plan.hidden)
            return
        self.merges.adopt(note, plan, count)

    def _behind(self, note: dict[str, Any]) -> int:
        """The position up to which every reader within the pipeline has committed."""
        state = self._state(note)
        inside = [at for reader, at in state.committed.items() if reader != self._results]
        return min(inside, default=state.end)

    def appended_since(self, position: int) -> list[stream_logs.LogEntry]:
        """Files appended from `position` on, as far as they are still stored."""
        note = self._note()
        recent = self._refreshed(note).entries_from(position)
        return self._stored(note)[len(self._stored_until(note, position)) :] if recent is None else recent

    def goes_beyond(self, planned_batch: int) -> bool:
        """Whether the sink's log goes beyond the last batch that its writer has planned (-1: none), as after
        losing its checkpoint. The planned one itself may be there already: its writer died before committing.
        """
        return stream_logs.last_batch(self.sink_log, self._disk) > planned_batch

    def lost(self) -> str | None:
        """What is missing of what the writer has committed; None if all is there. `EngineError` if its log is
        damaged.

        A sink notes a batch before the writer's checkpoint does, so its log is never behind the checkpoint
        unless somebody took it away.
        """
        committed = stream_logs.last_committed_batch(self._checkpoint_of(self.name), self._disk)
        if not self.exists:
            return f"{self._note_file} is missing"
        if not is_folder(self._disk, self.folder):
            return f"the folder {self.folder} is missing"
        if committed is None:
            self._refreshed(self._note())  # raises if the log is damaged
            return None
        real = self._disk.real
        if not is_link(self._disk, self.link) or real(self.link) != real(self.folder):
            return f"{self.link} is no link to {self.folder}"
        noted = stream_logs.last_batch(self.sink_log, self._disk)
        if noted < committed:
            return f"the log in {self.folder} ends at batch {noted}, its writer has committed {committed}"
        if (absent := stream_logs.absent_batch(self.sink_log, self._disk)) is not None:
            return f"the log in {self.folder} has no batch {absent}"
        positions = self._refreshed(self._note())
        ends = [entry.path for entry in (positions.first, positions.last) if entry is not None]
        for path in ends:
            if not real(path.parent).is_relative_to(real(self.folder)):
                return (
                    f"its log names {path}, which is no file of {self.folder}: the storage was written under "
                    "another path, so mount it there"
                )
        gone = next((path for path in ends if self._disk.look(path) is None), None)
        return None if gone is None else f"the file {gone} is missing"

    def _point_link(self) -> None:
        if not is_link(self._disk, self.link):
            if any(
                entry.path.parent != self.link
                for entry in stream_logs.sink_entries(self.sink_log, self._disk)
            ):
                raise EngineError(
                    f"an older Mooring wrote {self.folder}, with other file names",
                    remedy="finish the run with that version, or start the pipeline over with --fresh",
                )
            self._owned.make_folder(self.link.parent)
            self._owned.make_link(self.link, os.path.relpath(self.folder, self.link.parent))

    def _finish(self, note: dict[str, Any]) -> None:
        """Carry out the trimming that was decided, from wherever an earlier attempt stopped."""
        if not note["trimming"] and not note["doubtful"]:
            return
        before = json.dumps(note)
        # By names that outlast a move: a reader's checkpoint changes its folder with every start.
        logs = {_SINK_LOG: self.sink_log}
        for reader in note["readers"]:
            checkpoint = self._checkpoint_of(reader)
            with contextlib.suppress(EngineError):  # told where its position is looked up
                for number, batch in enumerate(stream_logs.committed_source_batches(checkpoint, self._disk)):
                    if batch is not None and batch >= 0:  # else there is no log, or nothing in it
                        logs[f"{number} of {reader}"] = checkpoint / "sources" / str(number)
        rewrite = partial(self._owned.replace, on_disk=True)  # over a log that was, as Spark's are
        for name, log in logs.items():
            doubtful = note["doubtful"].setdefault(name, [])
            doubtful += [[stream_logs.last_batch(log, self._disk), path] for path in note["trimming"]]
            try:
                note["doubtful"][name] = stream_logs.settle_dropped(
                    log, doubtful, rewrite, self._disk, spare_newest=name != _SINK_LOG
                )
            except EngineError:  # a reader's: its entries stay in doubt until it can be read
                if name == _SINK_LOG:
                    raise
            if name == _SINK_LOG:
                for path in note["trimming"]:
                    self._refuse_outside(Path(path))
                    self._owned.remove(Path(path))
                    # What a checksummed file system keeps beside every file (see checkpoints/state_store.py).
                    self._owned.remove(Path(path).with_name(f".{Path(path).name}.crc"))
        note["doubtful"] = {name: left for name, left in note["doubtful"].items() if left}
        note["trimming"] = []
        if json.dumps(note) != before:
            self._write_note(note)

    def _delete(self, note: dict[str, Any], files: Sequence[Path]) -> None:
        """With their entries in all logs, and resumed after a crash: the note names them beforehand."""
        note["trimming"] = [str(path) for path in files]
        using = [self.name, *(reader for reader in note["readers"] if reader != self._results)]
        reached = {fragment: self._reached(fragment) for fragment in using}
        note[_REACHED] = {fragment: found for fragment, found in reached.items() if found is not None}
        self._write_note(note)
        self._finish(note)

    def _reached(self, fragment: str) -> list[Any] | None:
        """The query of the writer or a reader, and its last batch: written into the log, or committed."""
        checkpoint = self._checkpoint_of(fragment)
        if fragment == self.name:
            batch = None if (last := stream_logs.last_batch(self.sink_log, self._disk)) < 0 else last
        else:
            batch = stream_logs.last_committed_batch(checkpoint, self._disk)
        return None if batch is None else [stream_logs.query_id(checkpoint, self._disk), batch]

    def least_batch(self, fragment: str) -> int:
        """The batch that the writer or a reader must not go back behind: what was written or read up to there
        may be deleted. -1 if all of it is there.
        """
        note, found = self._note(), self._reached(fragment)
        if found is None:
            return -1
        if (deleted := note.get(_REACHED)) is None:  # as of an earlier Mooring
            return -1 if note["start"] <= note["readers"].get(fragment, 0) else int(found[1])
        query, batch = deleted.get(fragment, (None, -1))
        return int(batch) if query in (found[0], None) else -1

    def taken_in(self, named: Collection[Path]) -> dict[str, Path]:
        """Readers that have taken in a file that is there, and that the log does not name any more -> the
        file. `named`: what its whole part names.
        """
        note, found = self._note(), dict[str, Path]()
        replaced = self.merges.replaced(note, {path.name for path in named})
        known = {*named, *_gone(note)}
        for reader in note["readers"]:
            sources = self._checkpoint_of(reader) / "sources"
            for source in self._disk.list(sources):
                for entry in stream_logs.whole_entries(sources / source, self._disk):
                    own = entry.path.parent in (self.folder, self.link) and entry.path not in known
                    if own and entry.path.name not in replaced and is_file(self._disk, entry.path):
                        found[reader] = entry.path
        return found

    def take_back_merges(self, beyond: Collection[str]) -> list[Path]:
        """Drop the merges that stand in these files of the log alone, before those are set aside. Returns
        what they made, to be removed afterwards.
        """
        note = self._note()
        named = stream_logs.whole_entries(self.sink_log, self._disk, but=beyond)
        merged = self.merges.taken_back(note, {entry.path.name for entry in named})
        if merged:
            self._write_note(note)
        return merged

    def _refuse_outside(self, path: Path) -> None:
        """Only files of this channel are ever deleted, whatever logs and notes say, wherever links lead."""
        below = [path.relative_to(own) for own in (self.link, self.folder) if path.is_relative_to(own)]
        named = bool(below) and below[0].parts[:1] not in ((), (_SINK_LOG,)) and ".." not in path.parts
        own = self._disk.real(self.folder.parent) / self.folder.name
        if not named or self._disk.real(path.parent) != own / below[0].parent:
            raise EngineError(
                f"the log of the channel {self.name} names {path}, which is no file of {self.folder}",
                remedy="nothing was deleted; restore the log as Spark wrote it, or start over with --fresh",
            )

    def _stored(self, note: dict[str, Any]) -> list[stream_logs.LogEntry]:
        """Every entry of the sink's log, read anew: for what is done to files, not for every look."""
        gone = _gone(note)
        return [
            entry for entry in stream_logs.sink_entries(self.sink_log, self._disk) if entry.path not in gone
        ]

    def _stored_until(self, note: dict[str, Any], position: float) -> list[stream_logs.LogEntry]:
        found, at = list[stream_logs.LogEntry](), note["start"]
        for entry in self._stored(note):
            at += entry.items
            if at > position:
                break
            found.append(entry)
        return found

    def _refreshed(self, note: dict[str, Any]) -> ChannelPositions:
        self._positions.refresh(note["start"], _gone(note), note["readers"])
        return self._positions

    def _note(self) -> dict[str, Any]:
        try:
            note: dict[str, Any] = json.loads(checked(self._disk.read(self._note_file).data))
            if not isinstance(note, dict):
                raise ValueError("it is no JSON object")
        except FileNotFoundError:
            raise EngineError(f"the channel {self.name} has no {self._note_file}") from None
        except (OSError, ValueError) as damage:
            raise EngineError(
                f"{self._note_file} cannot be read: {damage}",
                remedy="restore it from a copy; it lists what readers still need",
            ) from damage
        return note

    def _write_note(self, note: dict[str, Any]) -> None:
        """On disk when this returns: it names what is trimmed before that is deleted."""
        self._disk.replace(self._note_file, with_sum(json.dumps(note).encode()))


def _gone(note: dict[str, Any]) -> set[Path]:
    """Files that are no longer stored, whatever the sink's log says for a while."""
    return {
        Path(path) for path in (*note["trimming"], *(path for _, path in note["doubtful"].get(_SINK_LOG, ())))
    }
