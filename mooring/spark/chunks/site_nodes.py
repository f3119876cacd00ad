"""Spark sites as nodes: each site's chunks of a frame are a job of its own, on a server of its own speed.

Within one cluster, Spark decides which core runs a task. Several sites give real placement: a chunk runs
where it was sent, at the speed of that site. One thread per site takes the oldest chunks that wait for it,
runs them as a job over Spark Connect, and brings back what came out. `ChunkFlow` decides everything else.

A site that no longer answers is lost, and its chunks go elsewhere. A job that fails at a site which still
answers, such as one whose Python worker was killed, is tried again there. Both are exact: a cell has the same
bytes wherever, and however often, it is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mooring.chunks.data.array_frame import ArrayFrame
from mooring.chunks.data.array_function import ArrayFunction
from mooring.chunks.data.chunk import ComputedChunk
from mooring.chunks.data.chunk_flow import ChunkFlow, GatheredFrame, Sent
from mooring.chunks.data.chunk_time import ChunkTime
from mooring.errors import EngineError, MooringError, SiteLostError
from mooring.spark.chunks.chunk_rows import RESULT_COLUMNS, chunk_batch, computer, results_of, wall_ms
from mooring.spark.sites.endpoint import close_session, first_line, open_session
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandle

MOST_ATTEMPTS = 3
"""A job that failed so often at a site that answers has something wrong with its function."""


@dataclass(frozen=True)
class NodeOptions:
    patience_s: float = 120.0
    """A site that leaves a job unfinished for so long counts as lost."""
    question_s: float = 20.0
    """The same for a plain question, asked after a job has failed."""


class SiteNodes:
    """Sites at work on one flow of chunks. Frames go in by `put`, and whole frames come out of `gathered`."""

    def __init__(
        self,
        sites: Sequence[SiteHandle],
        flow: ChunkFlow,
        functions: Mapping[str, ArrayFunction],
        options: NodeOptions | None = None,
    ) -> None:
        self._sites = list(sites)
        self._flow = flow
        self._functions = dict(functions)
        self._options = options or NodeOptions()
        self._calls = SiteCalls(self._options.question_s)
        self._changed = threading.Condition()
        self._failure: MooringError | None = None
        self._is_closing = False
        self.lost: list[str] = []
        """Sites that were lost, in the order in which they were."""

    @contextmanager
    def working(self) -> Iterator[SiteNodes]:
        """Sessions at all sites and a thread for each, until the block is left."""
        with ThreadPoolExecutor(max_workers=len(self._sites)) as pool:
            sessions = list(pool.map(lambda site: open_session(site.endpoint), self._sites))
            works = [pool.submit(self._work, node, sessions[node]) for node in range(len(self._sites))]
            try:
                yield self
            finally:
                with self._changed:
                    self._is_closing = True
                    self._changed.notify_all()
                for work in works:
                    work.result()
                for session in sessions:
                    close_session(session)
                self._calls.close()

    def put(self, stream: str, frame: ArrayFrame) -> None:
        with self._changed:
            self._flow.arrive(stream, frame, wall_ms())
            self._changed.notify_all()

    def gathered(self, patience_s: float) -> list[GatheredFrame]:
        """The frames that became whole since the last call; waits for at least one."""
        with self._changed:
            made: list[GatheredFrame] = []

            def something_happened() -> bool:
                made.extend(self._flow.gathered())
                return bool(made) or self._failure is not None

            is_there = self._changed.wait_for(something_happened, patience_s)
            if self._failure is not None:
                raise self._failure
            if not is_there:
                raise EngineError(f"no frame was complete within {patience_s:g} s")
            return made

    def _work(self, node: int, session: SparkSession) -> None:
        """The thread of one site."""
        attempts = 0
        while (sent := self._next(node)) is not None:
            try:
                results = self._job(node, session, sent)
            except (PySparkException, MooringError) as failure:
                attempts += 1
                if not self._goes_on(node, session, failure, attempts):
                    return
            else:
                attempts = 0
                self._tell(partial(self._flow.done, node, results, wall_ms()))

    def _next(self, node: int) -> list[Sent] | None:
        """What the site is to compute; None: nothing more."""
        with self._changed:
            while not self._is_closing and self._failure is None:
                if sent := self._flow.take(node):
                    return sent
                self._changed.wait()
        return None

    def _job(
        self, node: int, session: SparkSession, sent: Sequence[Sent]
    ) -> list[tuple[ComputedChunk, ChunkTime]]:
        batch = chunk_batch([each.chunk for each in sent], [node] * len(sent), sent[0].scattered_ms)
        site, cores = self._sites[node], self._cores(node)

        def compute_there() -> pa.Table:
            chunks = session.createDataFrame(pa.Table.from_batches([batch]))
            if cores > 1:  # its cores take chunks from one queue: a task for each, given out by Spark
                number = F.monotonically_increasing_id() % len(sent)
                chunks = chunks.repartitionById(len(sent), number.cast("int"))
            else:
                chunks = chunks.coalesce(1)
            return chunks.mapInArrow(computer(self._functions), RESULT_COLUMNS).toArrow()

        return list(results_of(self._calls.ask(site.name, compute_there, self._options.patience_s)))

    def _cores(self, node: int) -> int:
        embedded = self._sites[node].embedded
        return max(1, round(self._sites[node].capacity)) if embedded is None else embedded.cores

    def _goes_on(self, node: int, session: SparkSession, failure: Exception, attempts: int) -> bool:
        """After a job that failed: whether the site tries again."""
        site = self._sites[node]
        if self._answers(site, session) and not isinstance(failure, SiteLostError):
            if attempts < MOST_ATTEMPTS:
                self._tell(partial(self._flow.give_back, node))
                return True
            said = f"chunks failed {attempts} times at the site {site.name}: {first_line(failure)}"
            self._fail(EngineError(said, remedy="try the function on a whole frame: function.whole(cells)"))
            return False
        self.lost.append(site.name)
        self._tell(partial(self._flow.lose, node))
        return False

    def _answers(self, site: SiteHandle, session: SparkSession) -> bool:
        if not site.is_alive():
            return False
        try:
            self._calls.ask(site.name, lambda: session.conf.get("spark.master"))
        except (PySparkException, SiteLostError):
            return False
        return True

    def _tell(self, change: Callable[[], object]) -> None:
        with self._changed:
            try:
                change()
            except MooringError as failure:
                self._failure = failure
            self._changed.notify_all()

    def _fail(self, failure: MooringError) -> None:
        with self._changed:
            self._failure = failure
            self._changed.notify_all()
