"""An owner's lease is renewed as long as its run loop is alive, by a thread that checks for signs of life.

A lease that a thread keeps alive by itself says that the process runs, not that anybody in it looks after the
pipeline. So the loop gives a sign with every turn, and the thread stops raising the counter once the last one
is too old: a loop that hangs for good loses its lease. What a turn may take at most (a start at a cold site,
a first batch) is in the patience, so a long move does not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from mooring.contracts.clock import Clock
from mooring.errors import EngineError, OvertakenError, described
from mooring.spark.ownership.owner import Ownership

PATIENCE_S = 300.0
"""A turn without a sign takes no longer: a start at a cold site has 120 s, its first batch 80 s more."""
_BEATS_PER_LEASE = 10


class Pulse:
    def __init__(
        self,
        own: Ownership,
        clock: Clock,
        *,
        patience_s: float = PATIENCE_S,
        also: Callable[[], object] = lambda: None,
    ) -> None:
        """`also` is called with every beat."""
        self._own, self._clock, self._patience_s, self._also = own, clock, patience_s, also
        self._sign_s = self._beat_s = clock.monotonic_s()
        self._overtaken: OvertakenError | None = None
        self._failure = ""
        self._over = threading.Event()

    def sign(self) -> None:
        """The run loop is alive; `OvertakenError` if it has nothing to look after any more.

        After a while without a beat, as when the process was frozen, it is looked up here and now.
        """
        self._sign_s = self._clock.monotonic_s()
        if self._overtaken is not None:
            raise self._overtaken
        if self._sign_s - self._beat_s > self._own.record.lease_s / 2:
            self._own.check()

    def check(self) -> None:
        """`EngineError` with the reason while the lease cannot be kept alive: others may take over then."""
        if self._failure:
            raise EngineError(self._failure)

    @property
    def overtaken(self) -> bool:
        return self._overtaken is not None

    def beat(self) -> bool:
        """Raise the counter if there was a sign of life lately; whether it was raised."""
        if self._clock.monotonic_s() - self._sign_s > self._patience_s:
            return False
        try:
            self._own.beat()
            self._beat_s = self._clock.monotonic_s()
            self._also()
        except OvertakenError as overtaken:
            self._overtaken = overtaken
        except Exception as failure:  # the storage is away or full, say: tried again with the next beat
            self._failure = described(failure)
            return False
        self._failure = ""
        return not self.overtaken

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """For the length of the block a thread beats."""
        thread = threading.Thread(target=self._work, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _work(self) -> None:
        while not self._over.wait(self._own.record.lease_s / _BEATS_PER_LEASE) and not self.overtaken:
            self.beat()
