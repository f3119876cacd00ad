"""Merging the small files of kept tables while a run goes on, one merge at a time.

Reading and writing rows takes long, so it is done by a thread of its own, which writes only a file that
nothing refers to yet. What the notes and logs of channels say is planned and changed by the run's own thread
only, whenever it trims.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Mapping

from mooring.disk import DISK, Disk
from mooring.errors import EngineError, described
from mooring.spark.storage.compacted_file import write_merged
from mooring.spark.storage.compaction import MergePlan
from mooring.spark.storage.file_channel import FileChannel

_PATIENCE_S = 10.0
"""A merge is of 64 MB at most; on a disk that hangs nobody waits for it."""


class _Job(threading.Thread):
    def __init__(self, channel: str, plan: MergePlan, disk: Disk) -> None:
        super().__init__(name=f"merging {channel}", daemon=True)
        self.channel, self.plan, self._disk = channel, plan, disk
        self.count = 0
        """Files that were merged, once the thread has ended."""
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self.count = write_merged([entry.path for entry in self.plan.files], self.plan.hidden, self._disk)
        except Exception as failure:
            self.failure = failure


class Merging:
    def __init__(self, channels: Mapping[str, FileChannel], disk: Disk = DISK) -> None:
        self._channels, self._disk = channels, disk
        self._turns = deque(channels)
        """Channels whose files can be merged, the next one first."""
        self._job: _Job | None = None

    def step(self) -> None:
        """Adopt what has been merged, and begin the next merge if one is due."""
        if self._job is not None:
            if self._job.is_alive():
                return
            job, self._job = self._job, None
            self._take_over(job)
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            name = self._turns[-1]
            if (plan := self._channels[name].merge_plan()) is not None:
                self._job = _Job(name, plan, self._disk)
                self._job.start()
                return

    def close(self) -> None:
        """Wait for the merge at hand. Nobody adopts it; the next run that merges removes it."""
        if self._job is not None:
            self._job.join(_PATIENCE_S)

    def _take_over(self, job: _Job) -> None:
        if job.failure is None:
            self._channels[job.channel].adopt(job.plan, job.count)
            return
        with contextlib.suppress(OSError):  # before the next merge is planned it is removed in any case
            self._disk.delete(job.plan.hidden)
        if isinstance(job.failure, OSError):
            raise job.failure  # a disk may have room again
        self._turns.remove(job.channel)
        raise EngineError(
            f"the small files of the channel {job.channel!r} cannot be merged: {described(job.failure)}",
            remedy=(
                "nothing was changed; set `merge: false` for the table in mooring.yml to stop these attempts"
            ),
        ) from job.failure
