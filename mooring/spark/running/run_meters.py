"""What a run looks like now: rates, loads, latencies and lags from what fragments, channels and sites tell.

Asks no site: the fragments' meters are fed by the engine, channels are read off their files, and CPU off the
process table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from mooring.deployment.engine import Amount
from mooring.spark.pipeline.layout import Layout
from mooring.spark.running.meters import ChannelMeter, FragmentMeter, hop_latency_s, path_latencies_s
from mooring.spark.running.roster import Roster
from mooring.spark.running.site_clocks import SiteClocks, written_s
from mooring.spark.running.snapshot import (
    ChannelSnapshot,
    FragmentSnapshot,
    QuerySnapshot,
    SiteSnapshot,
    Snapshot,
    ViewSnapshot,
)
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage.stream_logs import LogEntry


@dataclass
class _SiteMeter:
    cpu_s: float
    at_s: float
    held_back_s: float | None = None


@dataclass
class RunMeters:
    """Looks at one engine's run; the roster and the meters are the engine's own and change under it."""

    layout: Layout
    sites: Mapping[str, SiteHandle]
    queries: Mapping[str, str]
    roster: Roster
    meters: Mapping[str, FragmentMeter]
    began_s: float
    clocks: SiteClocks
    _site_meters: dict[str, _SiteMeter] = field(default_factory=dict)
    _channel_meters: dict[str, ChannelMeter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, channel in self.layout.channels.items():
            self._channel_meters[name] = ChannelMeter(end=channel.state().end)

    @property
    def _window_s(self) -> float:
        """Rates are means over this long: a few micro-batches at least."""
        return max(10.0, 3 * self.layout.project.settings.trigger_s)

    def snapshot(self, now: float) -> Snapshot:
        """What happened since the last call; `now` in seconds since 1970."""
        channels = self._channel_snapshots(now)
        writers = self._writers_of_fragments()
        trigger_s = self.layout.project.settings.trigger_s
        hops = {
            name: hop_latency_s(meter, self._written_s(writers[name]), trigger_s)
            for name, meter in self.meters.items()
            if not any(self._channel_meters[writer].untimed for writer in writers[name])
        }
        views = self._view_snapshots(now)
        hops |= {
            fragment: views[view].took_s + views[view].refresh_s / 2
            for fragment, view in self._views()
            if view in views
        }
        latencies = path_latencies_s(hops, {name: self.layout.comes_after(name) for name in writers})
        return Snapshot(
            at_s=now,
            since_start_s=now - self.began_s,
            sites=self._site_snapshots(now),
            fragments={
                name: self._fragment_snapshot(name, site, now, channels)
                for name, site in self.roster.homes().items()
            },
            queries={
                query: self._query_snapshot(fragment, now, latencies.get(fragment), channels)
                for query, fragment in self.queries.items()
            },
            channels=channels,
            views=views,
        )

    def _views(self) -> list[tuple[str, str]]:
        """Fragments that are materialized views, and those views."""
        flows = self.layout.pipeline.flows
        return [
            (name, flows[name].dataset)
            for name in self.layout.fragments
            if self.layout.pipeline.is_view(name)
        ]

    def _view_snapshots(self, now: float) -> dict[str, ViewSnapshot]:
        found = {}
        for view, versions in self.layout.views.items():
            if (version := versions.current()) is not None:
                found[view] = ViewSnapshot(
                    refreshes=version.number,
                    rows=version.rows,
                    stored_bytes=version.stored_bytes,
                    rows_read=version.rows_in,
                    took_s=version.took_s,
                    age_s=now - version.began_s,
                    refresh_s=self.layout.refresh_s(view),
                )
        return found

    def _written_s(self, writers: list[str]) -> list[float] | None:
        """When the files that a fragment's channels hold were written; None if it reads from outside only."""
        if not writers:
            return None
        return [at for name in writers for at, rows, _ in self._channel_meters[name].appended if rows > 0]

    def _rows_out(self, fragment: str, now: float) -> tuple[int, float]:
        """Rows written so far, and per second."""
        meter = self.meters.get(fragment, FragmentMeter())
        if self.layout.pipeline.is_view(fragment):  # a refresh replaces its rows
            rows = meter.batches[-1].rows_out if meter.batches else 0
            return rows, meter.rows_per_s(now, self._window_s)[1]
        if (channel := self._channel_meters.get(fragment)) is not None:
            return channel.rows, channel.rates_per_s(now, self._window_s, self.began_s)[0]
        return meter.rows_out, meter.rows_per_s(now, self._window_s)[1]

    def amounts(self) -> dict[str, Amount]:
        """Of every fragment that ran at any time, as of the last look."""
        return {
            name: Amount(meter.rows_in, self._rows_out(name, self.began_s)[0], meter.count)
            for name, meter in self.meters.items()
        }

    def _writers_of_fragments(self) -> dict[str, list[str]]:
        """Fragment -> the fragments it reads from."""
        return {
            name: [
                writer.name
                for dataset in self.layout.inputs_of(f)
                for writer in self.layout.writers_of(dataset)
            ]
            for name, f in self.layout.fragments.items()
        }

    def _fragment_snapshot(
        self, name: str, site: str, now: float, channels: Mapping[str, ChannelSnapshot]
    ) -> FragmentSnapshot:
        meter, fragment = self.meters[name], self.layout.fragments[name]
        last = meter.batches[-1] if meter.batches else None
        rows_out, rows_out_per_s = self._rows_out(name, now)
        waiting = [
            channels[log.name].lag.get(name, 0)
            for dataset in self.layout.inputs_of(fragment)
            for log in self.layout.writers_of(dataset)
        ]
        return FragmentSnapshot(
            site=site,
            rows_in_per_s=meter.rows_per_s(now, self._window_s)[0],
            rows_out_per_s=rows_out_per_s,
            rows_in=meter.rows_in,
            rows_out=rows_out,
            batches=meter.count,
            batch_s=None if last is None else last.end_s - last.begin_s,
            state_rows=0 if last is None else last.state_rows,
            files_waiting=sum(waiting),
            state_bytes=0 if last is None else last.state_bytes,
            rows_behind=None if last is None else last.rows_behind,
        )

    def _query_snapshot(
        self,
        fragment: str,
        now: float,
        latency_s: float | None,
        channels: Mapping[str, ChannelSnapshot],
    ) -> QuerySnapshot:
        rows, rows_per_s = self._rows_out(fragment, now)
        behind, seen, frontier = 0, set(), [fragment]
        writers = self._writers_of_fragments()
        while frontier:
            name = frontier.pop()
            if name in seen:
                continue
            seen.add(name)
            behind += sum(channels[writer].lag.get(name, 0) for writer in writers[name])
            frontier += writers[name]
        return QuerySnapshot(
            rows_per_s=rows_per_s,
            rows=rows,
            latency_s=latency_s,
            files_behind=behind,
        )

    def _channel_snapshots(self, now: float) -> dict[str, ChannelSnapshot]:
        result, homes = {}, self.roster.homes()
        for name, channel in self.layout.channels.items():
            state, meter = channel.state(), self._channel_meters[name]
            meter.take(channel.appended_since(meter.end), partial(self._time_of, name, now), now)
            lag = {reader: state.lag(reader) for reader in state.committed if reader in self.layout.fragments}
            result[name] = ChannelSnapshot(
                bytes_per_s=meter.rates_per_s(now, self._window_s, self.began_s)[1],
                bytes_written=meter.bytes,
                stored_bytes=state.stored_bytes,
                lag=lag,
                crosses=sorted(
                    {
                        homes[reader]
                        for reader in lag
                        if reader in homes and name in homes and homes[reader] != homes[name]
                    }
                ),
                aged_files=state.aged_items,
                aged_bytes=state.aged_bytes,
                untimed_files=meter.untimed,
            )
        return result

    def _time_of(self, writer: str, now: float, entry: LogEntry) -> float | None:
        batches = self.meters[writer].batches if writer in self.meters else []
        return written_s(entry.modified_s, self.clocks.of_files(), batches, now)

    def _site_snapshots(self, now: float) -> dict[str, SiteSnapshot]:
        result = {}
        for name, site in self.sites.items():
            usage = site.usage()
            load, resident, held_back = None, None, None
            if usage is not None:
                meter = self._site_meters.setdefault(name, _SiteMeter(usage.cpu_s, now))
                held_back_s, before_s = site.held_back_s(), meter.held_back_s
                if now > meter.at_s and usage.cpu_s >= meter.cpu_s:  # less: it was started anew
                    load = (usage.cpu_s - meter.cpu_s) / (now - meter.at_s)
                    if held_back_s is not None and before_s is not None and held_back_s >= before_s:
                        held_back = min(1.0, (held_back_s - before_s) / (now - meter.at_s))
                meter.cpu_s, meter.at_s, meter.held_back_s = usage.cpu_s, now, held_back_s
                resident = usage.resident_mb
            estimated = usage is None and site.is_alive()
            if estimated:
                load = self._estimated_load(name)
            result[name] = SiteSnapshot(
                load,
                estimated,
                site.capacity_now,
                resident,
                self.roster.at(name),
                self.clocks.ahead_s(name),
                held_back,
            )
        return result

    def _estimated_load(self, site: str) -> float:
        """Where processes cannot be seen: the share of time its fragments were inside a micro-batch."""
        return sum(self.busy_cores(name) for name in self.roster.at(site))

    def busy_cores(self, fragment: str) -> float:
        """An estimate: Spark tells how long a fragment's batches took, not how much CPU they used."""
        recent = self.meters[fragment].batches[-5:]
        if not recent:
            return 0.0
        busy = sum(batch.end_s - batch.begin_s for batch in recent)
        trigger_s = self.layout.project.settings.trigger_s
        return busy / max(recent[-1].end_s - recent[0].begin_s, trigger_s * len(recent))
