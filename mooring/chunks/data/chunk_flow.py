"""A graph of functions over array frames, computed in chunks by nodes that may be lost: who does what next.

Frames, results and losses go in; chunks to compute and whole frames come out. There is no clock, thread or
socket here: the owner of the nodes calls `take` for work whenever one is free, and `done` or `lose`
afterwards.

A node's queue is sorted by age, over all operators: what has been in the system the longest comes first, so
that frames leave as early as they can. What a lost node had, computed or not, is given to the others; should
it answer after all, its cells are the same as theirs and do no harm (see `scatter_gather`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk import Chunk, ComputedChunk
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.chunks.data.routing_table import Route
from mooring.chunks.data.scatter_gather import Gather, Scatter
from mooring.chunks.partitioning import Shape
from mooring.errors import EngineError, InputError


@dataclass(frozen=True)
class ArrayStep:
    """A function and what it reads: streams, or other steps by the names of their functions."""

    function: ArrayFunction
    inputs: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.function.name


@dataclass(frozen=True)
class Routed:
    """What a router decided for one frame of an operator."""

    plan: int
    route: Route
    work_ms: Sequence[float]
    """What each chunk is expected to keep its node busy; zeros where nothing is known."""


class Router(Protocol):
    """Decides, when a frame is scattered, how it is cut and where its chunks go."""

    def routed(self, operator: str, frame: int, shape: Shape, busy_ms: Sequence[float]) -> Routed:
        """`busy_ms`: the work that waits at each node; infinite where a node is lost."""
        ...

    def learn(self, operator: str, shape: Shape, times: Sequence[ChunkTime]) -> None:
        """What the chunks of one frame took."""
        ...


@dataclass(frozen=True, eq=False)
class Sent:
    """A chunk on its way to a node."""

    chunk: Chunk
    scattered_ms: float
    work_ms: float


@dataclass(frozen=True, eq=False)
class GatheredFrame:
    """A frame of one operator's output, and how long it took."""

    operator: str
    frame: ArrayFrame
    scattered_ms: float
    gathered_ms: float
    times: Sequence[ChunkTime]


@dataclass(eq=False)
class _Node:
    queue: list[tuple[tuple[float, int, int], int, Sent]] = field(default_factory=list)
    """A heap by age; the number in the middle keeps equal ages in order."""
    in_hand: list[Sent] = field(default_factory=list)
    is_lost: bool = False

    @property
    def busy_ms(self) -> float:
        if self.is_lost:
            return float("inf")
        return sum(entry[2].work_ms for entry in self.queue) + sum(sent.work_ms for sent in self.in_hand)


class ChunkFlow:
    def __init__(self, steps: Sequence[ArrayStep], nodes: int, router: Router, first_frame: int = 0) -> None:
        self._steps = {step.name: step for step in steps}
        self._nodes = [_Node() for _ in range(nodes)]
        self._router = router
        self._gathers = {step.name: Gather(first_frame) for step in steps}
        self._waiting: dict[tuple[str, int], dict[str, ArrayFrame]] = {}
        """By step and frame: the inputs that have come, until all have."""
        self._scattered_ms: dict[tuple[str, int], float] = {}
        self._times: dict[tuple[str, int], list[ChunkTime]] = {}
        self._gathered: list[GatheredFrame] = []
        self._count = 0
        _check_inputs(steps)

    def arrive(self, stream: str, frame: ArrayFrame, now_ms: float) -> None:
        """A frame of a stream, or of a step that others read."""
        for step in self._steps.values():
            if stream in step.inputs:
                inputs = self._waiting.setdefault((step.name, frame.number), {})
                inputs[stream] = frame
                if len(inputs) == len(set(step.inputs)):
                    del self._waiting[step.name, frame.number]
                    self._scatter(step, [inputs[name] for name in step.inputs], now_ms)

    def take(self, node: int) -> list[Sent]:
        """The oldest chunks that wait for a node: those of one frame and operator; empty: nothing waits."""
        own = self._nodes[node]
        if own.is_lost or own.in_hand or not own.queue:
            return []
        first = own.queue[0][2].chunk.header
        while own.queue:
            header = own.queue[0][2].chunk.header
            if (header.frame, header.operator) != (first.frame, first.operator):
                break
            own.in_hand.append(heapq.heappop(own.queue)[2])
        return list(own.in_hand)

    def done(self, node: int, results: Sequence[tuple[ComputedChunk, ChunkTime]], now_ms: float) -> None:
        """What a node made of the chunks it had taken."""
        self._nodes[node].in_hand.clear()
        for computed, took in results:
            self._times.setdefault((took.operator, computed.header.frame), []).append(took)
            self._gathers[took.operator].add(computed)
        for operator in {took.operator for _, took in results}:
            self._hand_on(operator, now_ms)

    def give_back(self, node: int) -> None:
        """The node failed without being lost: what it had in hand waits for it again."""
        own = self._nodes[node]
        for sent in own.in_hand:
            self._enqueue(node, sent)
        own.in_hand.clear()

    def lose(self, node: int) -> int:
        """The node is gone: its chunks go where the least waits. Returns how many there were."""
        own = self._nodes[node]
        orphans = [*own.in_hand, *(entry[2] for entry in sorted(own.queue))]
        own.queue.clear()
        own.in_hand.clear()
        own.is_lost = True
        if orphans and all(each.is_lost for each in self._nodes):
            raise EngineError("every node is lost", remedy="restore a site and run again")
        for sent in orphans:
            busy = [each.busy_ms for each in self._nodes]
            self._enqueue(busy.index(min(busy)), sent)
        return len(orphans)

    def gathered(self) -> Iterator[GatheredFrame]:
        """The frames that became whole since the last call; those of an operator are in order."""
        while self._gathered:
            yield self._gathered.pop(0)

    def _scatter(self, step: ArrayStep, frames: Sequence[ArrayFrame], now_ms: float) -> None:
        number = frames[0].number
        shape = step.function.output_shape([frame.cells.shape for frame in frames])
        busy = [node.busy_ms for node in self._nodes]
        routed = self._router.routed(step.name, number, shape, busy)
        self._scattered_ms[step.name, number] = now_ms
        for chunk in Scatter(step.function, step.name).cut(frames, routed.route.bounds(shape), routed.plan):
            at = chunk.header.chunk
            node = routed.route.nodes[at]
            if self._nodes[node].is_lost:
                node = busy.index(min(busy))
            self._enqueue(node, Sent(chunk, now_ms, float(routed.work_ms[at])))

    def _enqueue(self, node: int, sent: Sent) -> None:
        self._count += 1
        heapq.heappush(self._nodes[node].queue, (sent.chunk.header.age_key, self._count, sent))

    def _hand_on(self, operator: str, now_ms: float) -> None:
        for frame in self._gathers[operator].complete():
            key = (operator, frame.number)
            times = self._times.pop(key)
            self._router.learn(operator, frame.cells.shape, times)
            made = GatheredFrame(operator, frame, self._scattered_ms.pop(key), now_ms, times)
            self._gathered.append(made)
            self.arrive(operator, frame, now_ms)


def _check_inputs(steps: Sequence[ArrayStep]) -> None:
    """Every step has a name of its own and comes after the steps that it reads."""
    names = [step.name for step in steps]
    for at, step in enumerate(steps):
        if step.name in names[:at]:
            raise InputError(f"found two steps named {step.name!r}", remedy="rename one of them")
        late = [name for name in step.inputs if name in names[at:]]
        if late:
            raise InputError(
                f"found {step.name!r} before {late[0]!r}, which it reads", remedy="put it after its inputs"
            )
