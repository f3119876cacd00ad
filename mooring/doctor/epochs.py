"""Epochs of a checkpoint, and generations of a storage's owners: all but the newest closed by a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mooring.doctor.diagnosis import Diagnosis, some
from mooring.spark.storage.fencing import current_epoch, newest_number

_LEFT_BY_A_TAKE = (".taken", ".making")


def look_at_epochs(home: Path, part: str, name: str) -> Iterator[Diagnosis]:
    newest, names = current_epoch(home), os.listdir(home)
    if any(each.endswith(_LEFT_BY_A_TAKE) for each in names):
        what = f"a start was interrupted while it carried the checkpoint over; it is in {newest.name} now"
        yield Diagnosis(part, name, "pending", what, "the next start finishes it")
    older = [f"{number:06d}" for number in range(1, newest_number(home)) if f"{number:06d}" != newest.name]
    if strays := [each for each in older if (home / each).is_dir()]:
        what = f"a fenced query created {some(strays)} again"
        yield Diagnosis(part, name, "pending", what, f"replace them by empty files in {home}")
    if opened := [each for each in older if not (home / each).exists()]:
        what = f"{some(opened)} is not closed: a fenced query could continue there"
        yield Diagnosis(part, name, "pending", what, f"create empty files of these names in {home}")
