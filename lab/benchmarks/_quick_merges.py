"""The command `mooring` with tables whose files are merged within seconds, not hours."""

from __future__ import annotations

from functools import partial

from mooring.cli.main import entry
from mooring.spark.storage import compaction

QUICK = compaction.MergeOptions(fan=4, spared=6, after_s=2.0, grace_s=4.0)

if __name__ == "__main__":
    compaction.MergeOptions = partial(compaction.MergeOptions, **vars(QUICK))  # type: ignore[assignment, misc]
    entry()
