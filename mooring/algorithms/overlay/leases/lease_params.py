"""The time-outs of leases."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.errors import InputError


@dataclass(frozen=True)
class LeaseParams:
    """The defaults suit sites that are tens of milliseconds apart; the paper leaves its threshold open."""

    lock_ms: float = 3000.0
    """A lock that was granted expires after so long, unless it is held by then."""
    patience_ms: float = 2000.0
    """How long to seek locks and have them held; less than `lock_ms`."""
    retry_ms: float = 300.0
    """Before saying again what was not answered: a little over the longest round trip."""
    silence_ms: float = 4000.0
    """Having held a lock for so long without a word, ask the mover what has become of it."""
    releases: int = 4
    """How often to say that a lease is over; who did not hear it asks the mover."""
    rest_ms: float = 200.0
    """Before the next try after a denial; up to as much again is added at random."""
    tries: int = 4
    """Of one change, before it is given up."""
    report_ms: float = 1000.0
    """How often hosts and queries tell each other latencies."""
    review_ms: float = 30_000.0
    """How often to look for plans that save bandwidth, and for copies that can end."""
    least_saving: float = 1.0
    """Bytes per second that a plan has to save to be worth moving something."""
    replicates: bool = True
    """Whether copies may be started; where the mover cannot, sites need not try (decision 0064)."""

    def __post_init__(self) -> None:
        if not 0.0 < self.retry_ms <= self.patience_ms < self.lock_ms:
            raise InputError(
                f"found {self}, expected 0 < retry_ms <= patience_ms < lock_ms", field="lease_params"
            )
        periods = (self.silence_ms, self.report_ms, self.review_ms)
        if min(periods) <= 0.0 or self.releases < 1 or self.tries < 1:
            raise InputError(f"found {self}, expected positive figures", field="lease_params")
