"""What a placement is carried out on.

An engine runs fragments at sites and carries tuples between them over channels. There are two: the simulator,
in virtual time, and Spark. Both are driven by the same calls, so that for a controller (or a test) they
differ by their clocks alone. Names are those of the problem: fragments, streams, queries, sites.

A channel is a durable log with a committed position per reader. Hence the one promise that moves rest on:
what a fragment has not committed when it stops is still in its channel, and is read again where it starts
next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mooring.errors import EngineError
from mooring.model.deployment.channels import Channel, channels_of
from mooring.model.deployment.move_stages import Reached
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.latencies import Latencies
from mooring.model.problem.operator import MovesAs

IDLE_S = 15.0
"""Seconds after which a fragment that does nothing says so."""
LOOK_S = 5.0
"""Seconds between two looks at what runs, where nothing else is said. Looking costs sites some CPU."""


@dataclass(frozen=True)
class SiteReport:
    """A site over the time since the last measurement."""

    utilisation: float | None  # share of its capacity in use; None: not measured
    backlog: float | None = None  # tuples waiting, where the engine can tell
    capacity_cores: float | None = None  # what it can use now; None: not observed
    estimated: bool = False  # its processes cannot be seen: the load is a guess
    saturated: bool = False  # it got done all that it could, whatever its average says
    left_cores: float | None = None  # what its neighbours leave it; None: nobody is in its way
    resident_mb: float | None = None  # memory in use; None: not measured
    server_cores: float | None = None  # CPU of its whole server, which serves others too; None: not seen
    executors: int | None = None  # that are there; None: it is one process, or they are not seen
    grows: bool = False  # its executors come and go by themselves, as load needs them
    slots: int | None = None  # tasks that its executors run at a time; None: not seen
    held_slots: int | None = None  # of its executors, taken by tasks of others now; None: not seen
    active_tasks: int | None = None  # ours, on its executors now; None: not seen


@dataclass(frozen=True)
class FragmentReport:
    """A fragment over the time since the last measurement."""

    site: str
    running: bool
    input_rate: float  # tuples per second
    output_rate: float
    cores: float  # CPU seconds per second, its load at rate zero included
    waiting: float | None = None  # tuples in its channels that it has not read
    batch_s: float | None = None  # its last micro-batch; None: it has none, or runs at no trigger
    batches: int | None = None  # committed since it was first started
    open_s: float | None = None  # since it last reported a batch or that it has nothing to do
    cores_estimated: bool = False  # the engine cannot see what a single fragment uses
    epoch: int | None = None  # of the fence, taken when it was last started; None: not known
    rows: float | None = None  # read since it was first started; rates are means over longer than a look
    state_bytes: float | None = None  # None: not measured

    def lasting_s(self, trigger_s: float) -> float:
        """How long the batch has lasted at least that it works at; zero while it may be at none. A batch
        begins a trigger after the one before it, or as soon as that has ended.
        """
        if self.open_s is None or self.waiting == 0.0:
            return 0.0
        idle_s = max(0.0, trigger_s - (self.batch_s or 0.0))
        if self.waiting is None:  # a source outside: it says neither that it does something nor nothing
            idle_s += IDLE_S
        return max(0.0, self.open_s - idle_s)


@dataclass(frozen=True)
class ViewReport:
    """A materialized view by its current version."""

    age_s: float
    refresh_s: float  # it is refreshed no more often than that
    took_s: float  # its last refresh
    due: bool  # what it reads has changed, and its interval has passed


@dataclass(frozen=True)
class QueryReport:
    """The results of one query since the last measurement."""

    rate: float  # tuples per second
    mean_latency_ms: float | None  # None: nothing arrived
    max_latency_ms: float | None


@dataclass(frozen=True)
class Measurement:
    """The measurement of an engine during `seconds` up to `at_s`, both by its own clock."""

    at_s: float
    seconds: float
    stream_rates: Mapping[str, float] = field(default_factory=dict)
    sites: Mapping[str, SiteReport] = field(default_factory=dict)
    fragments: Mapping[str, FragmentReport] = field(default_factory=dict)
    queries: Mapping[str, QueryReport] = field(default_factory=dict)
    latency_ms: Latencies | None = None
    """One-way latencies between sites in the problem's order, as sites measure them; None: not measured."""
    views: Mapping[str, ViewReport] = field(default_factory=dict)
    """Materialized views, by the fragment that refreshes them."""
    ends: bool = False
    """Fragments run to the end of what there is: a stream without rows is complete."""
    trigger_s: float = 0.0
    """Between the micro-batches of fragments; 0: they run tuple by tuple, or to the end of what there is."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Failed measurements, such as "measuring join", and their reasons. Their figures are missing above,
    and no others."""


