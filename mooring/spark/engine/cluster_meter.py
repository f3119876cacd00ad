"""What the executors of a site did since the last look, by fragment, as the UI of its Spark tells.

A session of Spark Connect belongs to one fragment, so what runs for any other session is not ours. The
CPU of tasks is that of their threads: what Java spends beside them (collecting garbage, compiling) is not
counted, nor are Python workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mooring.spark.engine.fragment_query import RunningFragment
from mooring.spark.sites.site_calls import Lane, SiteSilentError
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.sites.spark_ui import PATIENCE_S, SparkUi, UiError, UiLook


@dataclass(frozen=True)
class ClusterLook:
    """Between two looks, as far as there were two; of the moment where nothing else is said."""

    executors: int
    capacity_cores: float
    """Of the executors that are there, at most as many as it may grow to."""
    slots: int
    held_slots: int
    """In which tasks of others run."""
    active_tasks: int
    """Ours."""
    load_cores: float | None = None
    """CPU of our tasks; of the whole driver, without others' tasks, where that runs them itself."""
    others_cores: float | None = None
    driver_cores: float | None = None
    """None where the driver is not apart."""


@dataclass
class ClusterMeter:
    """Of one site with a `ui`."""

    site: SiteHandle
    cpu_s: dict[str, float] = field(default_factory=dict)
    """Fragment -> CPU of its tasks here, since this run began."""
    unknown: str = ""
    """Why the last look found nothing."""
    _ui: SparkUi | None = None
    _lane: Lane | None = None
    _before: UiLook | None = None
    _owner: dict[str, str] = field(default_factory=dict)
    """Session -> its fragment, for all that ran here."""

    def look(self, running: Iterable[RunningFragment]) -> ClusterLook | None:
        """None where that cannot be seen; `unknown` says why."""
        cluster = self.site.cluster
        assert cluster.ui is not None
        if self._ui is None or self._ui.connection != cluster.ui:
            self._ui, self._lane, self._before = SparkUi(cluster.ui), Lane(self.site.name), None
        assert self._lane is not None
        self._owner |= {each.session_id: each.name for each in running if each.site == self.site.name}
        try:
            now = self._lane.ask(self._ui.look, 2 * PATIENCE_S)
        except SiteSilentError:
            self.unknown, self._before = f"{cluster.ui.shown} does not answer", None
            return None
        except UiError as failure:
            self.unknown, self._before = str(failure), None
            return None
        self.unknown = ""
        before, self._before = self._before, now
        tasks = now.active_tasks
        ours = sum(count for session, count in tasks.items() if session in self._owner)
        cores = float(now.cores) if cluster.most_cores is None else min(now.cores, cluster.most_cores)
        found = ClusterLook(len(now.executors), cores, now.cores, sum(tasks.values()) - ours, ours)
        if before is None or before.application != now.application or now.at_s <= before.at_s:
            return found
        return self._with_loads(found, before, now)

    def close(self) -> None:
        if self._lane is not None and self._ui is not None:
            with contextlib.suppress(SiteSilentError):
                self._lane.ask(self._ui.close, PATIENCE_S)
            self._lane.close()

    def _with_loads(self, found: ClusterLook, before: UiLook, now: UiLook) -> ClusterLook:
        seconds, ours_s, others_s = now.at_s - before.at_s, 0.0, 0.0
        for session, cpu_s in now.cpu_s.items():
            new_s = cpu_s - before.cpu_s.get(session, 0.0)
            if (fragment := self._owner.get(session)) is None:
                others_s += new_s
            else:
                ours_s += new_s
                self.cpu_s[fragment] = self.cpu_s.get(fragment, 0.0) + new_s
        driver_s = max(0.0, now.driver_cpu_s - before.driver_cpu_s)
        return ClusterLook(
            found.executors,
            found.capacity_cores,
            found.slots,
            found.held_slots,
            found.active_tasks,
            (max(ours_s, driver_s - others_s) if now.is_local else ours_s) / seconds,
            others_s / seconds,
            None if now.is_local else driver_s / seconds,
        )


@dataclass
class ClusterMeters:
    """Of all sites of a run; one that answers slowly keeps nobody waiting at the next look."""

    sites: Callable[[], Iterable[SiteHandle]]
    looks: dict[str, ClusterLook] = field(default_factory=dict)
    """As of the last look, of sites that were seen."""
    _meters: dict[str, ClusterMeter] = field(default_factory=dict)

    def look(self, running: Iterable[RunningFragment]) -> dict[str, str]:
        """Returns the sites that cannot be seen although their `ui` is stated, and why."""
        running, unknown = list(running), {}
        self.looks = {}
        for site in self.sites():
            if site.cluster.ui is None:
                continue
            meter = self._meters.setdefault(site.name, ClusterMeter(site))
            meter.site = site
            if (found := meter.look(running)) is not None:
                self.looks[site.name] = found
            else:
                unknown[site.name] = meter.unknown
        return unknown

    def cpu_s(self, fragment: str, site: str) -> float | None:
        """Of its tasks there so far; None where the site's executors are not seen."""
        if site not in self.looks:
            return None
        return self._meters[site].cpu_s.get(fragment, 0.0)

    def close(self) -> None:
        for meter in self._meters.values():
            meter.close()
