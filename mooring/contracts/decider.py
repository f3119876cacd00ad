"""Deciding: what is known of a run in, a proposal with its predicted effect and its reason out.

A decider never sees the truth, only what was measured, and what was not measured is missing rather than zero.
It changes nothing: guards judge its proposal, and whether it is carried out is for others to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from mooring.contracts.engine import Measurement
from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites

if TYPE_CHECKING:
    from mooring.contracts.picture import Picture
    from mooring.contracts.policy import Policy


StallKind = Literal[
    "starved site",
    "blocked site",
    "stalled",
    "slow batches",
    "long batch",
    "growing backlog",
    "stale view",
    "silent stream",
]
STALLS: tuple[StallKind, ...] = get_args(StallKind)


@dataclass(frozen=True)
class Stall:
    """Something that is not done although everything runs."""

    kind: StallKind
    name: str
    """The fragment, site or stream."""
    site: str | None
    """Where it falls behind; None: at no site."""
    since_s: float
    """Seconds since 1970."""
    why: str
    affects: tuple[str, ...] = ()
    """Queries that wait for it."""
    remedy: str = ""
    share: float | None = None
    """Of what arrives, the share that it keeps up with; None: it does not fall behind."""

    @property
    def title(self) -> str:
        """By what it is called among the troubles."""
        return f"{self.kind}: {self.name}"

    def words(self, at_s: float) -> str:
        """
        >>> why = "no batch was committed for 20 s"
        >>> Stall("stalled", "totals", "a", 100.0, why, ("daily",), "see its log").words(145.0)
        'for 45 s at a: no batch was committed for 20 s. Affects daily. To do: see its log.'
        """
        where = f" at {self.site}" if self.site else ""
        more = f" and {len(self.affects) - 5} more" if len(self.affects) > 5 else ""
        affects = f" Affects {', '.join(self.affects[:5])}{more}." if self.affects else ""
        return f"for {at_s - self.since_s:.0f} s{where}: {self.why}.{affects} To do: {self.remedy}."


@dataclass(frozen=True)
class Observation:
    """The observation of a run at one moment."""

    at_s: float
    """Seconds since 1970."""
    sites: FragmentSites
    """The sites of the running fragments."""
    measured: Measurement
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Troubles, by the fragment, site or channel concerned."""
    placement: FragmentSites = field(default_factory=lambda: FragmentSites({}))
    """The site of every fragment, also of those that do not run; like `sites` where not given."""
    lost_sites: frozenset[str] = frozenset()
    """Closed sites: lost, or kept empty on request."""
    resting: frozenset[str] = frozenset()
    """Fragments that were stopped because no query needs them now."""
    stalls: tuple[Stall, ...] = ()
    """What is not done although it runs."""

    @property
    def behind(self) -> Mapping[str, Stall]:
        """Site -> what falls behind most there."""
        worst: dict[str, Stall] = {}
        for each in self.stalls:
            if each.site is None or each.share is None:
                continue
            if each.site not in worst or each.share < (worst[each.site].share or 0.0):
                worst[each.site] = each
        return worst

    @property
    def stream_rates(self) -> Mapping[str, float]:
        """Tuples per second, of the streams that were measured."""
        return self.measured.stream_rates

    @property
    def belongs(self) -> FragmentSites:
        return FragmentSites({**self.placement, **self.sites})


@dataclass(frozen=True)
class Prediction:
    """The prediction of the load model for a placement at the measured rates."""

    headroom: float
    """The factor by which all rates could grow; infinite if nothing grows."""
    bottleneck: str | None
    """The site that limits it."""
    site_loads_cores: Mapping[str, float] = field(default_factory=dict)
    tuples_under_way: float | None = None
    """In queues and on links, at the measured rates and at higher ones; None: not worked out."""
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    """Per query, over network and channels; empty where the problem states no latencies."""
    bytes_in_flight: float | None = None
    """On links; None: not worked out, or sizes of tuples or latencies are not stated."""

    def as_json(self) -> dict[str, object]:
        return {
            "headroom": finite(self.headroom),
            "bottleneck": self.bottleneck,
            "site_loads_cores": dict(self.site_loads_cores),
            "latency_ms": dict(self.latency_ms),
        }


