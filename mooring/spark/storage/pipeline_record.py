"""The pipeline record: what a storage root holds, and for which cut of which pipeline.

Every run over a storage root continues with its contents: checkpoints belong to fragments, channels to flows
and their readers. A project says what the pipeline is now; only the storage can say what it was. So each run
writes down, before it starts anything, how the pipeline is cut, who reads what, and which results are kept.
The next run holds the project against it, and nothing that is missing or changed is taken as new.

An edit that touches the storage is carried out in three steps: everything that takes long is made aside, the
record is replaced by the new one with a list of what is left to do, and that is done, however often it is
interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from mooring.checksum import DamagedError, checked, with_sum
from mooring.disk import DISK, Disk
from mooring.errors import EngineError
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.storage_root import identity_of, stamp_format

RECORD_FILE_NAME = "pipeline.json"

WhyKept = Literal["asked", "default", "unread"]
"""`mooring.yml` asks for it, or nothing else was said. `unread` is of an older Mooring, which kept a table
unasked only if nobody in the pipeline read it.
"""


class FlowRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A flow that has written into the storage, or reads from it."""

    dataset: str
    kind: str
    """Of the dataset: table, sink or materialized (view)."""
    fingerprint: str
    stateful: bool
    stored: str = "parquet"
    """How the rows of a table or view lie in its files; of a sink, its format."""
    path: str = ""
    """Of a sink that writes files."""
    columns: str = ""
    """Names and types of a table's."""


class Dropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody gave up by name."""

    name: str
    what: str
    at: str
    """When, in UTC."""


class Carried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint that was made aside, of that of a fragment which it is for a part of."""

    of: str
    batch: int
    """The last that is committed in it."""


class Unfinished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is left to do of an edit that is decided. Every step can be repeated."""

    retire: tuple[str, ...] = ()
    """Fragments whose checkpoint is given up."""
    delete: dict[str, str] = {}
    """Flow whose channel is given up -> its dataset."""
    views: tuple[str, ...] = ()
    """Materialized views whose versions are given up."""
    carried: dict[str, Carried] = {}
    """By fragment."""

    def __bool__(self) -> bool:
        return bool(self.retire or self.delete or self.views or self.carried)


class PipelineRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fragments: dict[str, tuple[str, ...]] = {}
    """Fragment -> its flows."""
    flows: dict[str, FlowRecord] = {}
    """In the order in which readers of a dataset take its writers."""
    reads: dict[str, tuple[str, ...]] = {}
    """Fragment -> the flows whose channels it reads, in the order of its sources."""
    results: dict[str, WhyKept] = {}
    """Dataset whose rows are kept -> why."""
    dropped: tuple[Dropped, ...] = ()
    unfinished: Unfinished = Unfinished()
    run_from: str = ""
    """The folder that relative paths of data started at; empty where the pipeline has none."""

    @property
    def home(self) -> dict[str, str]:
        """Flow -> the fragment it ran in."""
        return {flow: name for name, flows in self.fragments.items() for flow in flows}


NOTHING_RECORDED = PipelineRecord()


def read_record(root: Path, disk: Disk = DISK) -> PipelineRecord | None:
    """What the last run over the storage root wrote down; None where none did. Refuses what a newer Mooring
    wrote.
    """
    identity_of(root, disk)
    file = root / RECORD_FILE_NAME
    try:
        return msgspec.json.decode(checked(disk.read(file).data), type=PipelineRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, DamagedError) as damage:
        raise EngineError(
            f"{file} cannot be read: {damage}",
            remedy="restore it from a copy, or start the pipeline over with --fresh",
        ) from damage


def write_record(root: Path, record: PipelineRecord, owned: OwnedFolder) -> None:
    """On disk when this returns, and the storage is of the present format from then on."""
    try:
        content = msgspec.json.format(msgspec.json.encode(record), indent=1)
        owned.replace(root / RECORD_FILE_NAME, with_sum(content) + b"\n", on_disk=True)
        stamp_format(root, partial(owned.replace, on_disk=True), owned.disk)
    except OSError as failure:
        raise EngineError(
            f"{root / RECORD_FILE_NAME} cannot be written: {failure}",
            remedy="check that the storage root exists, is writable and is not full; nothing was started",
        ) from failure


def forget_record(root: Path, remove: Callable[[Path], None]) -> None:
    remove(root / RECORD_FILE_NAME)
