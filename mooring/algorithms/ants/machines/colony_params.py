"""The initial knowledge of a site, and the times of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.algorithms.ants.ant_params import AntParams
from mooring.errors import InputError

ENDLESS = 1e300
"""What messages have instead of infinity, which traces cannot keep."""


@dataclass(frozen=True)
class SiteFacts:
    """Local: what the site is, whom it knows, and latencies that it can measure itself."""

    neighbours: tuple[int, ...]
    to_s: tuple[float, ...]
    """Latency to every site."""
    from_s: tuple[float, ...]
    """Latency from every site."""
    capacity_cores: float
    memory_mb: float
    beyond_s: tuple[tuple[float, ...], ...] = ()
    """Per neighbour, its latency to every site, as it tells; none: nobody has told."""
    trigger_s: float = 0.0
    """Between the micro-batches that everything runs in; 0: messages queue."""
    delay_limit_s: float = 0.0
    """What old and new tasks together may take here (equation 11); 0: any time."""

    def through_s(self, destination: int) -> list[float] | None:
        """Per neighbour, the latency to a destination by way of it."""
        if not self.beyond_s:
            return None
        return [
            self.to_s[n] + row[destination] for n, row in zip(self.neighbours, self.beyond_s, strict=True)
        ]


@dataclass(frozen=True)
class UpdatingParams:
    """Of leaders while queries run."""

    look_ms: float = 10_000.0
    """From one chain of a leader to the next."""
    rest_growth: float = 4.0
    """Scouts that found nothing better leave a chain alone for so many times as long as before, a look at
    first; until something is stirred."""
    longest_rest_ms: float = 120_000.0
    stirred: float = 0.05
    """By this part of a site's capacity a load or the capacity itself has to change for it."""
    round_ms: float = 2_000.0
    """Between two times that something unanswered is said again."""
    patience: int = 3
    """Rounds without a word of the mover, after which a site asks for what it holds something."""
    horizon_s: float = 600.0
    """How long a decision is taken to hold."""

    def __post_init__(self) -> None:
        if min(self.look_ms, self.round_ms, self.horizon_s, self.longest_rest_ms) <= 0.0:
            raise InputError(f"found {self}, expected positive times", field="look_ms")
        if self.rest_growth < 1.0 or self.stirred < 0.0:
            raise InputError(
                f"found {self.rest_growth} and {self.stirred}, expected at least 1 and 0", field="rest_growth"
            )


@dataclass(frozen=True)
class ColonyParams:
    ants: AntParams = field(default_factory=AntParams)
    seed: int = 0
    at_once: int = 20
    """Ants of one leader that are under way together."""
    attempts: int = 3
    """Times that a leader sends ants and scouts before it refuses a chain."""
    ant_ms: float = 5000.0
    """After this an ant that has not come back counts as lost."""
    enough: float = 1.0
    """The part of the ants that must be back, or lost, before the leader goes on."""
    reservation_ms: float = 15000.0
    """How long a site keeps what an enforcement ant reserved: longer than the ant is waited for."""
    lease_ms: float = 60000.0
    """How long it keeps what is placed without a word of the leader."""
    forgotten_ms: float = 600000.0
    """Pheromones that were not renewed for so long are given up (section 3.5)."""

    def __post_init__(self) -> None:
        times = self.ant_ms, self.reservation_ms, self.lease_ms, self.forgotten_ms
        if not all(0.0 < each < float("inf") for each in times) or self.reservation_ms < 2 * self.ant_ms:
            raise InputError(
                f"found {times}, expected positive times, a reservation of at least two ants' time",
                field="reservation_ms",
            )
        if self.at_once < 1 or self.attempts < 1 or not 0.0 < self.enough <= 1.0:
            raise InputError("expected at least one ant at once and one attempt", field="at_once")
