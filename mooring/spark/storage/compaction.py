"""Small files of a kept table are merged behind all readers, so that files and logs grow with its rows and
not with time.

A merge is made beside the table and then takes the place of its files in the sink's log. They all stand in
one file of that log, the newest compacted one, which is replaced in one rename: a reader of the log finds the
old files or the new one, never both, never neither. Spark may be compacting from what it read before, and so
bring the old files back; they are still there, and are replaced again. Only when a later compacted file names
the merged one are they on their way out, and they stay for some time even then, for those who have listed
them.

No streaming reader takes a merged file for a new one: its entry says that it was written in 1970, and Spark
ignores files that are too much older than the newest one it has seen: 49 years in a pipeline, a week by
Spark's default, which queries outside the pipeline have. A reader that has seen none, as one that
was added later, takes the merged files first and in order. So nothing is merged until every reader has
committed some files as they were written (docs/decisions/0027-small-files-are-merged.md).
"""

from __future__ import annotations

import errno
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from mooring.checksum import checked, with_sum
from mooring.disk import is_file
from mooring.errors import EngineError
from mooring.spark.storage.compacted_name import MergedName, read_name
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.storage_root import local_path
from mooring.spark.storage.stream_logs import (
    LogEntry,
    compact_interval,
    entry_of,
    last_batch,
    live_files,
    read_lines,
    replace_entries,
)

MAX_FILE_AGE_S = 49 * 31_557_600
"""Readers of channels ignore what is so much older than the newest file they have seen (`maxFileAge`): merged
files, which are dated 1970, and nothing else. Whichever clocks wrote two files, they lie less than 49 years
apart as long as both are set to a time between 2000 and 2049. Spark's default is a week."""
_HIDDEN = re.compile(r"\.merging-[0-9a-f]{16}")


@dataclass(frozen=True)
class MergeOptions:
    fan: int = 50
    """Files of about the same size that are merged into one. Rows are written anew whenever the number of
    their files grows by this factor."""
    spared: int = 20
    """Newest files, committed by all readers, that are left as they were written."""
    after_s: float = 3600.0
    """Files younger than this are left: readers outside the pipeline may be behind."""
    target_bytes: float = 64e6
    """Files of this size are large enough."""
    span: float = 0.02
    """Part of the age after which rows are removed that one file may span: it goes as a whole."""
    most_files: int = 2000
    """In one merge."""
    grace_s: float = 3600.0
    """How long files that were merged stay for those who have listed them."""


@dataclass(frozen=True)
class MergePlan:
    first: int
    """Position of the first file."""
    files: tuple[LogEntry, ...]
    hidden: Path
    """Where the merged file is written."""


@dataclass(frozen=True)
class _Item:
    entry: LogEntry
    first: int
    """Its position."""
    span_s: float
    """Since the one before it."""

    @property
    def end(self) -> int:
        return self.first + self.entry.items


def _positioned(entries: Sequence[LogEntry], start: int) -> list[_Item]:
    items, before_s = list[_Item](), entries[0].modified_s if entries else 0.0
    for entry in entries:
        items.append(_Item(entry, items[-1].end if items else start, max(0.0, entry.modified_s - before_s)))
        before_s = entry.modified_s
    return items


