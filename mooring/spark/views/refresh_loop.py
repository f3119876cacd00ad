"""A materialized view that runs: a loop which refreshes it whenever it is due, until it is stopped.

It has the interface of a fragment's query, so that starting, watching, moving and stopping a view is the same
as for any other fragment. A refresh that fails ends the loop, as a batch that fails ends a query: recovery
starts it again after a pause. A refresh that is under way when the loop is stopped is given up: another one
can compute the same, so nothing waits for it. In an update, where fragments end once they have read what
there is, it refreshes the view once, due or not, and ends.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException

from mooring.errors import EngineError, MooringError, described
from mooring.spark.storage.views.versions import ViewVersion
from mooring.spark.views.refresh import Refresher
from mooring.spark.views.schedule import ViewSchedule

_POLL_S = 0.5
"""Looking whether a view is due lists some folders, and asks no site."""
_STOP_PATIENCE_S = 5.0
_REPORTS_KEPT = 20


@dataclass(frozen=True)
class RefreshReport:
    """One refresh in the form of a query's progress."""

    json: str


class RefreshLoop:
    def __init__(self, refresher: Refresher, schedule: ViewSchedule, site: str, *, once: bool) -> None:
        self._refresher, self._schedule, self._site = refresher, schedule, site
        self._view, self._once = refresher.flow.dataset, once
        self._refreshing = False
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._reports: deque[RefreshReport] = deque(maxlen=_REPORTS_KEPT)
        self._thread = threading.Thread(target=self._run, name=f"refreshing {self._view}", daemon=True)
        schedule.begin(self._view, self)
        self._thread.start()

    # As a query answers

    @property
    def isActive(self) -> bool:
        """Asks the site too: a view that is not being refreshed would not notice that it hangs."""
        self._refresher.session.conf.get("spark.master")
        return self._thread.is_alive() and not self._stopping.is_set()

    def exception(self) -> Exception | None:
        return self._failure

    @property
    def status(self) -> dict[str, Any]:
        """Nobody has to wait for a good moment."""
        return {"message": "Waiting until it is due", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def recentProgress(self) -> list[RefreshReport]:
        return list(self._reports)

    def stop(self) -> None:
        self._stopping.set()
        self._schedule.end(self._view, self)
        if self._refreshing:
            with contextlib.suppress(PySparkException):
                self._refresher.session.interruptAll()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_PATIENCE_S)

    # Refreshing

    def _run(self) -> None:
        try:
            over = False
            while not over and not self._stopping.is_set() and not self._refresher.is_overtaken:
                if self._once or self._schedule.is_due(self._view):
                    self._refresh()
                    over = self._once
                over = over or self._stopping.wait(_POLL_S)
        except Exception as failure:
            if not self._stopping.is_set() and not self._refresher.is_overtaken:
                self._failure = self._told(failure)
        finally:
            self._schedule.end(self._view, self)

    def _told(self, failure: Exception) -> Exception:
        """What others show by its words alone; those of a mistake of ours say too little."""
        if isinstance(failure, PySparkException | MooringError | OSError):
            return failure
        return EngineError(f"refreshing {self._view} failed: {described(failure)}")

    def _refresh(self) -> None:
        with self._schedule.turn(self._view, self._site):
            if self._stopping.is_set():
                return
            self._refreshing = True
            try:
                self._reports.append(_report(self._refresher.refresh()))
            finally:
                self._refreshing = False


def _report(version: ViewVersion) -> RefreshReport:
    took_ms = round(1000 * version.took_s)
    began = datetime.fromtimestamp(version.began_s, UTC).isoformat(timespec="milliseconds")
    return RefreshReport(
        json.dumps(
            {
                "batchId": version.number,
                "timestamp": began.replace("+00:00", "Z"),
                "durationMs": {"triggerExecution": took_ms, "addBatch": took_ms},
                "sources": [{"numInputRows": version.rows_in}],
                "sink": {"numOutputRows": version.rows},
            }
        )
    )
