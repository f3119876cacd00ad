"""Going back to the newest batch that whole logs prove, where a power cut has damaged newer ones.

Where nothing syncs what Spark writes, a power cut leaves the newest files empty or cut short: rows, offsets,
commits, state, the logs of sources and of the sink. Spark refuses them. But each batch can be made again from
what it read, as long as that is there, and nothing is deleted before what was made of it is on disk
(`syncing.py`).

Where a query goes back to follows from its sink's log, which skips every number that it has:

| what is whole                                                   | the query goes on with              |
| --------------------------------------------------------------- | ----------------------------------- |
| the sink's log up to N; offsets and commit of N, state N + 1    | batch N + 1, as planned if that is whole |
| the sink's log up to N; offsets of N, state N                   | batch N, which the sink skips       |
| a channel's log beyond N; offsets and commit of N, state N + 1  | batch N + 1, if no reader has read more |
| no log of a sink; offsets and commit of N, state N + 1          | batch N + 1                         |
| none of both, but where its sources begin                       | batch 0                             |

The log of a sink of files may also end before what its writer has committed, without a damaged file: it lies
on another disk, which has lost its newest names, or an older copy was put back. That is damage too. A channel
whose log ends early is refused (`file_channel.py`): its readers may have had what is missing.

In all other cases nothing is proven, and the run is refused with the name of the file. What lies beyond the
batch is set aside under a hidden name, and never deleted.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from mooring.disk import Disk, everything_below, is_file, is_folder, read_if_there
from mooring.errors import EngineError
from mooring.spark.storage import stream_logs
from mooring.spark.storage.syncing import NEWEST

_NUMBERED = re.compile(r"(\d+)(\.compact)?")
_STATE = re.compile(r"(\d+)(?:_[^.]+)?\.(delta|snapshot|zip|changelog)")
_PARQUET = (b"PAR1", b"PARE")
"""How files of columns end; the second one where their footer is encrypted."""
_LZ4, _LZ4_END = b"LZ4Block", 21
"""How Spark compresses state by default, and the bytes of the empty block that ends it."""
_UNWRITTEN_MS = 600_000
"""What is older than the newest file by this much, a system has written to disk by itself."""
_OTHER_VERSION = re.compile(r"v(?!1$)\d+")
"""Of an offsets or commit file: what it says is not looked at."""
_NOTHING = -1
"""No batch."""


@dataclass(frozen=True)
class Fallback:
    batch: int
    """The newest that stays; -1: none."""
    committed: bool
    """Whether its commit stays, too. If not, it is run again, and its sink skips it."""
    damaged: tuple[Path, ...]
    """Files that are missing, empty or cut short."""
    beyond: tuple[Path, ...]
    """Files of the checkpoint, by their path in it, that are set aside."""
    beyond_sink: tuple[str, ...] = ()
    """The same of the sink's log, by name."""

    def __str__(self) -> str:
        upto = "its beginning" if self.batch == _NOTHING else f"batch {self.batch}"
        more = f" and {len(self.damaged) - 2} more" if len(self.damaged) > 2 else ""
        return f"{', '.join(map(str, self.damaged[:2]))}{more} damaged or missing; whole logs prove {upto}"


def set_aside(disk: Disk, files: Iterable[Path]) -> None:
    """Under a name that neither Spark nor Mooring takes for a file of a log."""
    for file in files:
        disk.move(file, file.with_name(f".{file.name}.damaged"))