@dataclass(frozen=True)
class MoveReport:
    """A move that was carried out: how long the fragment stood still, and what it took along."""

    fragment: str
    from_site: str
    to_site: str
    pause_s: float
    state_bytes: float | None = None  # None: not known
    moved_as: MovesAs | None = None  # the kind of fragment; None: as its state tells
    batch_s: float | None = None  # its last micro-batch before; None: not known, or it has none


@dataclass(frozen=True)
class Trouble:
    """A site that is lost, or a fragment that failed there."""

    site: str
    fragment: str | None
    """None: the site itself."""
    failure: EngineError
    unknown: bool = False
    """The state of the fragment is unknown, so recovery leaves it alone."""


@dataclass(frozen=True)
class Amount:
    """The work of a fragment since the engine began."""

    rows_read: int
    rows_written: int
    batches: int


class Engine(Protocol):
    """Start and stop fragments, connect and disconnect channels, move fragments, measure.

    Every call either holds when it returns or raises `EngineError`; none waits for tuples to drain. Order
    of setting up: connect a fragment's channels, then start it; of taking down: stop, then disconnect.
    """

    def start(self, fragment: str, site: str) -> None:
        """Run a fragment at a site, from where its channels' committed positions are."""
        ...

    def start_all(self, sites: FragmentSites) -> None:
        """Run fragments, each at its site; different sites side by side where the engine can."""
        ...

    def stop(self, fragment: str, patience_s: float = ...) -> None:
        """End a fragment; its state and what it has not read stay where they are. `patience_s`: how long to
        wait for a good moment, where moments differ.
        """
        ...

    def connect(self, channel: Channel) -> None:
        """From now on the producer writes for this reader."""
        ...

    def disconnect(self, channel: Channel) -> None:
        """The reader is gone for good; nothing more is kept for it."""
        ...

    def move(self, fragment: str, to_site: str, reached: Reached = ...) -> MoveReport:
        """Stop a running fragment and start it elsewhere with its state; never do two of it commit."""
        ...

    def homes(self) -> FragmentSites:
        """The sites of the running fragments."""
        ...

    def measure(self) -> Measurement:
        """Events since the last call (or since the engine began)."""
        ...


class FallibleEngine(Engine, Protocol):
    """An engine whose sites and fragments can fail: what keeping a run alive needs beside."""

    def dead_sites(self) -> list[Trouble]:
        """Sites that have ended, as known without a call to any of them, so it may be called often."""
        ...

    def inspect(self) -> list[Trouble]:
        """Lost sites and failed fragments, each fragment asked; of a lost site only the site."""
        ...

    def forget(self, fragment: str) -> None:
        """Release a fragment that failed, or whose site is lost; it can then be started again. A fragment
        of a move is left to the move."""
        ...

    def clear_leftovers(self, site: str) -> int:
        """Stop what was left behind at a site that answers again; returns how much of it still ran."""
        ...

    def in_move(self, fragment: str) -> bool:
        """Whether a move owns the fragment: no other part may start or stop it."""
        ...

    def is_idle(self, fragment: str) -> bool:
        """Whether it neither runs nor is in a move, both seen at one instant: moves go on meanwhile."""
        ...

    def settled(self) -> None:
        """All that was due has been started: from now on sites get no more than their capacity."""
        ...

    def batches(self) -> Mapping[str, int]:
        """Fragment -> how often it has committed something so far; only those that run."""
        ...

    def lost_channels(self) -> Mapping[str, str]:
        """Writing fragment -> what is missing of its channel."""
        ...

    def users_of(self, channel: str) -> list[str]:
        """The fragment that writes a channel and those that read it."""
        ...

    def trim(self) -> int:
        """Remove what all readers of a channel have committed past; returns the bytes freed."""
        ...


class UpdatingEngine(FallibleEngine, Protocol):
    """An engine that can also run fragments to the end of what there is, where they end by themselves."""

    def reached_end(self) -> list[str]:
        """Fragments that have read to the end since the last call; they are let go of."""
        ...

    def unread(self, fragment: str) -> str:
        """The unread inputs of a fragment that has read to the end; empty if none."""
        ...

    def amounts(self) -> Mapping[str, Amount]:
        """Of every fragment that ran at any time, as of the last look."""
        ...


def carry_out(engine: Engine, placement: Placement, starts: Collection[str] | None = None) -> None:
    """Connect every channel, then start every fragment, or those that are named, where the placement has
    it.
    """
    for channel in channels_of(placement.problem):
        engine.connect(channel)
    sites = placement.by_fragment()
    engine.start_all(FragmentSites({n: at for n, at in sites.items() if starts is None or n in starts}))
