"""Measurements of a run: rates, loads, latencies and lags from fragments, channels and sites.

Calls no site: the fragments' meters are fed by the engine, and so is what executors do; channels are read off
their files, and CPU off the process table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from mooring.contracts.engine import Amount
from mooring.errors import described
from mooring.spark.engine.cluster_meter import ClusterLook, ClusterMeters
from mooring.spark.engine.fragment_registry import Roster
from mooring.spark.engine.meters import ChannelMeter, FragmentMeter, hop_latency_s, path_latencies_s
from mooring.spark.engine.site_clocks import SiteClocks, written_s
from mooring.spark.engine.snapshot import (
    ChannelSnapshot,
    FragmentSnapshot,
    QuerySnapshot,
    SiteSnapshot,
    Snapshot,
    ViewSnapshot,
)
from mooring.spark.pipeline.layout import Layout
from mooring.spark.sites.neighbours import LEAST_WAIT, NeighbourMeter, contention
from mooring.spark.sites.process_tree import tree_usage
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage.stream_logs import LogEntry

T = TypeVar("T")
_WINDOW_S = 30.0
"""Of the estimated load, unless three triggers are longer."""
_SEARCH_S = 60.0
"""Between two searches for the process of an endpoint that was not found."""


@dataclass
class _SiteMeter:
    cpu_s: float
    at_s: float
    neighbours: NeighbourMeter
    held_back_s: float | None = None


@dataclass
class _ServerMeter:
    """Of an existing endpoint on this machine, which serves others too."""

    neighbours: NeighbourMeter
    pid: int | None = None
    searched_s: float = -math.inf
    before: tuple[float, float] | None = None
    """When it was looked at last, and its CPU by then."""

    def cores(self, site: SiteHandle, now: float) -> tuple[float | None, float | None]:
        """Since the last look: what its server used, and what its neighbours on the machine left it."""
        if self.pid is None and now - self.searched_s >= _SEARCH_S:
            self.pid, self.searched_s = site.server_pid(), now
        usage = None if self.pid is None else tree_usage(self.pid)
        if self.pid is None or usage is None:
            self.pid = self.before = None
            return None, None
        before, self.before = self.before, (now, usage.cpu_s)
        left = self.neighbours.left_cores(contention(self.pid, usage.cpu_s, (0, 0)))
        if before is None or now <= before[0] or usage.cpu_s < before[1]:
            return None, left
        return (usage.cpu_s - before[1]) / (now - before[0]), left


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
    clusters: ClusterMeters
    _site_meters: dict[str, _SiteMeter] = field(default_factory=dict)
    _server_meters: dict[str, _ServerMeter] = field(default_factory=dict)
    _channel_meters: dict[str, ChannelMeter] = field(default_factory=dict)
    _cpu_before: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    """Fragment -> site, moment and CPU there, as of the last look at a site whose executors are seen."""

    def __post_init__(self) -> None:
        for name, channel in self.layout.channels.items():
            self._channel_meters[name] = ChannelMeter(end=channel.state().end)

    @property
    def _window_s(self) -> float:
        """Rates are means over this long: a few micro-batches at least."""
        return max(10.0, 3 * self.layout.project.settings.trigger_s)

    def snapshot(self, now: float, odd: Mapping[str, str] = MappingProxyType({})) -> Snapshot:
        """What happened since the last call; `now` in seconds since 1970. `odd`: fragments whose reports
        cannot be read, and why. What cannot be measured is missing, with the reason, and nothing else is.
        """
        unknown = {f"measuring {name}": why for name, why in odd.items()}
        channels = each_known(
            self.layout.channels, "the channel of", partial(self._channel_snapshot, now), unknown
        )
        homes = self.roster.homes()
        writers = self._writers_of_fragments()
        measured = [name for name in self.meters if name not in odd]
        hops = each_known(measured, "latencies of", lambda name: self._hop_s(name, writers[name]), unknown)
        views = each_known(self.layout.views, "the view", partial(self._view_snapshot, now), unknown)
        hops |= {
            fragment: views[view].took_s + views[view].refresh_s / 2
            for fragment, view in self._views()
            if view in views
        }
        latencies = path_latencies_s(hops, {name: self.layout.comes_after(name) for name in writers})
        return Snapshot(
            at_s=now,
            since_start_s=now - self.began_s,
            sites=each_known(self.sites, "the site", partial(self._site_snapshot, now), unknown),
            fragments=each_known(
                [name for name in homes if name not in odd],
                "",
                lambda name: self._fragment_snapshot(name, homes[name], now, channels),
                unknown,
            ),
            queries=each_known(
                [query for query, fragment in self.queries.items() if fragment not in odd],
                "the query",
                lambda query: self._query_snapshot(
                    self.queries[query], now, latencies.get(self.queries[query]), channels
                ),
                unknown,
            ),
            channels=channels,
            views=views,
            unknown=unknown,
        )

    def _hop_s(self, name: str, writers: list[str]) -> float | None:
        if any(self._channel_meters[writer].untimed for writer in writers):
            return None
        trigger_s = self.layout.project.settings.trigger_s
        return hop_latency_s(self.meters[name], self._written_s(writers), trigger_s)

    def _views(self) -> list[tuple[str, str]]:
        """Fragments that are materialized views, and those views."""
        flows = self.layout.pipeline.flows
        return [
            (name, flows[name].dataset)
            for name in self.layout.fragments
            if self.layout.pipeline.is_view(name)
        ]

    def _view_snapshot(self, now: float, view: str) -> ViewSnapshot | None:
        if (version := self.layout.views[view].current()) is None:
            return None
        return ViewSnapshot(
            refreshes=version.number,
            rows=version.rows,
            stored_bytes=version.stored_bytes,
            rows_read=version.rows_in,
            took_s=version.took_s,
            age_s=now - version.began_s,
            refresh_s=self.layout.refresh_s(view),
        )

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
        logs = [
            log.name for dataset in self.layout.inputs_of(fragment) for log in self.layout.writers_of(dataset)
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
            files_waiting=lag_of(channels, name, logs) if logs else None,
            state_bytes=0 if last is None else last.state_bytes,
            joins=last is not None and last.joins,
            rows_behind=None if last is None else last.rows_behind,
            rows_waiting=self._rows_waiting(name, logs, channels),
            open_s=None if last is None else now - max(last.end_s, meter.idle_s),
            cores=self._cores(name, site, now),
        )

    def _cores(self, fragment: str, site: str, now: float) -> float | None:
        before, cpu_s = self._cpu_before.pop(fragment, None), self.clusters.cpu_s(fragment, site)
        if cpu_s is None:
            return None
        self._cpu_before[fragment] = site, now, cpu_s
        if before is None or before[0] != site or now <= before[1]:
            return None
        return (cpu_s - before[2]) / (now - before[1])

    def _rows_waiting(
        self, reader: str, writers: list[str], channels: Mapping[str, ChannelSnapshot]
    ) -> int | None:
        """Of the newest files of the channels that it reads, as many as it has not committed."""
        if not writers or lag_of(channels, reader, writers) is None:
            return None
        return sum(
            self._channel_meters[writer].newest_rows(channels[writer].lag.get(reader, 0))
            for writer in writers
        )

    def _query_snapshot(
        self,
        fragment: str,
        now: float,
        latency_s: float | None,
        channels: Mapping[str, ChannelSnapshot],
    ) -> QuerySnapshot:
        rows, rows_per_s = self._rows_out(fragment, now)
        behind: int | None = 0
        seen, frontier = set[str](), [fragment]
        writers = self._writers_of_fragments()
        while frontier:
            name = frontier.pop()
            if name in seen:
                continue
            seen.add(name)
            lag = lag_of(channels, name, writers[name])
            behind = None if behind is None or lag is None else behind + lag
            frontier += writers[name]
        return QuerySnapshot(
            rows_per_s=rows_per_s,
            rows=rows,
            latency_s=latency_s,
            files_behind=behind,
        )

    def _channel_snapshot(self, now: float, name: str) -> ChannelSnapshot:
        channel, meter, homes = self.layout.channels[name], self._channel_meters[name], self.roster.homes()
        state = channel.state()
        meter.take(channel.appended_since(meter.end), partial(self._time_of, name, now), now)
        lag = {reader: state.lag(reader) for reader in state.committed if reader in self.layout.fragments}
        return ChannelSnapshot(
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

    def _time_of(self, writer: str, now: float, entry: LogEntry) -> float | None:
        batches = self.meters[writer].batches if writer in self.meters else []
        return written_s(entry.modified_s, self.clocks.of_files(), batches, now)

    def _site_snapshot(self, now: float, name: str) -> SiteSnapshot:
        site = self.sites[name]
        if (seen := self.clusters.looks.get(name)) is not None:
            return self._cluster_snapshot(name, seen)
        usage = site.usage()
        load, resident, held_back, left = None, None, None, None
        if usage is not None:
            first = _SiteMeter(usage.cpu_s, now, NeighbourMeter(site.slots))
            meter = self._site_meters.setdefault(name, first)
            held_back_s, before_s = site.held_back_s(), meter.held_back_s
            if now > meter.at_s and usage.cpu_s >= meter.cpu_s:  # less: it was started anew
                load = (usage.cpu_s - meter.cpu_s) / (now - meter.at_s)
                if held_back_s is not None and before_s is not None and held_back_s >= before_s:
                    held_back = min(1.0, (held_back_s - before_s) / (now - meter.at_s))
            meter.cpu_s, meter.at_s, meter.held_back_s = usage.cpu_s, now, held_back_s
            resident, left = usage.resident_mb, meter.neighbours.left_cores(site.contention(usage))
        estimated, server = usage is None and site.is_alive(), None
        if estimated:
            load = self._estimated_load(name, now)
            first_server = _ServerMeter(NeighbourMeter(site.slots))
            server, left = self._server_meters.setdefault(name, first_server).cores(site, now)
        return SiteSnapshot(
            load,
            estimated,
            site.capacity_now,
            resident,
            self.roster.at(name),
            self.clocks.ahead_s(name),
            held_back,
            left,
            server,
        )

    def _cluster_snapshot(self, name: str, seen: ClusterLook) -> SiteSnapshot:
        """A site whose executors are seen. Others' work on them leaves the rest to ours."""
        others = max(seen.others_cores or 0.0, float(seen.held_slots))
        return SiteSnapshot(
            seen.load_cores,
            estimated=False,
            capacity_cores=seen.capacity_cores,
            resident_mb=None,
            fragments=self.roster.at(name),
            clock_ahead_s=self.clocks.ahead_s(name),
            left_cores=max(0.0, seen.capacity_cores - others) if others >= LEAST_WAIT else None,
            executors=seen.executors,
            slots=seen.slots,
            driver_cores=seen.driver_cores,
            held_slots=seen.held_slots,
            active_tasks=seen.active_tasks,
        )

    def _estimated_load(self, site: str, now: float) -> float:
        """Where processes cannot be seen: the share of time its fragments were inside a micro-batch, as far
        as the site has cores for that.
        """
        busy = sum(self.busy_cores(name, now) for name in self.roster.at(site))
        return min(busy, self.sites[site].capacity_now)

    def busy_cores(self, fragment: str, now: float) -> float:
        """An estimate: Spark tells how long a fragment's batches took, not how much CPU they used. Those that
        ended lately count, so that nothing is left of it some time after the last one.
        """
        meter = self.meters.get(fragment)
        span_s = min(max(_WINDOW_S, 3.0 * self.layout.project.settings.trigger_s), now - self.began_s)
        recent = [] if meter is None else [b for b in meter.batches if b.end_s > now - span_s]
        busy_s = sum(batch.end_s - max(batch.begin_s, now - span_s) for batch in recent)
        return min(1.0, max(0.0, busy_s) / max(span_s, 1e-3))


def each_known(
    names: Iterable[str], what: str, look: Callable[[str], T | None], unknown: dict[str, str]
) -> dict[str, T]:
    """What `look` finds of each; one that raises costs no other its figures. None: nothing is known."""
    found: dict[str, T] = {}
    for name in names:
        try:
            seen = look(name)
        except Exception as failure:
            unknown.setdefault(" ".join(["measuring", *what.split(), name]), described(failure))
        else:
            if seen is not None:
                found[name] = seen
    return found


def lag_of(channels: Mapping[str, ChannelSnapshot], reader: str, writers: Iterable[str]) -> int | None:
    """Files that a fragment has not read; None where one of the channels could not be looked at."""
    seen = [channels.get(writer) for writer in writers]
    return None if None in seen else sum(each.lag.get(reader, 0) for each in seen if each is not None)
