"""Machines at all simulated sites, and the way to them: agents in virtual time.

Messages take as long as the network of the simulated engine says at that moment. The machine of a site that
is lost is lost with it, and comes back from what it had kept. The run session is a peer beside the first
site: what it sends and receives goes through a box that does nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Event,
    MakeMachine,
    Received,
    Send,
    SiteMachine,
)
from mooring.coordination.move_messages import mover_of
from mooring.errors import UnsupportedError
from mooring.model.problem.latencies import MOST_IN_MATRIX, Latencies, as_matrix, why_no_matrix
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.timeline import Traffic
from mooring.virtual_time.event_loop import EventLoop

_BESIDE_MS = 0.5
"""From the run session to the site it is beside."""


class Outgoing(msgspec.Struct, frozen=True, tag=True):
    to: int
    message: Data


class MessageBox:
    """The run session's place among the machines."""

    def __init__(self) -> None:
        self.received: list[tuple[int, Data]] = []

    def next_timer(self) -> float | None:
        return None

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Asked(request=Outgoing(to=to, message=message)):
                return (Send(to, message),)
            case Received(sender=sender, message=message):
                self.received.append((sender, message))
        return ()


@dataclass
class SimulatedAgents:
    """Fulfils `Peers`. Call `advance` as often as time passes."""

    engine: SimulatedEngine
    make_machine: MakeMachine
    seed: int = 0

    def __post_init__(self) -> None:
        latency_ms = self.engine.binding.network.latency_ms
        if latency_ms is None:
            raise UnsupportedError(
                "the problem states no latency_ms between its sites, which the messages between sites need",
                field="latency_ms",
            )
        if why_no_matrix(latency_ms) is not None:
            raise UnsupportedError(
                f"found coordinates of {len(latency_ms):,} sites, expected at most {MOST_IN_MATRIX:,} where "
                "machines at the sites decide",
                field="sites",
                remedy="use the decider whose name ends with -central, which decides in one place",
            )
        self._latency_ms, self._box = latency_ms, MessageBox()
        self._count = len(self.engine.problem.sites)
        self._loop = EventLoop(_with_session(latency_ms), self._make, self.seed, counted=True)

    @property
    def traffic(self) -> Traffic:
        return Traffic(dict(sorted(self._loop.messages_sent.items())), self._loop.bytes_sent)

    def advance(self) -> None:
        """Up to the engine's time, with the links and sites that there are by now."""
        latency_ms = self.engine.binding.network.latency_ms
        if latency_ms is not None and latency_ms is not self._latency_ms:
            self._latency_ms = latency_ms
            self._loop.set_latency_ms(_with_session(latency_ms))
        lost = {trouble.site for trouble in self.engine.dead_sites()}
        for number, site in enumerate(self.engine.problem.sites):
            (self._loop.take_down if site.name in lost else self._loop.bring_up)(number)
        self._loop.run_until(self.engine.simulation.now_s * 1e3)

    def poll(self) -> Sequence[tuple[int, Data]]:
        self.advance()
        received, self._box.received = self._box.received, []
        return received

    def send(self, site: int, message: Data) -> None:
        self._loop.ask(mover_of(self._count), Outgoing(site, message))

    def ask(self, site: int, request: Data) -> None:
        """It reaches the machine at once: what a site measures of itself does not cross the network."""
        self._loop.ask(site, request)

    def out_of_reach(self) -> Sequence[int]:
        """Machines of sites that are lost, and those are told of as lost sites."""
        return ()

    def _make(self, site: int, count: int, generator: np.random.Generator) -> SiteMachine:
        return self._box if site == count - 1 else self.make_machine(site, count - 1, generator)


def _with_session(latency_ms: Latencies) -> tuple[tuple[float, ...], ...]:
    """The matrix with a row and a column for the run session, beside the first site."""
    larger = np.pad(as_matrix(latency_ms), (0, 1))
    larger[-1, :-1] = latency_ms[0] + _BESIDE_MS
    larger[:-1, -1] = latency_ms[:, 0] + _BESIDE_MS
    return tuple(map(tuple, larger.tolist()))
