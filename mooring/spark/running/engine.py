"""Spark as an engine: fragments started, watched, moved and stopped over the sites of a run."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from mooring.deployment.engine import (
    Channel,
    FragmentReport,
    Measurement,
    MoveReport,
    QueryReport,
    SiteReport,
    Trouble,
)
from mooring.errors import EngineError, SiteLostError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.running.fragment_query import RunningFragment, flow_failure, prepare_fragment
from mooring.spark.running.meters import FragmentMeter
from mooring.spark.running.moving import START_PATIENCE_S, move_fragment
from mooring.spark.running.run_meters import RunMeters
from mooring.spark.running.snapshot import Snapshot
from mooring.spark.running.warming import Warmth
from mooring.spark.sites.endpoint import close_session, first_line, site_lost
from mooring.spark.sites.site_calls import Lane, SiteSilentError
from mooring.spark.sites.sites import SiteHandle

T = TypeVar("T")
LEAST_FREE_BYTES = 1_000_000
"""With less than this, batches fail for want of room."""


@dataclass
class SparkEngine:
    """Runs a layout's fragments. One engine owns a project's sessions at a time."""

    layout: Layout
    sites: Mapping[str, SiteHandle]
    queries: Mapping[str, str]
    """Query -> the fragment whose output it consumes."""
    accept_edits: bool = False
    silence_s: float = 20.0
    """A site that leaves a question unanswered for so long counts as lost."""
    running: dict[str, RunningFragment] = field(default_factory=dict)
    meters: dict[str, FragmentMeter] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)
    """Fragments that a move has stopped on purpose, or is about to: nothing else may restart them."""

    def __post_init__(self) -> None:
        self.layout.create()
        self._lanes: dict[str, Lane] = {}
        self._unstopped: dict[str, list[RunningFragment]] = {}
        self.warmth = Warmth(self.layout.project.storage_root)
        self._last_measured_s = self.began_s = time.time()
        self._look = RunMeters(self.layout, self.sites, self.queries, self.running, self.meters, self.began_s)

    # Starting, stopping, moving

    def start(self, fragment: str, site: str) -> None:
        """Run a fragment at a site, from where it last committed."""
        if fragment in self.running:
            raise EngineError(f"the fragment {fragment!r} already runs at {self.running[fragment].site!r}")
        handle = self._site(site)
        prepared = self.ask(
            site,
            lambda: prepare_fragment(
                self.layout,
                self.layout.fragments[fragment],
                site,
                handle.endpoint,
                accept_edits=self.accept_edits,
            ),
            START_PATIENCE_S,
        )
        # Fenced here rather than by the site's lane: a call that comes back late must not fence what was
        # started elsewhere in the meantime.
        prepared.fence()
        self.running[fragment] = self.ask(site, prepared.launch, START_PATIENCE_S)
        self.warmth.note(site, handle.endpoint, stateful=self.is_stateful(fragment))
        self.meters.setdefault(fragment, FragmentMeter()).restarted()

    def stop(self, fragment: str, patience_s: float = 10.0) -> None:
        """End a fragment between two of its micro-batches, or in the middle of one after `patience_s`."""
        self.stop_all([fragment], patience_s)

    def stop_all(self, fragments: list[str] | None = None, patience_s: float = 10.0) -> None:
        """End fragments, each as soon as it is between two micro-batches."""
        left = {
            name: self.running[name] for name in (fragments or list(self.running)) if name in self.running
        }
        deadline = time.monotonic() + patience_s
        while left:
            for name, fragment in list(left.items()):
                if self._stopped(name, fragment, force=time.monotonic() > deadline):
                    del left[name], self.running[name]
            if left:
                time.sleep(0.05)

    def close(self) -> None:
        """Stop whatever still runs, at once, and ask no site anything more."""
        self.stop_all(patience_s=0.0)
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def move(self, fragment: str, to_site: str) -> MoveReport:
        """Stop a fragment and start it elsewhere from the same checkpoint, fenced; see moving.py."""
        return self.move_in_stages(fragment, to_site, lambda stage: None)

    def move_in_stages(self, fragment: str, to_site: str, reached: Callable[[str], None]) -> MoveReport:
        """The same, telling each stage that was reached, for a journal."""
        self._site(to_site)
        if fragment not in self.running:
            raise EngineError(f"the fragment {fragment!r} does not run")
        if fragment in self.moving:
            raise EngineError(f"the fragment {fragment!r} is being moved already")
        self.moving.add(fragment)
        try:
            return move_fragment(self, fragment, to_site, reached)
        finally:
            self.moving.discard(fragment)

    def is_stateful(self, fragment: str) -> bool:
        flows = self.layout.pipeline.flows
        return any(flows[name].stateful for name in self.layout.fragments[fragment].operators)

    def state_bytes(self, fragment: str) -> float:
        """As its last batch told; 0 before the first."""
        meter = self.meters.get(fragment)
        return float(meter.batches[-1].state_bytes) if meter is not None and meter.batches else 0.0

    # Channels

    def connect(self, channel: Channel) -> None:
        """Keep for the reader, a fragment or a query, what the producer writes; streams keep their own."""
        if (reader := self._reader(channel)) is not None:
            self.layout.channels[channel.producer].register(reader)

    def disconnect(self, channel: Channel) -> None:
        """The reader is gone for good; nothing more is kept for it."""
        if (reader := self._reader(channel)) is not None:
            self.layout.channels[channel.producer].forget(reader)

    def _reader(self, channel: Channel) -> str | None:
        """How the producer's log knows the reader; None where there is no log.

        A stream has the name of the fragment that brings it in, and a query may have that of the fragment it
        reads: equal names are the first where there is such a stream.
        """
        if channel.producer not in self.layout.channels:
            return None
        if channel.reader in self.layout.fragments and channel.reader != channel.producer:
            return channel.reader
        flow = self.layout.pipeline.flows[channel.producer]
        if flow.outside and channel.reader == channel.producer:
            return None
        return f"results {flow.dataset}"

    def _stopped(self, name: str, fragment: RunningFragment, *, force: bool) -> bool:
        """Stop a fragment if it is between two micro-batches, or in any case; True once it need not be asked
        again. A site that does not answer is left to the fence: its query never commits again once the
        fragment has been started anew.
        """

        def stop() -> bool:
            query = fragment.query
            active = query.isActive
            if not force and active and query.status["isTriggerActive"]:
                return False
            if active:
                query.stop()
            self._read_progress(name)
            close_session(fragment.session)
            return True

        try:
            return self.ask(fragment.site, stop, self.silence_s)
        except (PySparkException, SiteLostError):
            self._unstopped.setdefault(fragment.site, []).append(fragment)
            return True

    def _site(self, name: str) -> SiteHandle:
        if name not in self.sites:
            raise EngineError(f"no site {name!r}; there are {', '.join(self.sites)}")
        return self.sites[name]

    # Watching

    def check(self) -> None:
        """Raise for the first lost site or failed fragment, naming it."""
        for trouble in self.inspect():
            raise trouble.failure

    def inspect(self) -> list[Trouble]:
        """Lost sites and failed fragments; of a lost site only the site."""
        found = self.dead_sites()
        lost = {trouble.site for trouble in found}
        for name, fragment in list(self.running.items()):
            if fragment.site in lost or name in self.moving:
                continue
            trouble = self._inspect(name, fragment)
            if trouble is not None:
                found.append(trouble)
                if trouble.fragment is None:
                    lost.add(trouble.site)
        return found

    def dead_sites(self) -> list[Trouble]:
        """Sites whose process has ended: asks nobody, so it may be called often."""
        return [
            Trouble(name, None, SiteLostError(f"the site {name!r} ended by itself", remedy=f"see {log}"))
            for name, site in self.sites.items()
            if not site.is_alive()
            for log in [site.embedded.log_file if site.embedded else "its log"]
        ]

    def _inspect(self, name: str, fragment: RunningFragment) -> Trouble | None:
        query, site = fragment.query, fragment.site

        def ask() -> tuple[bool, object]:
            over = not query.isActive
            return over, query.exception() if over else None

        try:
            over, failure = self.ask(site, ask, self.silence_s)
        except SiteLostError as lost:
            return Trouble(site, None, lost)
        except PySparkException as unanswered:
            return self._unanswered(name, site, unanswered)
        if failure is not None:
            return Trouble(
                site, name, self._full_disk(name) or flow_failure(self.layout, name, site, str(failure))
            )
        if over:
            return Trouble(site, name, EngineError(f"the fragment {name!r} at {site!r} ended by itself"))
        return None

    def _full_disk(self, name: str) -> EngineError | None:
        """Spark says of many failures only that a task failed; that the disk is full is easy to see."""
        try:
            left = shutil.disk_usage(self.layout.root).free
        except OSError:
            return None
        if left >= LEAST_FREE_BYTES:
            return None
        return EngineError(
            f"No space left on device: the disk of {self.layout.root} has {left} bytes left, and {name!r} "
            "could not write",
            remedy="make room; it goes on by itself, and nothing is lost",
        )

    def _unanswered(self, name: str, site: str, failure: PySparkException) -> Trouble:
        """A session that is gone is the fragment's trouble, anything else the site's."""
        said = first_line(failure)
        if "INVALID_HANDLE" in str(failure) or "SESSION" in said:
            gone = f"the session of {name!r} at {site!r} is gone, as after a restart of the site: {said}"
            return Trouble(site, name, EngineError(gone))
        return Trouble(site, None, site_lost(f"the site {site!r}", failure))

    def lost_channels(self) -> dict[str, str]:
        """Writing flow -> what is missing of its channel."""
        whys = {name: channel.lost() for name, channel in self.layout.channels.items()}
        return {name: why for name, why in whys.items() if why is not None}

    def homes(self) -> dict[str, str]:
        """Fragment -> site, of those that run."""
        return {name: fragment.site for name, fragment in self.running.items()}

    def batches(self) -> dict[str, int]:
        """Fragment -> micro-batches it has committed since this engine began, as far as was looked."""
        return {name: self.meters[name].count for name in self.running}

    def users_of(self, channel: str) -> list[str]:
        """The fragment that writes a channel and those that read it."""
        dataset = self.layout.pipeline.flows[channel].dataset
        return [channel, *self.layout.readers_of(dataset)]

    def forget(self, fragment: str) -> None:
        """Let go of a fragment that failed, or whose site is lost; it can then be started anew."""
        if (left := self.running.pop(fragment, None)) is not None:
            self._unstopped.setdefault(left.site, []).append(left)

    def let_go(self, stopped: RunningFragment) -> None:
        """Read the last progress of a query that was stopped, and close its session; a site that does not
        answer is cleared later.
        """

        def close() -> None:
            self.take_progress(stopped.name, stopped.query)
            close_session(stopped.session)

        try:
            self.ask(stopped.site, close, self.silence_s)
        except (PySparkException, SiteLostError):
            self._unstopped.setdefault(stopped.site, []).append(stopped)

    def clear_leftovers(self, site: str) -> int:
        """Stop what was left behind at a site that answers again; returns how much of it still ran."""
        still = 0
        for left in self._unstopped.pop(site, []):

            def stop(left: RunningFragment = left) -> bool:
                active = bool(left.query.isActive)
                if active:
                    left.query.stop()
                close_session(left.session)
                return active

            try:
                still += self.ask(site, stop, self.silence_s)
            except (PySparkException, SiteLostError):
                continue
        return still

    def ask(self, site: str, call: Callable[[], T], patience_s: float) -> T:
        """What a call to the site gives; `SiteLostError` if that takes longer than `patience_s`."""
        try:
            return self._lanes.setdefault(site, Lane(site)).ask(call, patience_s)
        except SiteSilentError as silent:
            raise SiteLostError(
                f"the site {site!r} does not answer: {silent}",
                remedy="look whether it is overloaded, frozen or cut off",
            ) from silent

    def trim(self) -> int:
        """Trim every channel behind its readers; returns the bytes freed."""
        return sum(channel.trim().freed_bytes for channel in self.layout.channels.values())

    def measure(self) -> Measurement:
        """What happened since the last call, in the words all engines share."""
        seen, before, busy = self.snapshot(), self._last_measured_s, self._look.busy_cores
        self._last_measured_s = seen.at_s
        return Measurement(
            at_s=seen.at_s,
            seconds=seen.at_s - before,
            stream_rates=self.layout.stream_rates(seen.rows_in_per_s()),
            sites={n: SiteReport((s.load_cores or 0.0) / s.capacity_cores) for n, s in seen.sites.items()},
            fragments={
                name: FragmentReport(f.site, True, f.rows_in_per_s, f.rows_out_per_s, busy(name))
                for name, f in seen.fragments.items()
            },
            queries={
                name: QueryReport(q.rows_per_s, _ms(q.latency_s), None) for name, q in seen.queries.items()
            },
        )

    def snapshot(self, troubles: Mapping[str, str] | None = None) -> Snapshot:
        """What happened since the last call; `troubles` are what whoever watches over the run knows of."""
        now = time.time()
        for name in list(self.running):
            self._ask_for_progress(name)
        return replace(self._look.snapshot(now), troubles=dict(troubles or {}))

    def _read_progress(self, fragment: str) -> None:
        self.take_progress(fragment, self.running[fragment].query)

    def take_progress(self, fragment: str, query: StreamingQuery) -> None:
        """Note what a query of the fragment, running or just stopped, tells of its recent batches."""
        try:
            reports = query.recentProgress
        except PySparkException:
            return
        self.meters[fragment].take([json.loads(report.json) for report in reports])

    def _ask_for_progress(self, fragment: str) -> None:
        """Where the site does not answer there is no news; whoever inspects the engine hears of it."""
        with contextlib.suppress(SiteLostError):
            self.ask(self.running[fragment].site, lambda: self._read_progress(fragment), self.silence_s)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000.0 * seconds
