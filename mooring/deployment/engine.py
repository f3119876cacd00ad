"""What a placement is carried out on.

An engine runs fragments at sites and carries tuples between them over channels. There are two: the
simulator, in virtual time, and Spark. Both are driven by the same calls, so that a controller (or a test)
cannot tell them apart except by their clocks. Names are those of the problem: fragments, streams, queries,
sites.

A channel is a durable log with a committed position per reader. Hence the one promise that moves rest on:
what a fragment has not committed when it stops is still in its channel, and is read again where it starts
next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mooring.errors import EngineError


@dataclass(frozen=True, order=True)
class Channel:
    """The log from a producer (a stream or a fragment) to one reader (a fragment or a query)."""

    producer: str
    reader: str


@dataclass(frozen=True)
class SiteReport:
    """A site over the time since the last measurement."""

    utilisation: float  # share of its capacity in use
    backlog: float | None = None  # tuples waiting, where the engine can tell


@dataclass(frozen=True)
class FragmentReport:
    """A fragment over the time since the last measurement."""

    site: str
    running: bool
    input_rate: float  # tuples per second
    output_rate: float
    cores: float  # CPU seconds per second
    waiting: float | None = None  # tuples in its channels that it has not read


@dataclass(frozen=True)
class QueryReport:
    """What one query received since the last measurement."""

    rate: float  # tuples per second
    mean_latency_ms: float | None  # None: nothing arrived
    max_latency_ms: float | None


@dataclass(frozen=True)
class Measurement:
    """What an engine saw during `seconds` up to `at_s`, both by its own clock."""

    at_s: float
    seconds: float
    stream_rates: Mapping[str, float] = field(default_factory=dict)
    sites: Mapping[str, SiteReport] = field(default_factory=dict)
    fragments: Mapping[str, FragmentReport] = field(default_factory=dict)
    queries: Mapping[str, QueryReport] = field(default_factory=dict)


@dataclass(frozen=True)
class MoveReport:
    """A move that was carried out: how long the fragment stood still, and what it took along."""

    fragment: str
    from_site: str
    to_site: str
    pause_s: float
    state_bytes: float | None = None  # None: not known


@dataclass(frozen=True)
class Trouble:
    """A site that is lost, or a fragment that failed there."""

    site: str
    fragment: str | None
    """None: the site itself."""
    failure: EngineError


class Engine(Protocol):
    """Start and stop fragments, connect and disconnect channels, move fragments, measure.

    Every call either holds when it returns or raises `EngineError`; none waits for tuples to drain. Order
    of setting up: connect a fragment's channels, then start it; of taking down: stop, then disconnect.
    """

    def start(self, fragment: str, site: str) -> None:
        """Run a fragment at a site, from where its channels' committed positions are."""
        ...

    def stop(self, fragment: str) -> None:
        """End a fragment; its state and what it has not read stay where they are."""
        ...

    def connect(self, channel: Channel) -> None:
        """From now on the producer writes for this reader."""
        ...

    def disconnect(self, channel: Channel) -> None:
        """The reader is gone for good; nothing more is kept for it."""
        ...

    def move(self, fragment: str, to_site: str) -> MoveReport:
        """Stop a running fragment and start it elsewhere with its state; never do two of it commit."""
        ...

    def measure(self) -> Measurement:
        """What happened since the last call (or since the engine began)."""
        ...


@runtime_checkable
class StagedMoves(Protocol):
    """An engine that tells how far a move is, so that a journal can say it."""

    def move_in_stages(self, fragment: str, to_site: str, reached: Callable[[str], None]) -> MoveReport:
        """Move; `reached` hears each of `STAGES` once it holds, and a move ends if it raises."""
        ...


STAGES = ("prepared", "stopped", "fenced", "started")
