"""Progress reports of fragments, read from their queries and kept in a meter each."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.errors import PySparkException

from mooring.errors import SiteLostError, described
from mooring.spark.engine.fragment_query import RunningFragment
from mooring.spark.engine.meters import FragmentMeter
from mooring.spark.engine.site_clocks import SiteClocks
from mooring.spark.sites.site_calls import SiteCalls


class Progress:
    def __init__(self, calls: SiteCalls, clocks: SiteClocks) -> None:
        self._calls, self._clocks = calls, clocks
        self._meters: dict[str, FragmentMeter] = {}
        self._odd: dict[str, str] = {}
        self._lock = threading.Lock()  # a move reads the last reports of a query while others are asked

    @property
    def meters(self) -> Mapping[str, FragmentMeter]:
        """Of every fragment that ran at any time; to look at."""
        return MappingProxyType(self._meters)

    @property
    def odd(self) -> Mapping[str, str]:
        """Fragments whose last reports could not be read, and why: their figures are not known."""
        return dict(self._odd)

    def restarted(self, fragment: str) -> None:
        """A new query counts its batches anew."""
        self._meters.setdefault(fragment, FragmentMeter()).restarted()

    def take(self, running: RunningFragment) -> None:
        """Note what a fragment's query, running or just stopped, tells of its recent batches. A report that
        cannot be read costs figures; nobody who stops or moves a fragment fails by it.
        """
        try:
            reports = running.query.recentProgress
        except PySparkException:
            return
        except Exception as failure:
            self._odd[running.name] = described(failure)
            return
        try:
            news = [json.loads(report.json) for report in reports]
            with self._lock:
                meter = self._meters.setdefault(running.name, FragmentMeter())
                meter.take(news, self._clocks.ahead_s(running.site))
                for batch in meter.fresh:
                    there_s = batch.begin_s + self._clocks.ahead_s(running.site)
                    self._clocks.reported(running.site, there_s, running.since_s)
        except Exception as failure:
            self._odd[running.name] = f"a progress report cannot be read: {described(failure)}"
        else:
            self._odd.pop(running.name, None)

    def ask(self, running: RunningFragment) -> None:
        """Where the site does not answer there is no news; inspecting the run says why."""

        def ask() -> None:
            try:
                self._clocks.ask(running.site, running.session)
            finally:
                self.take(running)

        with contextlib.suppress(SiteLostError):
            self._calls.ask(running.site, ask)

    def count(self, fragment: str) -> int:
        """Micro-batches committed since this run began, as far as was looked."""
        meter = self._meters.get(fragment)
        return 0 if meter is None else meter.count

    def batch_s(self, fragment: str) -> float | None:
        """How long its last batch took; None before the first."""
        meter = self._meters.get(fragment)
        return (
            meter.batches[-1].end_s - meter.batches[-1].begin_s
            if meter is not None and meter.batches
            else None
        )

    def state_bytes(self, fragment: str) -> float:
        """As its last batch told; 0 before the first."""
        meter = self._meters.get(fragment)
        return float(meter.batches[-1].state_bytes) if meter is not None and meter.batches else 0.0
