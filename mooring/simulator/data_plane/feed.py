"""Keeps the kernel's arrival buffers filled from the arrival processes."""

from __future__ import annotations

import numpy as np

from mooring.arrays import Floats
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.kernels.calendar_kernels import schedule
from mooring.simulator.data_plane.kernels.records import World


class ArrivalFeed:
    """One lane per source: its chunks, and what is left of the present one."""

    def __init__(self, sources: list[Arrivals], rng: np.random.Generator, batch: int) -> None:
        generators = rng.spawn(len(sources)) if sources else []
        self._chunks = [source.chunks(own) for source, own in zip(sources, generators, strict=True)]
        self._left: list[Floats] = [np.empty(0) for _ in sources]
        self._batch = batch

    def prime(self, world: World) -> None:
        """Fill every buffer and schedule each source's first arrival."""
        self.refill(world)
        for index in np.flatnonzero(world.sources["filled"]):
            schedule(world.slots, world.buckets, world.clock[0], int(index), world.instants[index, 0])

    def refill(self, world: World) -> None:
        """Top up every source that has used half of its buffer."""
        width = world.instants.shape[1]
        for index in np.flatnonzero(world.sources["filled"] - world.sources["at"] <= width // 2):
            if not world.sources["ended"][index]:
                self._refill_one(world, int(index))

    def _refill_one(self, world: World, index: int) -> None:
        source = world.sources[index]
        kept = int(source["filled"] - source["at"])
        for buffer in (world.instants, world.births):
            buffer[index, :kept] = buffer[index, source["at"] : source["filled"]].copy()
            if world.births is world.instants:
                break
        source["at"], source["filled"] = 0, kept
        room = world.instants.shape[1] - kept
        instants = self._next(index, room * self._batch)
        if len(instants) < room * self._batch:
            source["ended"] = 1
            instants = instants[: len(instants) // self._batch * self._batch]
        batches = instants.reshape(-1, self._batch)
        world.instants[index, kept : kept + len(batches)] = batches[:, -1]
        if world.births is not world.instants:
            world.births[index, kept : kept + len(batches)] = batches.mean(axis=1)
        source["filled"] = kept + len(batches)

    def _next(self, index: int, count: int) -> Floats:
        """The next `count` instants of a source, or all that are left."""
        parts, have = [self._left[index]], len(self._left[index])
        for chunk in self._chunks[index] if have < count else ():
            parts.append(chunk)
            have += len(chunk)
            if have >= count:
                break
        instants = np.concatenate(parts)
        self._left[index] = instants[count:]
        return instants[:count]
