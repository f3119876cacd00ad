"""The parameters of a colony: how many ants there are, and what they go by."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.errors import InputError


@dataclass(frozen=True)
class AntParams:
    routing_ants: int = 20
    """That a chain's leader sends before any scout. The paper's figure 2b has 100 every 5 s: the last of them
    only narrow the ways, and scouts that all take the same one find less."""
    scouts: int = 60
    """Per attempt; ten are too few when many queries share the sites."""
    sharpness: float = 6.0
    """Initial preference for neighbours through which the latency to the destination is shorter; 0: none,
    as in the paper."""
    strength: float = 0.1
    """c of the reinforcement r = c T_best / T, which has no unit (the paper's 1/T has one)."""
    confidence: float = 1.7
    """Half of a confidence interval of the mean, in standard errors."""
    trusted_trips: int = 5
    """The first trips from a cell, which count in any case."""
    least_limit: float = 0.6
    """Every scout draws its load limit alpha between these two."""
    most_limit: float = 0.95
    most_skipped: float = 0.7
    """Every scout draws the share of sites that it passes without placing anything between 0 and this."""
    most_astray: float = 0.2
    """Upper limit of a scout's random share: each scout draws it between 0 and this, and makes that share
    of its choices among all neighbours alike. With 0, no scout leaves the fastest paths."""
    failures: int = 3
    """Scouts of different greediness that must fail on one path before it is discouraged."""
    discouraged: float = 0.3
    """The probability that a path loses then at every cell."""
    tolerance: float = 0.1
    """By how much costs may have risen when a placement is enforced, as a part of what was reported."""
    outstanding: float = 0.0
    """A report whose effect on others is at most this part of its own latency is taken at once; 0: never."""
    beta: float = 1.0
    """A query moves when its latency is this many times that of the best report (section 3.9)."""

    def __post_init__(self) -> None:
        counts = self.routing_ants, self.scouts, self.failures
        if min(counts) < 1:
            raise InputError(f"found {counts}, expected numbers of ants above 0", field="routing_ants")
        if not 0.0 < self.strength < 1.0 or not 0.0 <= self.discouraged < 1.0:
            raise InputError(f"found {self.strength}, expected a part between 0 and 1", field="strength")
        if not 0.0 < self.least_limit <= self.most_limit < 1.0:
            raise InputError(
                f"found {self.least_limit} to {self.most_limit}, expected limits of load between 0 and 1",
                field="most_limit",
            )
        if self.sharpness < 0.0:
            raise InputError(f"found {self.sharpness}, expected 0 or more", field="sharpness")
        if not 0.0 <= self.most_skipped < 1.0 or not 0.0 <= self.most_astray <= 1.0:
            raise InputError(
                f"found {self.most_skipped} and {self.most_astray}, expected parts of 1",
                field="most_skipped",
            )
        if self.beta < 1.0 or self.tolerance < 0.0 or self.confidence < 0.0 or self.outstanding < 0.0:
            raise InputError(
                f"found beta {self.beta}, tolerance {self.tolerance}, confidence {self.confidence} and "
                f"outstanding {self.outstanding}, expected at least 1, 0, 0 and 0",
                field="beta",
            )
