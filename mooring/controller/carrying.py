"""How a list of moves is carried out: beside the run's turns, or at once.

A move takes seconds, or minutes where a site is slow. On real sites the run goes on looking after everything
else meanwhile, so a thread carries the list out. In virtual time a move takes no time, and a thread would
make the same seed give different bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol


class Carrier(Protocol):
    def begin(self, work: Callable[[], None]) -> Future[None]:
        """Have it done; the future tells when it is over, and what it raised."""
        ...


class AtOnce:
    """It is over when `begin` returns."""

    def begin(self, work: Callable[[], None]) -> Future[None]:
        over: Future[None] = Future()
        try:
            work()
        except Exception as failure:
            over.set_exception(failure)
        else:
            over.set_result(None)
        return over


class InBackground:
    """A thread for each piece of work, which ends with the process."""

    def begin(self, work: Callable[[], None]) -> Future[None]:
        over: Future[None] = Future()

        def carry_out() -> None:
            try:
                work()
            except BaseException as failure:
                over.set_exception(failure)
            else:
                over.set_result(None)

        threading.Thread(target=carry_out, name="carry out moves", daemon=True).start()
        return over
