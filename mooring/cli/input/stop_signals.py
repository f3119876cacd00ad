"""Ctrl-C and SIGTERM while something long runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class StopSignals:
    """Ctrl-C and SIGTERM: before the pipeline runs they interrupt, afterwards they ask for a clean end."""

    def __init__(self) -> None:
        self.gentle = False
        self.name = ""
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def __call__(self, number: int, frame: Any) -> None:
        impatient = self.asked
        self.name = signal.Signals(number).name
        self._asked.set()
        if not self.gentle or impatient:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stop_signals() -> Iterator[StopSignals]:
    stopping = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.signal(number, stopping) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
