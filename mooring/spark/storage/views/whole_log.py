"""A log of the kind by which Spark's file sink vouches for files, written by Mooring.

Each file of it has all there is, and so is a compacted one to Spark, under every setting of a session. Two of
them stay: their distance shows Spark that every one is, and a reader that listed the log a moment ago finds
what it listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mooring.disk import DISK, Disk
from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import OwnedFolder


def logged_lines(log: Path, disk: Disk = DISK) -> list[bytes] | None:
    """What it says now; None if it was never written."""
    live = stream_logs.live_files(log, disk, current=True)
    return [line for line in disk.read(live[-1][1]).data.split(b"\n")[1:] if line] if live else None


def write_log(log: Path, lines: Iterable[bytes], owned: OwnedFolder) -> None:
    """From now on it says that, and nothing else, from one moment to the next."""
    number = stream_logs.last_batch(log, owned.disk, current=True) + 1
    content = b"\n".join([stream_logs.VERSION, *lines])
    owned.replace(log / f"{number}.compact", content, on_disk=True)
    owned.remove(log / f"{number - 2}.compact")
