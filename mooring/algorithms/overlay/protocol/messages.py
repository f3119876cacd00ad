"""The messages that place a query, in their order.

    coordinator              registry, host, agent, target
    WhereIs       ->  registry of an operator:  FoundAt
    Describe      ->  its host:                 Description
    Prepare       ->  its agent:                Refer, AheadIs to agents upstream, PlansOf downstream
    Take          ->  the target of a plan:     Taken
    Commit, Leave ->  the target, the old host: CommitDone
    ReleaseRoom   ->  the target, where a plan turns out not to hold

The coordinator of a query is the site that its results go to. The agent of an operator is its host, or the
site nearest to its publisher while it has none; it makes the operator's plans.
"""

from __future__ import annotations

import msgspec

from mooring.algorithms.overlay.search.shared_operator import SharedOperator
from mooring.model.network.coordinate import Coordinate


class Round(msgspec.Struct, frozen=True):
    """One attempt at placing a query: who coordinates it, and its number there."""

    coordinator: int
    number: int


class CandidateSite(msgspec.Struct, frozen=True):
    site: int
    coordinate: Coordinate
    cores_left: float
    memory_left_mb: float


class Subscriber(msgspec.Struct, frozen=True):
    operator: int
    site: int
    rest_ms: tuple[tuple[int, float], ...]
    """Query -> how long its results take from there on."""


class HostedOperator(msgspec.Struct, frozen=True):
    """An operator where it runs, with everything that its plans have to respect."""

    operator: SharedOperator
    limits_ms: tuple[tuple[int, float], ...]
    """Query -> limit, of every query that shares it."""
    publishers: tuple[tuple[int, int], ...] = ()
    """Publisher -> its site."""
    subscribers: tuple[Subscriber, ...] = ()
    latency_ms: float = 0.0
    """From the streams to here."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why there is no plan: what stood in the way at the operator where the last plans were lost."""

    resource: str
    """`cores`, `memory_mb`, or `limit`."""
    operator: int
    query: int
    """Whose limit; -1 where it is not about a limit."""
    needed: float
    """Of the resource; milliseconds that the query's limit allows."""
    best: float
    """What there is of the resource at the most; milliseconds that it takes at the least."""


class Echo(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float


class EchoBack(msgspec.Struct, frozen=True, tag=True):
    sent_ms: float
    coordinate: Coordinate


class WhereIs(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: int


class FoundAt(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: int
    site: int
    """`NOWHERE` if it does not run."""


class RunsAt(msgspec.Struct, frozen=True, tag=True):
    """To the registry of an operator: where it runs from now on; `NOWHERE` where it ends."""

    operator: int
    site: int
    version: float
    round: Round
    part: int


class Describe(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: int


class Description(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: int
    hosted: HostedOperator | None
    here: CandidateSite


class Prepare(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: SharedOperator
    """With fixed ends: the queries that read it, and what reads it and stays where it is."""
    home: int
    publishers: tuple[tuple[int, int], ...]
    """Publisher -> its agent."""
    subscribers: tuple[tuple[int, int], ...]
    """Subscriber among the operators to be placed -> its agent; the query itself among them."""
    limits_ms: tuple[tuple[int, float], ...]
    sources: tuple[CandidateSite, ...]
    """Where the streams of the query enter."""
    ends: tuple[CandidateSite, ...]
    """Where results of it go."""
    homes: tuple[CandidateSite, ...]
    """Where the query's operators run now."""
    found: tuple[CandidateSite, ...]
    """What the directory told the coordinator: sites with some room near the query's streams and ends."""
    total_cores: float
    """Of all the operators to be placed."""
    hosted: HostedOperator | None


class Refer(msgspec.Struct, frozen=True, tag=True):
    """The candidate sites of an operator, to the agents of its publishers."""

    round: Round
    operator: int
    candidates: tuple[CandidateSite, ...]
    queries: tuple[int, ...]
    """That share the operator."""


class AheadIs(msgspec.Struct, frozen=True, tag=True):
    """Its ahead latencies after so many steps, to the agents of its publishers."""

    round: Round
    operator: int
    step: int
    ahead_ms: tuple[tuple[int, tuple[float, ...]], ...]
    """Query -> per candidate."""
    settled: bool
    """More steps change nothing: all its queries have ended."""


class PlansOf(msgspec.Struct, frozen=True, tag=True):
    """The partial plans of an operator, to the agents of its subscribers."""

    round: Round
    operator: int
    operators: tuple[SharedOperator, ...]
    homes: tuple[int, ...]
    sites: tuple[tuple[int, ...], ...]
    latency_ms: tuple[float, ...]
    cost: tuple[float, ...]
    settled_ms: tuple[tuple[int, tuple[float, ...]], ...]
    places: tuple[tuple[int, Coordinate], ...]
    explored: int
    """Partial plans made so far, upstream included."""
    obstacle: Obstacle | None = None


class Take(msgspec.Struct, frozen=True, tag=True):
    """Reserve room for an operator, and measure where its input and output would come from and go to."""

    round: Round
    operator: SharedOperator
    near_sites: tuple[int, ...]
    leaving: tuple[int, ...]
    """Operators that the same plan takes away from the site."""


class Taken(msgspec.Struct, frozen=True, tag=True):
    round: Round
    operator: int
    cores_short: float
    memory_short_mb: float
    """Zero or less: reserved."""
    latency_ms: tuple[tuple[int, float], ...]
    """Site -> as measured from there."""


class ReleaseRoom(msgspec.Struct, frozen=True, tag=True):
    round: Round


class Commit(msgspec.Struct, frozen=True, tag=True):
    round: Round
    hosted: HostedOperator
    part: int
    """Of what is to be settled, by which it is confirmed."""


class Leave(msgspec.Struct, frozen=True, tag=True):
    """The operator runs elsewhere now."""

    round: Round
    operator: int
    part: int


class PublisherMoved(msgspec.Struct, frozen=True, tag=True):
    """To a subscriber that stays: where its publisher runs now, and how long results take to get there."""

    operator: int
    publisher: int
    site: int
    latency_ms: float


class Settled(msgspec.Struct, frozen=True, tag=True):
    """A part of a plan is carried out: an operator runs, has left, or is known to run elsewhere."""

    round: Round
    part: int


ExchangeMessage = (
    Echo
    | EchoBack
    | WhereIs
    | FoundAt
    | RunsAt
    | Describe
    | Description
    | Prepare
    | Refer
    | AheadIs
    | PlansOf
    | Take
    | Taken
    | ReleaseRoom
    | Commit
    | Leave
    | PublisherMoved
    | Settled
)


class RegisterQuery(msgspec.Struct, frozen=True, tag=True):
    """A request to the site that a query's results go to."""

    query: int
    limit_ms: float
    delivered_rate: float
    """Bytes per second of the results that count as bandwidth."""
    reads: tuple[int, ...]
    operators: tuple[SharedOperator, ...]
    """Everything upstream of the query, without ends."""
    most_moves: int = 1 << 30
    """Running operators that may change their site."""
    only_prepare: bool = False
    """Make the plans and store them, and change nothing."""


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """An output: the query runs. Of a request to prepare: its plans are made."""

    query: int
    sites: tuple[tuple[int, int], ...]
    latency_ms: float
    explored: int
    moves: int


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """An output: the query does not run, and nothing has changed."""

    query: int
    obstacle: Obstacle
