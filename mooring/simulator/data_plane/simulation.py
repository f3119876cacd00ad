"""A data-plane run that can be stepped: run until an instant, look, change something, go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mooring.arrays import Floats
from mooring.simulator.data_plane.feed import ArrivalFeed
from mooring.simulator.data_plane.kernels.calendar_kernels import cancel, schedule
from mooring.simulator.data_plane.kernels.event_kernels import advance, close_bin, release, set_capacity
from mooring.simulator.data_plane.kernels.move_kernels import discard_held, withdraw
from mooring.simulator.data_plane.kernels.records import DONE, GROW, LINK_OVERLOAD, NONE, REFILL, World
from mooring.simulator.data_plane.latency import Latency, latency_of
from mooring.simulator.data_plane.layout import lay_out, with_more_tuples
from mooring.simulator.data_plane.model import Model, Reader
from mooring.simulator.data_plane.overload import Limits, Overload, growing_site

NO_LIMITS = Limits(site_tuples=np.inf, all_tuples=50_000_000, link_backlog_s=np.inf)


class Simulation:
    """Virtual time over one model. Nothing in it depends on anything but the model, the generator and the
    calls.
    """

    def __init__(
        self,
        model: Model,
        rng: np.random.Generator,
        *,
        horizon_s: float,
        bins: int = 120,
        batch: int = 1,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.horizon_s = horizon_s
        self.overload: Overload | None = None
        self.world: World = lay_out(
            model,
            rng,
            horizon_s=horizon_s,
            bins=bins,
            batch=batch,
            queue_limit=self.limits.site_tuples,
            link_limit_s=self.limits.link_backlog_s,
        )
        self.link_count = len(self.world.links)
        self._feed = ArrivalFeed(model.sources, rng, batch)
        self._feed.prime(self.world)
        if len(self.world.changes):
            self._schedule(int(self.world.clock["capacity_slot"][0]), self.world.changes["time"][0])

    @property
    def now_s(self) -> float:
        return float(self.world.clock["now"][0])

    @property
    def events(self) -> int:
        """Arrivals at operators plus completions so far."""
        return int(self.world.clock["events"][0])

    def run(self, until_s: float) -> Overload | None:
        """Let time pass; come back early, with the reason, where something grows without bound."""
        while self.overload is None:
            status = advance(self.world, float(until_s))
            if status == REFILL:
                self._feed.refill(self.world)
            elif status == GROW:
                self._grow()
            elif status == DONE:
                break
            else:
                self._give_up(
                    "link" if status == LINK_OVERLOAD else "site", int(self.world.clock["subject"][0])
                )
        if until_s >= self.horizon_s:
            self._finish()
        return self.overload

    def _grow(self) -> None:
        room = len(self.world.tuples)
        wanted = max(2 * room, room + 2 * int(self.world.clock["needed"][0]))
        if room >= self.limits.all_tuples:
            self._give_up("memory", int(np.argmax(self.world.sites["length"])))
        else:
            self.world = with_more_tuples(self.world, wanted)

    def _give_up(self, kind: str, subject: int) -> None:
        backlog = float(self.world.sites["length"][subject]) if kind != "link" else 0.0
        if kind == "link":
            backlog = float(self.world.links["free"][subject]) - self.now_s
        self.overload = Overload(kind, subject, self.now_s, backlog)

    def _finish(self) -> None:
        clock, bins = self.world.clock[0], len(self.world.site_series)
        if self.overload is None and clock["bin"] == bins - 1:  # the last bin's end, lost to rounding
            close_bin(self.world, clock, self.now_s)
        if self.overload is None:
            site = growing_site(self.busy_share(), self.mean_length(), self.world.sites["length"])
            if site is not None:
                self._give_up("site", site)

    # What can be changed between two runs.

    def set_capacity(self, site: int, capacity_cores: float) -> None:
        set_capacity(self.world, self.world.clock[0], site, float(capacity_cores))

    def hold(self, operator: int) -> float:
        """Stop an operator; its input waits. Returns the tuples taken back from its site's queue."""
        slot = int(self.world.clock["release_slots"][0]) + operator
        cancel(self.world.slots, self.world.buckets, self.world.clock[0], slot)
        return float(withdraw(self.world, operator))

    def discard(self, operator: int) -> None:
        """Forget what waits for a held operator."""
        discard_held(self.world, operator)

    def release(self, operator: int, *, after_s: float = 0.0) -> None:
        """Let a held operator run again, at once or later."""
        if after_s > 0:
            self._schedule(int(self.world.clock["release_slots"][0]) + operator, self.now_s + after_s)
        else:
            release(self.world, self.world.clock[0], operator)

    def place(self, operator: int, site: int, *, send_work_us: float = 0.0) -> None:
        """Where a held operator will run once it is released."""
        self.world.operators["site"][operator] = site
        self.world.operators["send_work"][operator] = send_work_us / 1e6

    def reroute(self, arc: int, reader: Reader) -> None:
        """Give an arc the latency, link and receiving cost of its new ends; what is in flight still
        arrives first.
        """
        record = self.world.arcs[arc : arc + 1]
        record["latency"], record["receive_work"] = reader.latency_s, reader.receive_work_us / 1e6
        record["link"] = NONE if reader.link is None else reader.link

    def links_up_to(self, count: int, rates: Callable[[int], list[float]]) -> None:
        """Add the links that a reroute needs beyond those of the model; `rates` lists them, bytes per second,
        from a number on. There may be room for more than there are.
        """
        known = self.link_count
        if count == known:
            return
        if count > len(self.world.links):
            room = np.zeros(max(count, 2 * known), self.world.links.dtype)
            room[:known] = self.world.links[:known]
            self.world = self.world._replace(links=room)
        self.world.links["seconds_per_byte"][known:count] = [
            1 / rate if rate > 0 else 0.0 for rate in rates(known)
        ]
        self.link_count = count

    def open_arc(self, arc: int, is_open: bool) -> None:
        self.world.arcs["closed"][arc] = not is_open

    def _schedule(self, slot: int, time: float) -> None:
        schedule(self.world.slots, self.world.buckets, self.world.clock[0], slot, float(time))

    def restart_statistics(self) -> None:
        """Forget what has been counted so far (the warm-up); the time bins now cover what is left."""
        world, clock = self.world, self.world.clock[0]
        clock["origin"], clock["bin"], clock["events"] = clock["now"], 0, 0
        clock["bin_s"] = (self.horizon_s - clock["now"]) / len(world.site_series)
        serving = world.sites["current"] != NONE
        served = np.where(serving, clock["now"] - world.sites["work_from"], 0.0)
        remaining = world.sites["remaining"] - served * world.sites["capacity"]
        world.sites["remaining"] = np.maximum(remaining, 0.0)
        world.sites["work_from"] = world.sites["changed"] = clock["now"]
        for name in ("area", "busy", "sojourn", "completed"):
            world.sites[name] = 0.0
        world.sites["longest"] = world.sites["length"]
        for name in ("taken", "given", "work"):
            world.operators[name] = 0.0
        world.sources["emitted"] = world.links["bytes"] = 0.0
        for array in (world.queries, world.histogram, world.site_series, world.query_series):
            array[...] = np.zeros((), array.dtype)

    # What can be read at any time.

    @property
    def counted_s(self) -> float:
        """Virtual seconds that the statistics cover."""
        return self.now_s - float(self.world.clock["origin"][0])

    def latency(self, queries: Iterable[int] | None = None) -> Latency:
        rows = slice(None) if queries is None else list(queries)
        return latency_of(self.world.queries[rows], self.world.histogram[rows])

    def _per_bin(self, column: int) -> Floats:
        done = int(self.world.clock["bin"][0])
        totals: Floats = self.world.site_series[:done, :, column]
        return np.diff(totals, axis=0, prepend=0.0) / float(self.world.clock["bin_s"][0])

    def busy_share(self) -> Floats:
        """Per finished time bin and site, the share of the time in service."""
        return self._per_bin(0)

    def mean_length(self) -> Floats:
        """Per finished time bin and site, the mean number of tuples waiting or in service."""
        return self._per_bin(1)

    def utilisation(self) -> Floats:
        sites, now = self.world.sites, self.now_s
        serving = np.where(sites["current"] != NONE, now - sites["work_from"], 0.0)
        busy: Floats = (sites["busy"] + serving) / max(self.counted_s, 1e-300)
        return busy