@dataclass(frozen=True)
class ProposedMove:
    move: Move
    after: Prediction
    """With this move and those before it."""

    @property
    def headroom(self) -> float:
        return self.after.headroom


@dataclass(frozen=True)
class Proposal:
    now: Prediction
    moves: tuple[ProposedMove, ...]
    """In the order in which they are to be made; none: leave everything where it is."""
    reason: str
    statistics: str = "as the problem states them"
    """The source of the costs and selectivities that it used."""
    plans: tuple[int, ...] = ()
    """The number of moves of each of its plans, in their order: a plan is made as a whole or not at all.
    Empty: every move is a plan of its own."""
    violation: bool = False
    """It mends what is broken, a query's limit or a site that is too full, and does not just improve."""
    sure: bool = False
    """Its decider has separated change from noise."""
    drawn: bool = False
    """It was found by chance: the next look may find something else, as good or not."""

    @property
    def needed(self) -> bool:
        """It answers something that is broken or has changed, and is not just better than what is."""
        return self.violation or self.sure

    @property
    def predicted(self) -> Prediction:
        """With all moves made."""
        return self.moves[-1].after if self.moves else self.now

    @property
    def plan_ends(self) -> list[int]:
        """The number of moves in the first plan, in the first two, and so on."""
        return list(accumulate(self.plans or [1] * len(self.moves)))

    def first(self, count: int) -> Proposal:
        """The same with the first moves only, which are whole plans: each knows what it leads to."""
        plans = tuple(size for size, end in zip(self.plans, self.plan_ends, strict=False) if end <= count)
        return replace(self, moves=self.moves[:count], plans=plans)

    def as_json(self) -> dict[str, object]:
        return {
            "headroom": finite(self.now.headroom),
            "bottleneck": self.now.bottleneck,
            "reason": self.reason,
            "statistics": self.statistics,
            "predicted": self.predicted.as_json(),
            "moves": [
                {
                    "fragment": each.move.fragment,
                    "from": each.move.from_site,
                    "to": each.move.to_site,
                    "headroom": finite(each.after.headroom),
                }
                for each in self.moves
            ],
        }


def finite(value: float) -> float | None:
    """JSON has no infinity; headroom without end is none that limits."""
    return value if math.isfinite(value) else None


class MakePolicy(Protocol):
    def __call__(self, **defaults: object) -> Policy: ...


@dataclass(frozen=True)
class DeciderWish:
    """The inputs that build a decider."""

    policy: MakePolicy
    """Makes the policy that it decides with; settings of the command line go before the defaults given."""
    seed: int = 0
    trigger_s: float = 0.0
    """Between the micro-batches that fragments run in; 0: they run tuple by tuple."""
    options: Any = None
    """What was set of the decider itself, as its entry in the catalogue says; None: nothing."""


@runtime_checkable
class AnsweringDecider(Protocol):
    """A decider that relays proposals of sites, which wait for the answer."""

    def observe(self, observation: Observation, *, busy: bool) -> None:
        """Before anything is decided. `busy`: a list is being carried out."""
        ...

    def accepted(self, allowed: Proposal) -> Proposal | None:
        """So much of what it proposed last may be done; returns what of it is to be ordered."""
        ...

    def refused(self, why: str) -> None:
        """Nothing of what it proposed last is done."""
        ...

    def not_begun(self, why: str) -> None:
        """Its last proposal could not be ordered."""
        ...


@runtime_checkable
class Sends(Protocol):
    """A central decider that replaces machines at several sites and their messages."""

    @property
    def sent_messages(self) -> Mapping[str, int]:
        """Between sites, so far, by kind."""
        ...

    @property
    def sent_bytes(self) -> float:
        """All of them."""
        ...


class Decider(Protocol):
    @property
    def name(self) -> str: ...

    def decide(self, picture: Picture) -> Proposal:
        """The proposed moves, if any."""
        ...
