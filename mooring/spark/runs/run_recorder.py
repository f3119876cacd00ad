"""Records a run on Spark: the status file while it runs, the report at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, cast

from mooring.contracts.engine import MoveReport
from mooring.controller.parts import Parts
from mooring.model.placement.placement import FragmentSites, operators_at
from mooring.model.problem.problem import Problem
from mooring.spark.engine.engine import SparkEngine
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.shuffle_partitions import ShufflePartitions
from mooring.spark.runs.record.learning import Learning
from mooring.spark.runs.record.run_report import RunRecord
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.sites.site_watchdog import keep_short

_MOST_INCIDENTS = 1000
NOTABLE_CLOCK_S = 1.0
"""Clocks nearer than that to ours are not spoken of."""


@dataclass
class RunBook:
    problem: Problem
    engine: SparkEngine
    files: RunFiles
    record: RunRecord
    say: Callable[[str], None]
    """Called with what happens, a line at a time."""
    learning: Learning | None = None
    """Keeps what the run learns of costs and rates."""
    snapshot: Snapshot | None = None
    """As of the last look."""
    update: Callable[[], dict[str, Any]] | None = None
    """Says how far an update is, where the run is one."""
    parts: Parts = field(default_factory=Parts)
    """Of the run."""
    partitions: Mapping[str, ShufflePartitions] = field(default_factory=dict)
    """Of the fragments with state."""
    _told: set[str] = field(default_factory=set)

    def write(self, troubles: Mapping[str, str], remarks: Mapping[str, object]) -> None:
        """The engine's last look, with what else belongs into the status file."""
        parts, troubles = self.parts, dict(troubles)
        seen = self.engine.last_snapshot
        self.snapshot = replace(seen, troubles=troubles)
        self.record.headroom = cast("Mapping[str, Any] | None", remarks.get("headroom"))
        parts.do("publishing", "adding to the report", partial(self.record.add, self.snapshot))
        if (update := self.update) is not None:
            self.record.update = parts.do("publishing", "showing the update", update) or self.record.update
        parts.do("publishing", "comparing clocks", partial(self._tell_clocks, self.snapshot))
        parts.do("publishing", "keeping the log short", lambda: keep_short(str(self.files.log)))
        statistics = parts.do("publishing", "working out statistics", self._statistics)
        self.files.write_status(
            {
                "version": 1,
                "pipeline": self.record.pipeline,
                "policy": self.record.policy,
                "placement": dict(self.record.placement),
                "statistics": statistics or {},
                "update": self.record.update,
                "partitions": {name: of.as_json() for name, of in self.partitions.items()},
                **self.snapshot.as_json(),
                **remarks,
            }
        )

    def _statistics(self) -> dict[str, object]:
        if (operation := self.record.operation) is None:
            return {}
        figures = operation.figures()
        if (learning := self.learning) is not None:
            self.parts.do("publishing", "writing down what was learnt", lambda: learning.note(figures))
        return {name: asdict(each) for name, each in figures.items()}

    def _tell_clocks(self, snapshot: Snapshot) -> None:
        """Clocks that differ are said once: figures are reckoned with them, or cannot be."""
        said = {
            f"clock of {name}": (
                f"the clock of {name} is {abs(site.clock_ahead_s):.0f} s "
                f"{'ahead of' if site.clock_ahead_s > 0 else 'behind'} that of this machine; its times "
                "are corrected"
            )
            for name, site in snapshot.sites.items()
            if abs(site.clock_ahead_s) >= NOTABLE_CLOCK_S
        } | {
            f"files of {name}": (
                f"the files of {name} have times of an unknown clock; latencies after it are unknown"
            )
            for name, channel in snapshot.channels.items()
            if channel.untimed_files
        }
        for what, line in said.items():
            if what not in self._told:
                self.incident(snapshot.since_start_s, line)
        self._told |= said.keys()

    def incident(self, at_s: float, what: str) -> None:
        line = f"{at_s:6.0f} s  {what}"
        self.record.incidents = [*self.record.incidents, line][-_MOST_INCIDENTS:]
        self.say(line)

    def placed(self, sites: FragmentSites) -> None:
        self.record.placement = operators_at(self.problem, sites)

    def moved(self, at_s: float, reports: Sequence[MoveReport], asked_by: str) -> None:
        for report in reports:
            way = f"{report.fragment} moved from {report.from_site} to {report.to_site}"
            self.incident(at_s, f"{way} (pause {report.pause_s:.1f} s): {asked_by}")

    def noticed(
        self, sites: FragmentSites, troubles: Mapping[str, str], under_way: Mapping[str, object] | None
    ) -> None:
        self.files.amend_status(sites, troubles, under_way)
