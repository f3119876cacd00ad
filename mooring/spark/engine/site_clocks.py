"""The offsets of the sites' clocks from ours, which make their times comparable.

A site stamps its batches with its own clock, and two sites need not agree. Each is asked for its time now and
then; half the time that the answer took is what may be wrong with it. Embedded sites have our clock. Files
carry the time of the machine that keeps the file system: a server, whose clock a file of ours shows, or the
machine that wrote them. The batch that wrote the file decides between the two. Where no known clock explains
a file's time, it is unknown, and so is every latency computed from it.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.disk import DISK, Disk
from mooring.spark.engine.meters import Batch
from mooring.spark.sites.sites import SiteHandle

ASK_S = 60.0
"""Seconds between two questions for a site's time; clocks are set now and then."""
_NOW = "VALUES (unix_micros(current_timestamp()))"
"""Answered while it is planned: a SELECT would be a job, and wait for a slot at a full site."""
_MARGIN_S = 0.5
"""A file's time may be as far from the batch that wrote it: file systems round."""
LEAST_STEP_S = 10.0
"""A clock that was set back by less keeps a query waiting no longer than that."""
OURS = ""
"""In the place of a site: this machine's clock, by which embedded sites go too."""
_LEAST_S = 0.1
"""A file system's clock that is nearer to ours is ours: kernels stamp files by a coarse one."""


class SiteClocks:
    def __init__(self, sites: Mapping[str, SiteHandle], scratch: Path, disk: Disk = DISK) -> None:
        """`scratch`: a folder of the storage in which files may be made."""
        self._sites, self._scratch, self._disk = sites, scratch, disk
        self._storage_ahead_s, self._storage_asked_s = 0.0, -ASK_S
        self._ahead_s: dict[str, float] = {}
        self._asked_s: dict[str, float] = {}
        self._least_ahead_s: dict[str, float] = {}
        """Of each clock: ahead of the monotonic one by as much at least, since it was last set back."""
        self._set_back: dict[str, tuple[float, float]] = {}
        """When (monotonic) that was noticed, and by how much."""

    def look(self) -> None:
        """At our own clock; often, so that one that is ahead for a moment does not go unnoticed."""
        self._seen(OURS, time.time())

    def reported(self, site: str, there_s: float, since_s: float) -> None:
        """A batch began at this time of the site's clock, before now; its query started at `since_s`."""
        clock = self._clock_of(site)
        if since_s > self._set_back.get(clock, (since_s - 1, 0.0))[0]:  # or it may be of before that
            self._seen(clock, there_s, late=True)

    def set_back_s(self, site: str, since_s: float) -> float:
        """By how much the site's clock was set back after a (monotonic) moment; 0 if it was not."""
        at_s, by_s = self._set_back.get(self._clock_of(site), (since_s, 0.0))
        return by_s if at_s > since_s else 0.0

    def _clock_of(self, site: str) -> str:
        return site if self._sites[site].embedded is None else OURS

    def _seen(self, clock: str, there_s: float, *, late: bool = False) -> None:
        """`late`: it said so some time ago."""
        now_s = time.monotonic()
        ahead_s = there_s - now_s
        before_s = self._least_ahead_s.get(clock, ahead_s)
        if not late and before_s - ahead_s > LEAST_STEP_S:
            self._set_back[clock] = (now_s, before_s - ahead_s)
            before_s = ahead_s
        self._least_ahead_s[clock] = max(before_s, ahead_s)

    def ahead_s(self, site: str) -> float:
        """By how much the site's clock is ahead of ours; 0 where it is not known to differ."""
        return self._ahead_s.get(site, 0.0)

    def of_files(self) -> list[float]:
        """By how much the clocks that files may be stamped with are ahead of ours, the storage's first."""
        if time.monotonic() - self._storage_asked_s >= ASK_S:
            self._storage_asked_s = time.monotonic()
            with contextlib.suppress(OSError):
                self._storage_ahead_s = self._probed()
        return [self._storage_ahead_s, *(ahead for ahead in self._ahead_s.values() if ahead)]

    def _probed(self) -> float:
        probe = self._scratch / secrets.token_hex(8)
        before_s = time.time()
        self._disk.create(probe, b"?", durable=False)
        try:
            found = self._disk.look(probe)
        finally:
            self._disk.delete(probe)
        ahead_s = 0.0 if found is None else clock_ahead_s(before_s, found.modified_s, time.time())
        return ahead_s if abs(ahead_s) > _LEAST_S else 0.0

    def ask(self, site: str, session: SparkSession) -> None:
        """Ask for the site's time if that is due; over a call that does not wait for ever."""
        if self._sites[site].embedded is not None:
            return
        if time.monotonic() - self._asked_s.get(site, -ASK_S) < ASK_S:
            return
        self._asked_s[site] = time.monotonic()
        with contextlib.suppress(PySparkException):
            before_s = time.time()
            there_s = int(session.sql(_NOW).collect()[0][0]) / 1e6
            self._ahead_s[site] = clock_ahead_s(before_s, there_s, time.time())
            self._seen(site, there_s)


def clock_ahead_s(before_s: float, there_s: float, after_s: float) -> float:
    """From a question and its answer; 0 where the answer took as long as the difference it tells of.

    >>> clock_ahead_s(100.0, 400.2, 100.4), clock_ahead_s(100.0, 100.1, 100.4)
    (300.0, 0.0)
    """
    ahead_s = there_s - (before_s + after_s) / 2
    return ahead_s if abs(ahead_s) > (after_s - before_s) / 2 else 0.0


def written_s(
    modified_s: float, clocks_ahead_s: Sequence[float], batches: Sequence[Batch], now_s: float
) -> float | None:
    """When a file was written, by our clock: the first clock by which it falls into one of its writer's
    batches, or after all that are known. Where all clocks agree, anything since those batches will do, as not
    every batch is told of. None if no clock explains it.
    """
    latest_s = batches[-1].end_s if batches else now_s - ASK_S
    for ahead_s in clocks_ahead_s:
        at_s = modified_s - ahead_s
        if latest_s < at_s <= now_s + _MARGIN_S:
            return at_s
        if any(batch.begin_s - _MARGIN_S <= at_s <= batch.end_s + _MARGIN_S for batch in batches):
            return at_s
    agreed_s = modified_s - clocks_ahead_s[0]
    earliest_s = (batches[0].begin_s if batches else now_s) - ASK_S
    alone = len(clocks_ahead_s) == 1
    return agreed_s if alone and earliest_s <= agreed_s <= now_s + _MARGIN_S else None
