"""What can go wrong, as data: a schedule of faults that can be printed, replayed and shrunk.

Every fault has a beginning and an end, and after the last one the world is healthy again: sites are up and
links deliver. Random schedules are drawn swarm-wise: each draws first which kinds of fault it has at all,
because a schedule with everything at once hides what a single kind does for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from mooring.errors import InputError


class Crash(msgspec.Struct, frozen=True, tag=True):
    """The site loses everything but its durable state and starts again `down_ms` later.

    With `after_effects` it goes on until an event has more effects than that, and crashes before the rest
    of them.
    """

    at_ms: float
    site: int
    down_ms: float
    after_effects: int | None = None

    @property
    def until_ms(self) -> float:
        return self.at_ms + self.down_ms

    def simpler(self) -> Iterator[Fault]:
        if self.after_effects is not None:
            yield Crash(self.at_ms, self.site, self.down_ms)
        if self.down_ms > 1:
            yield Crash(self.at_ms, self.site, self.down_ms // 2, self.after_effects)


class Pause(msgspec.Struct, frozen=True, tag=True):
    """The site does nothing from `at_ms` to `until_ms`; what comes meanwhile waits (a stalled process)."""

    at_ms: float
    until_ms: float
    site: int

    def simpler(self) -> Iterator[Fault]:
        yield from (
            Pause(self.at_ms, until_ms, self.site) for until_ms in _shorter(self.at_ms, self.until_ms)
        )


class Partition(msgspec.Struct, frozen=True, tag=True):
    """Messages sent from `side` to the other sites are lost, and with `both_ways` those from the others
    too.
    """

    at_ms: float
    until_ms: float
    side: tuple[int, ...]
    both_ways: bool = True

    def cuts(self, sender: int, receiver: int) -> bool:
        outwards, inwards = sender in self.side, receiver in self.side
        return outwards != inwards and (outwards or self.both_ways)

    def simpler(self) -> Iterator[Fault]:
        for until_ms in _shorter(self.at_ms, self.until_ms):
            yield Partition(self.at_ms, until_ms, self.side, self.both_ways)


class Noise(msgspec.Struct, frozen=True, tag=True):
    """Links lose and double messages, and delay each copy by up to `jitter_ms`, so that they overtake each
    other.
    """

    at_ms: float
    until_ms: float
    loss: float = 0.0
    duplicate: float = 0.0
    jitter_ms: float = 0.0

    def simpler(self) -> Iterator[Fault]:
        for name in ("loss", "duplicate", "jitter_ms"):
            if getattr(self, name):
                yield msgspec.structs.replace(self, **{name: 0.0})
        for until_ms in _shorter(self.at_ms, self.until_ms):
            yield msgspec.structs.replace(self, until_ms=until_ms)


Fault = Crash | Pause | Partition | Noise


def _shorter(at_ms: float, until_ms: float) -> Iterator[float]:
    if until_ms - at_ms > 1:
        yield at_ms + (until_ms - at_ms) // 2


def check_fault(fault: Fault, sites: int) -> None:
    """Raise an InputError for a fault that cannot happen among `sites` sites."""
    named = fault.side if isinstance(fault, Partition) else ()
    named = (fault.site,) if isinstance(fault, Crash | Pause) else named
    if not 0 <= fault.at_ms <= fault.until_ms < float("inf"):
        raise InputError(f"{fault} must begin at 0 or later and end after that", field="faults")
    if not all(0 <= site < sites for site in named):
        raise InputError(f"{fault} names a site beyond the {sites} there are", field="faults")
    if isinstance(fault, Noise) and not (
        0 <= fault.loss <= 1 and 0 <= fault.duplicate <= 1 and 0 <= fault.jitter_ms < float("inf")
    ):
        raise InputError(f"{fault} must have shares between 0 and 1 and a delay", field="faults")


@dataclass(frozen=True)
class FaultParams:
    """How much goes wrong at most; each schedule draws its own amounts below these."""

    horizon_ms: float = 3000.0
    """By then every fault is over."""
    most_of_each: int = 4
    """Faults of one kind in a schedule."""
    loss: float = 0.5
    duplicate: float = 0.5
    jitter_ms: float = 400.0
    """Several times the usual latency and round, so that messages overtake whole rounds."""

    def __post_init__(self) -> None:
        if not (0 < self.horizon_ms < float("inf") and self.most_of_each >= 1 and self.jitter_ms >= 0):
            raise InputError("the horizon and the number of faults must be positive", field="faults")
        if not (0 <= self.loss <= 1 and 0 <= self.duplicate <= 1):
            raise InputError("loss and duplicate are shares between 0 and 1", field="faults")


def draw_faults(generator: np.random.Generator, sites: int, params: FaultParams) -> tuple[Fault, ...]:
    """A random schedule in order of time; about one in 16 is without any fault."""
    faults: list[Fault] = []
    for draw in (_draw_crash, _draw_pause, _draw_partition, _draw_noise):
        if generator.random() < 0.5:
            count = int(generator.integers(1, params.most_of_each + 1))
            faults += [draw(generator, sites, params) for _ in range(count)]
    return tuple(sorted(faults, key=lambda fault: (fault.at_ms, str(fault))))


def _window(generator: np.random.Generator, params: FaultParams) -> tuple[float, float]:
    """Whole milliseconds, so that a printed schedule is the schedule; short windows are as likely as long
    ones.
    """
    at_ms = int(generator.random() * (params.horizon_ms - 1))
    length_ms = (params.horizon_ms - at_ms) ** np.sqrt(generator.random())
    return float(at_ms), float(at_ms + int(length_ms))


def _draw_crash(generator: np.random.Generator, sites: int, params: FaultParams) -> Fault:
    at_ms, until_ms = _window(generator, params)
    after_effects = int(generator.integers(0, 3)) if generator.random() < 0.5 else None
    return Crash(at_ms, int(generator.integers(sites)), until_ms - at_ms, after_effects)


def _draw_pause(generator: np.random.Generator, sites: int, params: FaultParams) -> Fault:
    return Pause(*_window(generator, params), int(generator.integers(sites)))


def _draw_partition(generator: np.random.Generator, sites: int, params: FaultParams) -> Fault:
    size = int(generator.integers(1, max(2, sites // 2 + 1)))
    side = tuple(sorted(generator.permutation(sites)[:size].tolist()))
    return Partition(*_window(generator, params), side, bool(generator.random() < 0.7))


def _draw_noise(generator: np.random.Generator, _sites: int, params: FaultParams) -> Fault:
    loss, duplicate, jitter = generator.random(3) * (generator.random(3) < 0.6)
    return Noise(
        *_window(generator, params),
        round(float(loss) * params.loss, 3),
        round(float(duplicate) * params.duplicate, 3),
        round(float(jitter) * params.jitter_ms, 1),
    )