class Merges:
    """Of one channel. What is under way is in the channel's note, under `merges`; the files of each, which
    may be many, in a list of its own.
    """

    def __init__(
        self,
        folder: Path,
        sink_log: Path,
        owned: OwnedFolder,
        write_note: Callable[[dict[str, Any]], None],
    ) -> None:
        self._folder, self._sink_log = folder, sink_log
        self._owned, self._disk = owned, owned.disk
        self._lists = owned.merge_lists(folder.name)
        self._write_note = write_note
        self.options = MergeOptions()
        self._skipped: set[Path] = set()
        self.now_s: Callable[[dict[str, Any]], float] = lambda note: time.time()
        """In seconds since 1970, by no clock that jumps; given the channel's note."""

    def under_way(self, note: dict[str, Any]) -> bool:
        """Whether the old files might still come back into the log."""
        return any(merge["due_s"] is None for merge in note.get("merges", ()))

    def plan(
        self, note: dict[str, Any], behind: int, end: int, settled: int, age_s: float | None
    ) -> MergePlan | None:
        """What to merge next. `behind`: the position that every reader has committed; `end`: up to where the
        log is known to go; `settled`: up to where files are old enough; `age_s`: after which rows go.
        """
        self._remove_strays(note)
        live = live_files(self._sink_log, self._disk)
        if not live or live[0][1].suffix != ".compact":
            return None
        parts = [read_lines(file, self._disk) for _, file in live]
        items = _positioned(
            [entry_of(line, self._sink_log, self._disk) for part in parts for line in part], note["start"]
        )
        stamps = [line.modified_ms for part in parts for line in part]
        if not items or items[-1].end < end or not self._guarded(items, stamps, behind):
            return None
        upto = min(behind - self.options.spared, settled)
        ready = [item for item in items[: len(parts[0])] if item.end <= upto]
        chosen = self._choose(ready, math.inf if age_s is None else age_s * self.options.span)
        if not chosen:
            return None
        hidden = self._folder / f".merging-{secrets.token_hex(8)}"
        return MergePlan(chosen[0].first, tuple(item.entry for item in chosen), hidden)

    def skip(self, plan: MergePlan) -> None:
        """Its first file is not like the next one, and goes into no merge that begins with it."""
        self._skipped.add(plan.files[0].path)

    def _guarded(self, items: Sequence[_Item], stamps: Sequence[int], behind: int) -> bool:
        """Whether all readers have seen files, not merged ones, beside which any merged file is too old."""
        spared = [
            item.entry.items == 1 and stamp - MAX_FILE_AGE_S * 1000 > behind
            for item, stamp in zip(items, stamps, strict=True)
            if behind - self.options.spared < item.end <= behind
        ]
        return len(spared) == self.options.spared and all(spared)

    def _choose(self, ready: list[_Item], span_s: float) -> list[_Item]:
        """A run of files that stand for about as many each, the smallest first.

        Large ones are left: by half of what a merge may come to, so that any two others fit into one.
        """
        options = self.options

        def level(item: _Item) -> int:
            large = 2 * item.entry.size >= options.target_bytes or 2 * item.span_s >= span_s
            if large or item.entry.path in self._skipped:
                return -1
            found, count = 0, item.entry.items
            while count >= options.fan:
                found, count = found + 1, count // options.fan
            return found

        runs = [(key, list(run)) for key, run in groupby(ready, level)]
        fitting = [(key, run) for key, run in runs if key >= 0 and len(run) >= options.fan]
        if not fitting:
            return []
        chosen, size, span = list[_Item](), 0, 0.0
        for item in min(fitting, key=lambda each: each[0])[1][: options.most_files]:
            size, span = size + item.entry.size, span + item.span_s
            if size > options.target_bytes or span > span_s:
                break
            chosen.append(item)
        return chosen

    def adopt(self, note: dict[str, Any], plan: MergePlan, count: int) -> None:
        """Let the merged file take the place of the first `count` files of its plan."""
        files = plan.files[:count]
        end = plan.first + sum(entry.items for entry in files)
        newest_ms = max(round(entry.modified_s * 1000) for entry in files)
        merge = {"id": secrets.token_hex(8), "into": MergedName(plan.first, end, newest_ms).make()}
        if (hidden := self._disk.look(plan.hidden)) is None:
            raise FileNotFoundError(errno.ENOENT, "no longer there", str(plan.hidden))
        content = {
            "hidden": plan.hidden.name,
            "size": hidden.size,
            "modified_ms": end,
            "files": [str(entry.path) for entry in files],
        }
        self._disk.make_folder(self._lists, exist_ok=True)
        self._disk.replace(self._list(merge), with_sum(json.dumps(content).encode()))
        note.setdefault("merges", []).append({**merge, "at": None, "due_s": None})
        self._write_note(note)
        self.settle(note)

    def settle(self, note: dict[str, Any]) -> None:
        """Carry on with what was adopted, from wherever an earlier attempt stopped."""
        if not note.get("merges"):
            return
        before = json.dumps(note)
        now_s = self.now_s(note)
        note["merges"] = [merge for merge in note["merges"] if self._goes_on(merge, now_s)]
        if json.dumps(note) != before:
            self._write_note(note)

    def give_up(self, note: dict[str, Any]) -> None:
        """Drop merges whose files still stand in the log, before a reader comes that may take in some of them
        under their own names; the caller writes the note.
        """
        for merge in list(note.get("merges", ())):
            if merge["due_s"] is None and merge["into"] not in self._names_compacted():
                for name in (merge["into"], self._listed(merge)["hidden"]):
                    self._owned.remove(self._folder / name)
                note["merges"].remove(merge)

    def taken_back(self, note: dict[str, Any], named: Collection[str]) -> list[Path]:
        """Drop merges whose files the log names again without the merged one, as it goes back behind them;
        the caller writes the note, and removes what is returned once the log has gone back. `named`: names of
        all files of the log then.
        """
        files = list[Path]()
        for merge in list(note.get("merges", ())):
            listed = self._listed(merge)
            if merge["into"] not in named and any(Path(path).name in named for path in listed["files"]):
                files += [self._folder / merge["into"], self._folder / listed["hidden"]]
                note["merges"].remove(merge)
        return files

    def replaced(self, note: dict[str, Any], named: Collection[str] | None = None) -> set[str]:
        """Names of files that merged ones stand for, or are to, and that are still there for a while; only of
        those merged ones that are `named`, if that is given.
        """
        merges = [each for each in note.get("merges", ()) if named is None or each["into"] in named]
        return {Path(path).name for merge in merges for path in self._listed(merge)["files"]}

    def _names_compacted(self) -> set[str]:
        """Files that the newest compacted file of the sink's log names; merged ones stand in no other."""
        live = live_files(self._sink_log, self._disk)
        if not live or live[0][1].suffix != ".compact":
            return set()
        return {
            local_path(line.path, self._sink_log, self._disk).name
            for line in read_lines(live[0][1], self._disk)
        }

    def outlived(self, note: dict[str, Any], held_s: float = 0.0) -> list[Path]:
        """Files that a merged one stands for and that nobody can be reading any more; to be deleted by the
        caller, who writes the note. `held_s`: for how long somebody has been holding files.
        """
        now_s, due = self.now_s(note) - max(0.0, held_s - self.options.grace_s), list[Path]()
        for merge in list(note.get("merges", ())):
            if merge["due_s"] is not None and merge["due_s"] <= now_s:
                due += [Path(path) for path in self._listed(merge)["files"]]
                note["merges"].remove(merge)
        return due

    def _goes_on(self, merge: dict[str, Any], now_s: float) -> bool:
        """False once nothing is left to do for a merge."""
        if merge["due_s"] is not None:
            return True
        listed, live = self._listed(merge), live_files(self._sink_log, self._disk)
        if not live or live[0][1].suffix != ".compact":
            return True
        number, compact = live[0]
        made = self._put_in_place(merge, listed)
        names = {
            local_path(line.path, self._sink_log, self._disk).name for line in read_lines(compact, self._disk)
        }
        files = {Path(path).name for path in listed["files"]}
        old = names & files
        if merge["into"] in names and not old:
            if merge["at"] is None:
                merge["at"] = number
            elif number > merge["at"]:
                merge["due_s"] = now_s + self.options.grace_s
            return True
        if merge["into"] not in names and not old:
            return False
        if merge["into"] in names or old != files:
            raise EngineError(
                f"{compact} names some of the files that {merge['into']} stands for",
                remedy="merging and trimming stop there; restore the log from a copy",
            )
        if not made:
            return False
        if self._no_compaction_is_near(number):
            replace_entries(
                compact,
                files,
                merge["into"],
                listed["size"],
                listed["modified_ms"],
                partial(self._owned.replace, on_disk=True),
                self._disk,
            )
            merge["at"] = number
        return True

    def _put_in_place(self, merge: dict[str, Any], listed: dict[str, Any]) -> bool:
        made, hidden = self._folder / merge["into"], self._folder / listed["hidden"]
        if not is_file(self._disk, made) and is_file(self._disk, hidden):
            self._disk.move(hidden, made)
            self._disk.sync([self._folder])  # before the log names it
        return is_file(self._disk, made)

    def _no_compaction_is_near(self, compacted: int) -> bool:
        """Spark reads the log for the next compacted file once the batch before it is noted. Two batches
        earlier it cannot be at it.
        """
        interval = compact_interval(self._sink_log, self._disk)
        if interval is None:
            return False
        return last_batch(self._sink_log, self._disk) <= max(compacted, compacted + interval - 3)

    def _list(self, merge: dict[str, Any]) -> Path:
        return self._lists / f"{merge['id']}.json"

    def _listed(self, merge: dict[str, Any]) -> dict[str, Any]:
        """Names of files that are moved or removed are such as only merges have, whatever a list says."""
        try:
            listed: dict[str, Any] = json.loads(checked(self._disk.read(self._list(merge)).data))
            if not _HIDDEN.fullmatch(listed["hidden"]) or read_name(merge["into"]) is None:
                raise ValueError("it names files that no merge made")
        except (OSError, ValueError, KeyError, TypeError) as damage:
            raise EngineError(
                f"{self._list(merge)}, the list of files merged into {merge['into']}, cannot be read: "
                f"{damage}",
                remedy="restore it from a copy",
            ) from damage
        return listed

    def _remove_strays(self, note: dict[str, Any]) -> None:
        """What a merge left that was cut short before it was adopted, or after it was over."""
        needed = {self._list(merge).name for merge in note.get("merges", ())}
        hidden = {self._listed(merge)["hidden"] for merge in note.get("merges", ())}
        for name in self._disk.list(self._lists):
            if name not in needed:
                self._disk.delete(self._lists / name)
        for name in self._disk.list(self._folder):
            if _HIDDEN.fullmatch(name) and name not in hidden:
                self._owned.remove(self._folder / name)
