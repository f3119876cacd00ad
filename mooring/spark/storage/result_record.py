"""What the rows of a storage were computed with: the settings that they depend on, and Spark's version.

It lies in a file of its own beside the pipeline record. Storage of an earlier Mooring is adopted.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from mooring.checksum import DamagedError, checked, with_sum
from mooring.disk import DISK, Disk
from mooring.errors import EngineError
from mooring.spark.storage.owned_folder import OwnedFolder

RESULTS_FILE_NAME = "results.json"


class ResultRecord(msgspec.Struct, frozen=True):
    spark: str
    """Of every site that runs a part of the pipeline."""
    settings: dict[str, str | None]
    """Setting -> value that every session has; None: not set."""

    def changed(self, now: ResultRecord) -> dict[str, tuple[str | None, str | None]]:
        """Setting -> before and now. One that only one of the two knows is of another Mooring."""
        return {
            name: (value, now.settings[name])
            for name, value in self.settings.items()
            if name in now.settings and now.settings[name] != value
        }


def read_results(root: Path, disk: Disk = DISK) -> ResultRecord | None:
    """None where no run has written it down."""
    file = root / RESULTS_FILE_NAME
    try:
        return msgspec.json.decode(checked(disk.read(file).data), type=ResultRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, DamagedError) as damage:
        raise EngineError(
            f"{file} cannot be read: {damage}",
            remedy="remove it: the next run writes down the present settings, and compares with those",
        ) from damage


def write_results(root: Path, record: ResultRecord, owned: OwnedFolder) -> None:
    content = msgspec.json.format(msgspec.json.encode(record), indent=1)
    replace = partial(owned.replace, on_disk=True)
    try:
        replace(root / RESULTS_FILE_NAME, with_sum(content) + b"\n")
    except OSError as failure:
        raise EngineError(
            f"{root / RESULTS_FILE_NAME} cannot be written: {failure}",
            remedy="check that the storage root is writable and is not full; nothing was started",
        ) from failure
