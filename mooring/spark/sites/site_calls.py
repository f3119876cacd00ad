"""Calls to a site that never wait for ever.

A Connect client has no deadline of its own: a site that is frozen, or unreachable without a word, would keep
the caller waiting for good. So every site has a lane, a thread that makes one call at a time. A caller that
gets no answer in time goes on without it, and until the lane is free again the site counts as silent.

A full site may be silent and well: its cores belong to others. Before it counts as lost it gets a call that
needs no slot, over a lane of its own. If it answers that, it is busy. A call that may run a job on the site's
executors goes over another lane, so that no ordinary one waits behind it, and it may wait for a slot for as
long as others hold them. An ordinary call needs no slot: left without an answer for several times as long, it
tells a broken server, even if other calls are answered.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

from mooring.errors import EngineError, SiteBusyError, SiteLostError

T = TypeVar("T")
FIRST_PATIENCE_S = 20.0
"""For an answer of a site before a run has begun."""
PULSE_SHARE = 0.25
"""Of the time in which a site has to answer: left for the question whether it answers at all."""
MOST_BUSY = 5.0
"""Times as long an ordinary request may wait at a site that answers others."""


class SiteSilentError(Exception):
    """No answer in time; whether the site did what it was asked is not known."""


class Lane:
    """Asks one site, one thing at a time, from a thread that ends with the process."""

    def __init__(self, site: str) -> None:
        self.site = site
        self._orders: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._unanswered: Future[Any] | None = None
        self._since_s = 0.0
        self._thread: threading.Thread | None = None

    def ask(
        self, call: Callable[[], T], patience_s: float, late: Callable[[T], object] = lambda answer: None
    ) -> T:
        """What `call` returns or raises; `SiteSilentError` if that takes longer than `patience_s`, or at
        once while an earlier call is still unanswered. An answer that nobody waits for any more is handed to
        `late`, to be undone.
        """
        if self.is_silent():
            raise SiteSilentError(f"site {self.site!r} has not answered an earlier call")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"site {self.site}", daemon=True)
            self._thread.start()
        answer: Future[T] = Future()
        self._since_s = time.monotonic()
        self._orders.put((answer, call))
        try:
            return answer.result(patience_s)
        except NotInTime:
            if answer.done():  # the call itself timed out somewhere
                raise
            self._unanswered = answer
            answer.add_done_callback(lambda over: None if over.exception() else late(over.result()))
            raise SiteSilentError(f"site {self.site!r} did not answer within {patience_s:g} s") from None

    def close(self) -> None:
        """Let the thread end once it has nothing left to ask."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread = None

    def is_silent(self) -> bool:
        """Whether an earlier call still waits for its answer."""
        if self._unanswered is not None and self._unanswered.done():
            self._unanswered = None
        return self._unanswered is not None

    def silent_s(self) -> float:
        """For how long a call has been waiting for its answer."""
        return time.monotonic() - self._since_s if self.is_silent() else 0.0

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            answer, call = order
            try:
                result = call()
            except BaseException as failure:
                answer.set_exception(failure)
            else:
                answer.set_result(result)


class SiteCalls:
    """Asks the sites of a run, each over a lane of its own; one that is silent counts as lost."""

    def __init__(self, silence_s: float, pulse: Callable[[str], object] | None = None) -> None:
        self.silence_s = silence_s
        """A site that leaves an ordinary question unanswered for so long counts as lost."""
        self._pulse = pulse
        """Asks a site something that takes it no slot; raises if it does not answer."""
        self._lanes: dict[str, Lane] = {}
        self._job_lanes: dict[str, Lane] = {}
        """For calls that may run a job, and wait for a slot."""
        self._pulses: dict[str, Lane] = {}
        self._closed = False

    def ask(
        self,
        site: str,
        call: Callable[[], T],
        patience_s: float | None = None,
        late: Callable[[T], object] = lambda answer: None,
        *,
        jobs: bool = False,
    ) -> T:
        """What a call to the site gives; if that takes longer than `patience_s`, `SiteBusyError` where the
        site answers otherwise, else `SiteLostError`. `late` gets an answer that comes after that. `jobs`: it
        may run a job on the site's executors.
        """
        if self._closed:
            raise EngineError(f"the run is over: it sends no more calls to the site {site!r}")
        patience_s = self.silence_s if patience_s is None else patience_s
        pulse_s = 0.0 if self._pulse is None else PULSE_SHARE * min(patience_s, self.silence_s)
        lanes = self._job_lanes if jobs else self._lanes
        lane = lanes.setdefault(site, Lane(site))
        try:
            return lane.ask(call, patience_s - pulse_s, late)
        except SiteSilentError as silent:
            waits = jobs or lane.silent_s() < MOST_BUSY * max(patience_s, self.silence_s)
            if waits and self._answers(site, pulse_s):
                raise SiteBusyError(
                    f"the site {site!r} answers slowly: {silent}, but it answers other requests",
                    remedy="it is full: add cores, or move work away from it",
                ) from silent
            raise SiteLostError(
                f"the site {site!r} does not answer: {silent}",
                remedy="check whether it is overloaded, stopped or disconnected",
            ) from silent

    def _answers(self, site: str, patience_s: float) -> bool:
        pulse = self._pulse
        if pulse is None:
            return False
        try:
            self._pulses.setdefault(site, Lane(f"{site} (pulse)")).ask(lambda: pulse(site), patience_s)
        except Exception:  # whatever it was, it is no answer
            return False
        return True

    def renew(self, site: str) -> None:
        """The site is back: a call that still waits, for a server that may be gone, is left to itself."""
        for lanes in (self._lanes, self._job_lanes, self._pulses):
            if site in lanes and lanes[site].is_silent():
                lanes.pop(site).close()

    def close(self) -> None:
        """Ask no site anything more; who tries is told that the run is over."""
        self._closed = True
        for lanes in (self._lanes, self._job_lanes, self._pulses):
            for lane in lanes.values():
                lane.close()
            lanes.clear()