def found_fallback(
    checkpoint: Path,
    sink_log: Path | None,
    disk: Disk,
    *,
    least: int = _NOTHING,
    only_channels: bool = False,
    readers_known: bool = False,
    current: bool = False,
) -> Fallback | None:
    """Where the query of a checkpoint has to go back to; None if nothing is damaged. `EngineError`, which
    names the file, if that is not proven. `sink_log`: of its channel or its sink of files. `least`: the batch
    from which on its inputs are still there. `only_channels`: whether it reads nothing else.
    `readers_known`: whether what it wrote can be taken back where none of its readers has it. `current`: by
    listings that are, which takes changing folders (`Disk.list`); what an old one lacks counts as damaged.
    """
    if not is_folder(disk, checkpoint):
        return None
    sink = None if sink_log is None else _FilesLog.read(sink_log, disk, rows=True, current=current)
    seen = _Checkpoint(checkpoint, disk, current=current)
    damaged = [*seen.damage(), *(() if sink is None else sink.damaged)]
    if sink is not None and not readers_known and (absent := seen.absent_from(sink)) is not None:
        damaged.append(absent)
    if not damaged:
        return None
    for batch, committed in seen.candidates(sink, readers_known=readers_known):
        if batch >= least and seen.proves(batch, committed=committed, only_channels=only_channels):
            beyond = () if sink is None else tuple(sink.beyond(batch))
            return Fallback(batch, committed, tuple(damaged), tuple(seen.beyond(batch, committed)), beyond)
    outside = "" if sink is None or readers_known else f"empty {sink.folder.parent} and "
    raise EngineError(
        f"{damaged[0]} is empty, truncated or missing, and no intact log proves a batch to fall back "
        f"to{f' (its inputs are there from batch {least + 1} on)' if least > _NOTHING else ''}",
        remedy=f"restore it from a copy; or {outside}recompute what it belongs to with --once --full-refresh "
        "NAME, or all with --fresh",
    )


@dataclass(frozen=True)
class _FilesLog:
    """Of files that a source took in, or a sink wrote."""

    folder: Path
    upto: int
    """The newest number that it proves."""
    numbers: dict[str, int]
    """By name, of all its files."""
    damaged: tuple[Path, ...]

    @staticmethod
    def read(folder: Path, disk: Disk, *, rows: bool = False, current: bool = False) -> _FilesLog:
        """`rows`: it names files of a sink, which are to be whole, too."""
        listed = disk.list(folder, current=current)
        names = {name: match for name in listed if (match := _NUMBERED.fullmatch(name))}
        numbers = {name: int(match[1]) for name, match in names.items()}
        if not numbers:
            return _FilesLog(folder, _NOTHING, {}, ())
        compacts = sorted((numbers[name] for name, match in names.items() if match[2]), reverse=True)
        damaged, seen = dict[Path, None](), dict[str, list[stream_logs.LogLine] | None]()

        def lines(name: str) -> list[stream_logs.LogLine] | None:
            if name not in seen:
                seen[name] = _lines_of(folder / name, disk)
            return seen[name]

        live = [name for name, number in numbers.items() if number >= max(compacts, default=0)]
        newest_ms = max((line.modified_ms for name in live for line in lines(name) or ()), default=0)

        def is_whole(name: str) -> bool:
            if (told := lines(name)) is None:
                found = [folder / name]
            else:
                found = _damaged_rows(told, folder, newest_ms - _UNWRITTEN_MS, disk) if rows else []
            damaged.update(dict.fromkeys(found))
            return not found

        upto = next((number for number in compacts if is_whole(f"{number}.compact")), _NOTHING)
        while (name := str(upto + 1)) in numbers and is_whole(name):
            upto += 1
        if upto < max(numbers.values()) and not damaged:
            damaged[folder / str(upto + 1)] = None
        return _FilesLog(folder, upto, numbers, tuple(damaged))

    def beyond(self, number: int) -> Iterator[str]:
        return (name for name, own in self.numbers.items() if own > number)


def _lines_of(file: Path, disk: Disk) -> list[stream_logs.LogLine] | None:
    """None if the file is not whole."""
    try:
        return stream_logs.parse_lines(disk.read(file).data, file)
    except (EngineError, FileNotFoundError):
        return None


def _damaged_rows(lines: list[stream_logs.LogLine], log: Path, since_ms: int, disk: Disk) -> list[Path]:
    """Files that a log names and that are not whole, of the newest. One that is gone may have been trimmed,
    and what became of older files of a sink is its owner's.
    """
    damaged = list[Path]()
    for line in lines[-NEWEST:]:
        if line.modified_ms >= since_ms:
            path = stream_logs.entry_of(line, log, disk).path
            there = disk.look(path)
            if there is not None and not _is_row_file(path, there.size, line.size, disk):
                damaged.append(path)
    return damaged


