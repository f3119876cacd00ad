"""The contract of every decentralised part: a state machine per site, without clock, socket or randomness
of its own.

The host (a harness in virtual time, or a process at a real site) hands in one event at a time together with
the time; the machine answers with effects, which are data, and with the time of its next timer. It sees its
own state and the messages it receives, nothing else, so the same code runs under simulated faults and on real
sites.

What a host promises, and no more:
- Messages may be lost, doubled, delayed and overtaken. Their senders are authentic.
- The effects of one event are carried out in order. A crash may cut them off after any of them.
- A crash loses the machine. What it last `Persist`ed comes back in the next incarnation's `Started`.
- Timers may be late, never early.

Messages, persisted state, requests and outputs are frozen data (hashable, and encodable by msgspec): two
sites never share memory, and every message can go over a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import msgspec
import numpy as np

Data = Hashable
"""Frozen data that msgspec can encode: numbers, strings, tuples, frozen structs of these."""


class Started(msgspec.Struct, frozen=True, tag=True):
    """First event of every incarnation; 0 is the first one, and then `durable` is None."""

    incarnation: int
    durable: Data


class Received(msgspec.Struct, frozen=True, tag=True):
    sender: int
    message: Data


class TimerDue(msgspec.Struct, frozen=True, tag=True):
    """The time that `next_timer` named has come."""


class Asked(msgspec.Struct, frozen=True, tag=True):
    """A request of this site's own user, such as a value to publish or a lease to take."""

    request: Data


Event = Started | Received | TimerDue | Asked


class Send(msgspec.Struct, frozen=True, tag=True):
    to: int
    message: Data


class Persist(msgspec.Struct, frozen=True, tag=True):
    """Replace the site's durable state, all or nothing, before the effects that follow."""

    state: Data


class Output(msgspec.Struct, frozen=True, tag=True):
    """Something for this site's own user: an answer, or an action that the host carries out."""

    value: Data


Effect = Send | Persist | Output


class SiteMachine(Protocol):
    """One site's part in a protocol."""

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]: ...

    def next_timer(self) -> float | None:
        """The time of the next `TimerDue`, as given to `handle`; None while nothing is due."""
        ...


MakeMachine = Callable[[int, int, np.random.Generator], SiteMachine]
"""Builds the machine of a site from its number, the number of sites, and a generator of its own."""
Claims = Callable[[int, int, int, Data], str | None]
"""Sender, receiver, number of sites (the mover's number is that), message: why it cannot be, or None."""
