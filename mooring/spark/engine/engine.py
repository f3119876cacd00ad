"""Spark as an engine: fragments started, watched, moved and stopped over the sites of a run.

The parts, each in a file of its own: the *registry* holds what runs where, the *lifecycle* starts and ends
fragments, *moving* moves them, *health* finds faults, *progress* and *meters* measure, and each of the
*channels* has its readers. Sites are asked over *calls* that never wait for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mooring.contracts.engine import (
    Amount,
    FragmentReport,
    Measurement,
    MoveReport,
    QueryReport,
    SiteReport,
    Trouble,
    ViewReport,
)
from mooring.contracts.picture import NOTHING_CORES
from mooring.errors import EngineError, described
from mooring.model.deployment.channels import Channel
from mooring.model.deployment.move_stages import Reached, ignored
from mooring.model.placement.placement import FragmentSites
from mooring.spark.engine.channel_readers import ChannelReaders
from mooring.spark.engine.cluster_meter import ClusterMeters
from mooring.spark.engine.compaction_loop import Merging
from mooring.spark.engine.fragment_registry import OpenSession, Roster
from mooring.spark.engine.health import Health
from mooring.spark.engine.lifecycle import Lifecycle
from mooring.spark.engine.moving import Mover
from mooring.spark.engine.progress import Progress
from mooring.spark.engine.run_meters import RunMeters, each_known
from mooring.spark.engine.site_clocks import SiteClocks
from mooring.spark.engine.snapshot import FragmentSnapshot, SiteSnapshot, Snapshot
from mooring.spark.engine.warm_up import Warmth
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import FAST
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandles
from mooring.spark.storage.fencing import newest_number
from mooring.spark.views.schedule import ViewSchedule
from mooring.spark.views.static_reads import refuse_looking_up

ALL_THE_TIME = 0.95
"""The share of a look from which something counts as having lasted throughout."""


@dataclass(frozen=True)
class EngineOptions:
    accept_edits: bool = False
    """Resume checkpoints of flows that were edited since."""
    silence_s: float = 20.0
    """A site that leaves a question unanswered for so long counts as lost."""
    to_the_end: bool = False
    """Fragments read what there is when they start, in one batch where their sources can, and end."""


class SparkEngine:
    """Runs a layout's fragments. One engine owns a project's sessions at a time."""

    def __init__(
        self,
        layout: Layout,
        sites: SiteHandles,
        queries: Mapping[str, str],
        options: EngineOptions | None = None,
        note: Callable[[Sequence[OpenSession]], None] = lambda sessions: None,
    ) -> None:
        """`queries`: query -> the fragment whose output it consumes. `note` is called with the
        sessions that are open before another query starts, so that they are known if this process is killed.
        """
        chosen = options or EngineOptions()
        layout.create()
        self.layout, self.sites = layout, sites
        self._to_the_end = chosen.to_the_end
        self.calls = SiteCalls(chosen.silence_s, sites.pulse)
        self.roster = Roster(note)
        clocks = SiteClocks(sites, layout.owned.out, layout.disk)
        self.progress = Progress(self.calls, clocks)
        self.warmth = Warmth(layout.storage_root)
        self._schedule = ViewSchedule(layout)
        self._lifecycle = Lifecycle(
            layout,
            sites,
            self.calls,
            self.roster,
            self.progress,
            self.warmth,
            chosen.accept_edits,
            self._schedule,
            chosen.to_the_end,
        )
        # Moves ask over lanes of their own: a long call of a move keeps nobody from asking how its sites are.
        self._move_calls = SiteCalls(chosen.silence_s, sites.pulse)
        # What looks at checkpoints, or trims behind them, waits while a move carries one into a fresh folder.
        self._fencing = threading.Lock()
        self._mover = Mover(replace(self._lifecycle, calls=self._move_calls, fencing=self._fencing))
        self._health = Health(layout, sites, self.calls, self.roster, clocks, chosen.to_the_end)
        self._channels = ChannelReaders(layout)
        fast = layout.project.settings.durability == FAST
        self._syncing = None if fast else self._channels.sync_before_deleting(self._syncs_itself)
        self._merging = Merging(layout.channels, layout.disk)
        self._clusters = ClusterMeters(sites.values)
        self._meters = RunMeters(
            layout, sites, queries, self.roster, self.progress.meters, time.time(), clocks, self._clusters
        )
        self._seen: Snapshot | None = None

    def _syncs_itself(self, fragment: str) -> bool:
        site = self.roster.homes().get(fragment)
        return site is not None and site in self.sites and self.sites[site].durable

    # Starting, stopping, moving

    def start(self, fragment: str, site: str) -> None:
        """Run a fragment at a site, from where it last committed."""
        self._lifecycle.start(fragment, site)

    def start_all(self, sites: FragmentSites) -> None:
        """Run fragments, all sites side by side."""
        self._refuse_lost()
        if not self._to_the_end:
            refuse_looking_up(self.layout)
        self._lifecycle.start_all(sites)
        self.settled()

    def _refuse_lost(self) -> None:
        """Before anything runs: going on without what is missing would leave out its rows in silence."""
        lost = {**self.lost_channels(), **self.layout.lost_checkpoints()}
        if lost:
            raise EngineError(
                "parts of the storage are lost: " + "; ".join(f"{name}: {why}" for name, why in lost.items()),
                remedy="restore them from a copy, or start the pipeline over with --fresh",
            )

    def settled(self) -> None:
        """Embedded sites are held to their capacity, which starting should not be."""
        self.sites.hold_to_capacity()

    def stop(self, fragment: str, patience_s: float = 10.0) -> None:
        """End a fragment between two of its micro-batches, or in the middle of one after `patience_s`."""
        self._lifecycle.stop_all([fragment], patience_s)

    def stop_all(self, patience_s: float = 10.0) -> None:
        """End all fragments, each as soon as it is between two micro-batches."""
        self._lifecycle.stop_all(list(self.homes()), patience_s)

    def close(self) -> None:
        """Stop whatever still runs, at once, and ask no site anything more."""
        self._move_calls.close()
        self.stop_all(patience_s=0.0)
        self._lifecycle.clear_all_leftovers()
        self._merging.close()
        self._clusters.close()
        self.calls.close()

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        """Stop a fragment and start it elsewhere from the same checkpoint, fenced; see moving.py."""
        return self._mover.move(fragment, to_site, reached)

    def in_move(self, fragment: str) -> bool:
        return self.roster.in_move(fragment)

    def is_idle(self, fragment: str) -> bool:
        return self.roster.is_idle(fragment)

    def homes(self) -> FragmentSites:
        return self.roster.homes()

    # Channels

    def connect(self, channel: Channel) -> None:
        self._channels.connect(channel)

    def disconnect(self, channel: Channel) -> None:
        self._channels.disconnect(channel)

    def users_of(self, channel: str) -> list[str]:
        return self._channels.users_of(channel)

    def lost_channels(self) -> dict[str, str]:
        with self._fencing:
            return self._channels.lost()

    def trim(self) -> int:
        with self._fencing:
            try:
                if self._syncing is not None:  # or Spark retires the last batch that is on disk
                    self._syncing.is_done(self._channels.queries(self.layout.fragments))
                return self._channels.trim()
            finally:
                self._merging.step()

    # Watching

    def check(self) -> None:
        """Raise for the first lost site or failed fragment, naming it."""
        for trouble in self.inspect():
            raise trouble.failure

    def inspect(self) -> list[Trouble]:
        return self._health.inspect()

    def dead_sites(self) -> list[Trouble]:
        return self._health.dead_sites()

    def forget(self, fragment: str) -> None:
        self._lifecycle.forget(fragment)

    def clear_leftovers(self, site: str) -> int:
        for calls in (self.calls, self._move_calls):
            calls.renew(site)
        return self._lifecycle.clear_leftovers(site)

    def reached_end(self) -> list[str]:
        at_end = [each for each in self.roster.running() if not self.roster.in_move(each.name)]
        return [each.name for each in at_end if self._lifecycle.released_at_end(each)]

    def unread(self, fragment: str) -> str:
        with self._fencing:
            return self._channels.unread(fragment)

    def amounts(self) -> dict[str, Amount]:
        return self._meters.amounts()

    def batches(self) -> dict[str, int]:
        return {name: self.progress.count(name) for name in self.homes()}

    def snapshot(self) -> Snapshot:
        """What happened since the last call."""
        odd = {}
        for running in self.roster.running():
            try:
                self.progress.ask(running)
            except Exception as failure:  # one fragment's answer costs no other its figures
                odd[running.name] = described(failure)
        unseen = self._clusters.look(self.roster.running())
        with self._fencing:
            seen = self._meters.snapshot(time.time(), {**self.progress.odd, **odd})
        unknown = {f"measuring the executors of {site}": why for site, why in unseen.items()}
        self._seen = replace(seen, unknown={**seen.unknown, **unknown})
        return self._seen

    @property
    def last_snapshot(self) -> Snapshot:
        """As the last look found it; without figures where nothing could be measured yet."""
        return self._seen or Snapshot(time.time(), 0.0)

    def _is_saturated(self, site: SiteSnapshot) -> bool:
        """Whether it got done all that it could: its control group held it back all the time, or its
        executors had no CPU left. That batches follow each other without a pause says nothing of that: so
        they do while a site warms up or catches up.
        """
        if site.held_back is not None:
            return site.held_back >= ALL_THE_TIME
        full = ALL_THE_TIME * site.capacity_cores
        return site.executors is not None and 0.0 < full <= (site.load_cores or 0.0)

    def measure(self) -> Measurement:
        """The same in the words all engines share; a load that cannot be told is left out."""
        before_s = self._meters.began_s if self._seen is None else self._seen.at_s
        seen = self.snapshot()
        unknown = dict(seen.unknown)
        fragments = {}
        for name, each in seen.fragments.items():
            try:
                fragments[name] = self._fragment_report(name, each)
            except Exception as failure:
                unknown[f"measuring {name}"] = described(failure)
        return Measurement(
            at_s=seen.at_s,
            seconds=seen.at_s - before_s,
            stream_rates=self.layout.stream_rates(seen.rows_in_per_s()),
            ends=self._to_the_end,
            trigger_s=0.0 if self._to_the_end else self.layout.project.settings.trigger_s,
            sites={name: self._site_report(name, site) for name, site in seen.sites.items()},
            fragments=fragments,
            queries={
                name: QueryReport(
                    each.rows_per_s, None if each.latency_s is None else 1000.0 * each.latency_s, None
                )
                for name, each in seen.queries.items()
            },
            views=self._views(seen, unknown),
            unknown=unknown,
        )

    def _site_report(self, name: str, site: SiteSnapshot) -> SiteReport:
        """The driver of a cluster has cores of its own, as many as it uses: they are load and capacity. So
        what fragments cost includes their part of it, as at a site that is one process.
        """
        driver = (site.driver_cores or 0.0) if site.executors else 0.0
        cores, load = max(site.capacity_cores + driver, NOTHING_CORES), site.load_cores
        return SiteReport(
            None if load is None or site.utilisation is None else (load + driver) / cores,
            capacity_cores=None if site.estimated else cores,
            estimated=site.estimated,
            saturated=self._is_saturated(site),
            left_cores=None if site.left_cores is None else site.left_cores + driver,
            resident_mb=site.resident_mb,
            server_cores=site.server_cores,
            executors=site.executors,
            grows=self.sites[name].cluster.most_cores is not None,
            slots=site.slots,
            held_slots=site.held_slots,
            active_tasks=site.active_tasks,
        )

    def _batches_of(self, name: str, seen: FragmentSnapshot) -> dict[str, Any]:
        """A view is refreshed when it is due, at no trigger."""
        if self._to_the_end or self.layout.pipeline.is_view(name):
            return {}
        waiting = [each for each in (seen.rows_waiting, seen.rows_behind) if each is not None]
        return {
            "waiting": float(sum(waiting)) if waiting else None,
            "batch_s": seen.batch_s,
            "batches": seen.batches,
            "rows": float(seen.rows_in),
            "open_s": seen.open_s,
        }

    def _views(self, seen: Snapshot, unknown: dict[str, str]) -> dict[str, ViewReport]:
        """By the fragment that refreshes each."""
        if self._to_the_end:
            return {}
        flows = self.layout.pipeline.flows
        views = {name: flows[name].dataset for name in self.homes() if self.layout.pipeline.is_view(name)}

        def report(name: str) -> ViewReport | None:
            if (view := seen.views.get(views[name])) is None:
                return None
            return ViewReport(view.age_s, view.refresh_s, view.took_s, self._schedule.is_due(views[name]))

        return each_known(views, "when the view is due,", report, unknown)

    def _fragment_report(self, name: str, seen: FragmentSnapshot) -> FragmentReport:
        return FragmentReport(
            seen.site,
            True,
            seen.rows_in_per_s,
            seen.rows_out_per_s,
            self._meters.busy_cores(name, time.time()) if seen.cores is None else seen.cores,
            **self._batches_of(name, seen),
            cores_estimated=True,
            state_bytes=seen.state_bytes,
            epoch=newest_number(self.layout.checkpoints(name), self.layout.disk),
        )