def _is_row_file(path: Path, size: int, noted: int, disk: Disk) -> bool:
    if size != noted:
        return False
    return path.suffix != ".parquet" or disk.read(path, max(0, size - 4)).data in _PARQUET


class _Checkpoint:
    def __init__(self, folder: Path, disk: Disk, *, current: bool) -> None:
        self._folder, self._disk, self._current = folder, disk, current
        self._offsets, self._commits = self._numbers("offsets"), self._numbers("commits")
        self._newest = max([*self._offsets, *self._commits], default=_NOTHING)

    def damage(self) -> Iterator[Path]:
        """Of what Spark reads when the query starts."""
        if self._newest == _NOTHING:
            return
        if not self._is_json(self._folder / "metadata"):
            yield self._folder / "metadata"
        planned, committed = max(self._offsets, default=_NOTHING), max(self._commits, default=_NOTHING)
        for number in sorted(self._offsets)[-max(2, planned - committed + 1) :]:
            if self._sources(number) is None:
                yield self._folder / "offsets" / str(number)
        if committed > planned:
            yield self._folder / "offsets" / str(committed)
        if committed > _NOTHING and not self._is_commit(committed):
            yield self._folder / "commits" / str(committed)
        for log in self._logs(planned):
            yield from log.damaged
        yield from (
            file for file in self._damaged_state(min(planned, committed) + 1) if is_file(self._disk, file)
        )

    def absent_from(self, sink: _FilesLog) -> Path | None:
        """The first file that a sink's log lacks of what was committed, if it has some and no gap."""
        ends = max(sink.numbers.values(), default=_NOTHING)
        if sink.damaged or not _NOTHING < ends < max(self._commits, default=_NOTHING):
            return None
        return sink.folder / str(ends + 1)

    def candidates(self, sink: _FilesLog | None, *, readers_known: bool) -> Iterator[tuple[int, bool]]:
        """Batches to go back to, and whether with their commit."""
        if sink is not None and sink.numbers:
            lowest = _NOTHING if readers_known else sink.upto
            for batch in range(sink.upto, lowest - 1, -1):
                yield batch, True
                if batch > _NOTHING:
                    yield batch, False
            return
        yield from ((batch, True) for batch in (*sorted(self._commits, reverse=True), _NOTHING))

    def proves(self, batch: int, *, committed: bool, only_channels: bool) -> bool:
        if batch == _NOTHING:
            retired = min([*self._offsets, *self._commits], default=0) > 0
            known = only_channels or self._begins_as_planned() or not any(self._lost_beginnings())
            return known and not retired and self._is_json(self._folder / "metadata")
        before = self._sources(batch - 1)
        if not self._is_json(self._folder / "metadata") or self._sources(batch) is None:
            return False
        if (committed and not self._is_commit(batch)) or (batch > 0 and not committed and before is None):
            return False
        if not self._reaches(batch):
            return False
        return not any(self._damaged_state(batch + 1 if committed else batch))

    def beyond(self, batch: int, committed: bool) -> Iterator[Path]:
        """What has to go for the query to go on with the batch after it, or with itself."""
        if batch == _NOTHING and not self._begins_as_planned():
            kept = {self._folder / "metadata", *self._beginnings()} - set(self._lost_beginnings())
            for path, entry in everything_below(self._disk, self._folder):
                if entry.kind == "file" and not path.name.startswith(".") and path not in kept:
                    yield path.relative_to(self._folder)
            return
        again = batch + 1
        planned = committed and self._sources(again) is not None and self._reaches(again)
        last = again if planned else batch
        yield from (Path("offsets", str(number)) for number in self._offsets if number > last)
        yield from (
            Path("commits", str(number)) for number in self._commits if number > batch - (not committed)
        )
        for log in self._logs(last):
            yield from ((log.folder / name).relative_to(self._folder) for name in log.beyond(log.upto))
        for path, version in self._states():
            if version > batch + committed:
                yield path.relative_to(self._folder)

    def _begins_as_planned(self) -> bool:
        return self._sources(0) is not None and self._reaches(0)

    def _beginnings(self) -> Iterator[Path]:
        """What sources note first: files, or the offsets that they begin at."""
        sources = self._folder / "sources"
        return (
            log / "0" for name in self._disk.list(sources) if is_folder(self._disk, log := sources / name)
        )

    def _lost_beginnings(self) -> Iterator[Path]:
        """Without these a source may begin later than it did."""
        for file in self._beginnings():
            version, *lines = (read_if_there(self._disk, file) or b"").decode(errors="replace").split("\n")
            if version != "v1" or not all(_whole_json(line) for line in lines if line):
                yield file

    def _numbers(self, part: str) -> set[int]:
        listed = self._disk.list(self._folder / part, current=self._current)
        return {int(name) for name in listed if name.isdigit()}

    def _sources(self, batch: int) -> list[int | None] | None:
        """How far each source's log goes with the batch; None if its offsets are not whole."""
        content = read_if_there(self._disk, self._folder / "offsets" / str(batch)) or b""
        version, *lines = content.decode(errors="replace").split("\n")
        if _OTHER_VERSION.fullmatch(version):
            return []
        if version != "v1" or not lines or not _whole_json(lines[0]):
            return None
        offsets = lines[1:]
        if not offsets or not all(line and (line[0] not in "{[" or _whole_json(line)) for line in offsets):
            return None
        return [stream_logs.log_offset(line) for line in offsets]

    def _logs(self, batch: int) -> Iterator[_FilesLog]:
        """Of the sources that read files, as far as offsets up to the batch tell."""
        told = next((found for at in range(batch, -1, -1) if (found := self._sources(at)) is not None), None)
        for number, offset in enumerate(told or ()):
            if offset is not None and is_folder(self._disk, log := self._folder / "sources" / str(number)):
                yield _FilesLog.read(log, self._disk, current=self._current)

    def _reaches(self, batch: int) -> bool:
        """Whether the logs of its sources go as far as its offsets say."""
        for number, offset in enumerate(self._sources(batch) or ()):
            log = self._folder / "sources" / str(number)
            if offset is not None and offset > _FilesLog.read(log, self._disk, current=self._current).upto:
                return False
        return True

    def _is_commit(self, batch: int) -> bool:
        content = read_if_there(self._disk, self._folder / "commits" / str(batch)) or b""
        version, _, rest = content.decode(errors="replace").partition("\n")
        return bool(_OTHER_VERSION.fullmatch(version)) or (version == "v1" and _whole_json(rest))

    def _is_json(self, file: Path) -> bool:
        return _whole_json((read_if_there(self._disk, file) or b"").decode(errors="replace"))

    # State

    def _states(self) -> Iterator[tuple[Path, int]]:
        if is_folder(self._disk, state := self._folder / "state"):
            for path, entry in everything_below(self._disk, state):
                if entry.kind == "file" and (match := _STATE.fullmatch(path.name)) is not None:
                    yield path, int(match[1])

    def _damaged_state(self, version: int) -> Iterator[Path]:
        """Of what every store loads for a version."""
        if version < 1:
            return
        stores: dict[Path, dict[int, list[Path]]] = {}
        for path, own in self._states():
            stores.setdefault(path.parent, {}).setdefault(own, []).append(path)
        for store, versions in stores.items():
            at = version
            while at > 0:
                files = versions.get(at, [])
                if not files:
                    yield store / f"{at}.delta"
                    break
                if damaged := [file for file in files if not self._is_state(file)]:
                    yield damaged[0]
                    break
                if any(file.suffix in (".snapshot", ".zip") for file in files):
                    break
                at -= 1

    def _is_state(self, file: Path) -> bool:
        entry, sum_file = self._disk.look(file), self._disk.look(file.with_name(f".{file.name}.crc"))
        if entry is None or entry.size == 0 or (sum_file is not None and sum_file.size == 0):
            return False
        if file.suffix == ".zip":
            return zipfile.is_zipfile(BytesIO(self._disk.read(file).data))
        end = self._disk.read(file, max(0, entry.size - _LZ4_END)).data
        if end.startswith(_LZ4) and not end[-12:].strip(b"\0"):
            return True
        begin = self._disk.read(file).data[: len(_LZ4)]
        return (
            bool(begin.strip(b"\0")) and begin != _LZ4
        )  # else compressed by another codec, which tells nothing


def _whole_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
