"""What happens in a run, as data: crashes, frozen owners, lost sites, what users ask. A seed gives one."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from lab.session_faults.world import Condition
from mooring.errors import InputError


class Crash(msgspec.Struct, frozen=True, tag=True):
    """The process that owns the run dies just after an effect; the next begins after a while."""

    at: int
    """The effect's number, counted over all processes from 1."""
    down_s: float = 0.0
    torn: bool = False
    """If the effect is a record of the journal, its end is lost."""
    of: int = 0
    """Counted from the first effect of this list of moves, over all processes; 0: of the run."""

    def simpler(self) -> tuple[Crash, ...]:
        plain = (replace(self, down_s=0.0),) if self.down_s else ()
        return (*plain, replace(self, torn=False)) if self.torn else plain


class Freeze(msgspec.Struct, frozen=True, tag=True):
    """The owner stands still just after an effect, a standby takes over, and then the owner goes on."""

    at: int
    for_s: float = 2.0
    """How long the standby runs before that."""
    of: int = 0

    def simpler(self) -> tuple[Freeze, ...]:
        return (replace(self, for_s=1.0),) if self.for_s > 1.0 else ()


class Turn(msgspec.Struct, frozen=True, tag=True):
    """After the first effect from there on at which the run's loop can go on beside a list of moves, which a
    thread carries out, the loop makes turns.
    """

    at: int
    abort: bool = False
    """Somebody asks to have the list taken back."""
    halt: bool = False
    """The run is to end."""
    of: int = 0

    def simpler(self) -> tuple[Turn, ...]:
        return (replace(self, abort=False, halt=False),) if self.abort or self.halt else ()


class SiteFault(msgspec.Struct, frozen=True, tag=True):
    """A site is not what it was just after an effect, for a while."""

    at: int
    site: int
    condition: Condition
    for_s: float = 3.0
    of: int = 0

    def simpler(self) -> tuple[SiteFault, ...]:
        return (replace(self, for_s=1.0),) if self.for_s > 1.0 else ()


class Move(msgspec.Struct, frozen=True, tag=True):
    """Somebody asks for moves, from wherever the fragments are then."""

    at_s: float
    moves: tuple[tuple[int, int], ...]
    """Fragment and site."""

    def simpler(self) -> tuple[Move, ...]:
        if len(self.moves) == 1:
            return ()
        return tuple(Move(self.at_s, self.moves[:i] + self.moves[i + 1 :]) for i in range(len(self.moves)))


class Leave(msgspec.Struct, frozen=True, tag=True):
    """Somebody asks to have a site emptied, or used again."""

    at_s: float
    site: int
    back: bool = False

    def simpler(self) -> tuple[Leave, ...]:
        return ()


class Stop(msgspec.Struct, frozen=True, tag=True):
    """The run is stopped in good order, and begun again: as it was, or with a new plan."""

    at_s: float
    replan: bool = False

    def simpler(self) -> tuple[Stop, ...]:
        return (Stop(self.at_s),) if self.replan else ()


Event = Crash | Freeze | Turn | SiteFault | Move | Leave | Stop


def simpler(event: Event) -> tuple[Event, ...]:
    return event.simpler()


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    events: tuple[Event, ...]
    end_s: float = 8.0
    """When requests and faults are over; then the run has time to settle."""

    def as_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(text: str) -> Schedule:
        try:
            return msgspec.json.decode(text, type=Schedule)
        except msgspec.DecodeError as error:
            raise InputError(f"is no schedule: {error}", remedy="take it from a report") from None


FRAGMENTS, SITES = 3, 3
"""Of the run that is tried (`trial.py`). The last fragment may run at the last site only."""
_EFFECTS, _OF_A_LIST, _LISTS = 90, 24, 2
"""About as many as a run with some moves has, as a list of two moves has, and as a run has lists."""


def drawn(seed: int) -> Schedule:
    """Requests over the whole time, some faults, and often a second fault right after the first. Half of them
    fall into lists of moves: these take a fifth of a run's effects, and most of what can go wrong is there.
    """
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for _ in range(int(rng.integers(1, 5))):
        at_s = round(float(rng.uniform(0.5, 6.0)), 1)
        kind = rng.random()
        if kind < 0.65:
            count = int(rng.integers(1, FRAGMENTS))
            chosen = rng.permutation(FRAGMENTS - 1)[:count]
            events.append(Move(at_s, tuple((int(f), int(rng.integers(SITES))) for f in chosen)))
        elif kind < 0.85:
            site = int(rng.integers(SITES))
            events.append(Leave(at_s, site))
            events.append(Leave(at_s + round(float(rng.uniform(0.5, 3.0)), 1), site, back=True))
        else:
            events.append(Stop(at_s, replan=bool(rng.random() < 0.3)))
    for _ in range(int(rng.integers(1, 5))):
        of = int(rng.integers(1, _LISTS + 1)) if rng.random() < 0.5 else 0
        at = int(rng.integers(1, _OF_A_LIST if of else _EFFECTS))
        events.append(_fault(rng, at, of))
        if rng.random() < 0.5:
            events.append(_fault(rng, at + int(rng.integers(1, 10 if of else 20)), of))
    return Schedule(tuple(events))


def _fault(rng: np.random.Generator, at: int, of: int) -> Event:
    kind = rng.random()
    if kind < 0.4:
        return Crash(at, round(float(rng.choice([0.0, 0.6, 3.0])), 1), bool(rng.random() < 0.3), of)
    if kind < 0.55:
        return Freeze(at, round(float(rng.uniform(0.4, 4.0)), 1), of)
    if kind < 0.75:
        return Turn(at, bool(rng.random() < 0.4), bool(rng.random() < 0.15), of)
    conditions: tuple[Condition, ...] = ("silent", "late", "frozen", "dead")
    condition = conditions[int(rng.integers(len(conditions)))]
    return SiteFault(at, int(rng.integers(SITES)), condition, round(float(rng.uniform(0.4, 6.0)), 1), of)
