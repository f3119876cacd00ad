"""Rows for the quota bench's streams: small files landing at set rates, each row with its instant."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring.atomic_files import write_whole

_KEPT_FILES = 20
"""Files that stay behind what was read: Spark may still have the newest of them in a batch under way."""


class Feeder:
    """Writes in a thread of its own; a late tick makes up for what it missed."""

    def __init__(self, landing: Path, streams: list[str], tick_s: float = 1.0) -> None:
        self._landing, self._tick_s = landing, tick_s
        self._rates = dict.fromkeys(streams, 0.0)
        self._owed = dict.fromkeys(streams, 0.0)
        self._fed = dict.fromkeys(streams, 0)
        self._files: dict[str, deque[tuple[int, Path]]] = {name: deque() for name in streams}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._failure: OSError | None = None

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Rows per second of each stream from now on."""
        with self._lock:
            self._rates = {name: float(rates.get(name, 0.0)) for name in self._rates}

    def fed(self) -> dict[str, int]:
        """Rows landed so far."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            return dict(self._fed)

    def remove_read(self, rows_read: Mapping[str, int]) -> None:
        """Delete files that were read, or Spark would list more of them with every batch."""
        for name, files in self._files.items():
            while len(files) > _KEPT_FILES and files[_KEPT_FILES][0] <= rows_read.get(name, 0):
                files.popleft()[1].unlink(missing_ok=True)

    @contextlib.contextmanager
    def feeding(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="quota bench feeder", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(until_tick_s(time.time(), self._tick_s)):
            now = time.monotonic()
            try:
                with self._lock:
                    self.land(now - last)
            except OSError as failure:
                self._failure = failure
                return
            last = now

    def land(self, elapsed_s: float) -> None:
        """Write what came due; parts of rows wait for the next tick."""
        for name, rate in self._rates.items():
            self._owed[name] += rate * elapsed_s
            count = int(self._owed[name])
            if count > 0:
                self._owed[name] -= count
                self._write(name, count)

    def _write(self, name: str, count: int) -> None:
        at, first = f"{time.time():.3f}", self._fed[name]
        text = "".join(f'{{"n":{first + i},"at":{at}}}\n' for i in range(count))
        self._fed[name] += count
        file = self._landing / name / f"{first:09d}.json"
        write_whole(file, text)
        self._files[name].append((self._fed[name], file))


def until_tick_s(now_s: float, tick_s: float) -> float:
    """Ticks are halfway between the multiples of a tick, and Spark's triggers at multiples: rows then wait
    half a trigger in the mean, in every run alike.

    >>> until_tick_s(7.2, 1.0), until_tick_s(7.5, 1.0)
    (0.2999999999999998, 1.0)
    """
    return tick_s - (now_s + tick_s / 2.0) % tick_s
