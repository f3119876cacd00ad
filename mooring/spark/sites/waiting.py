"""Calls that have an end and a name, made by the thread that needs the answer.

Some of what happens before a run begins has to be done in the main thread (definition files are guarded there
only), so it cannot go over a lane. A thread beside it says what is waited for, and interrupts the session's
operations when time is up; a site that does not answer even that loses its connection.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import SparkSession

from mooring.errors import EngineError, SiteLostError
from mooring.quantity import decimal

PATIENCE_S = 90.0
"""For a task at a site before a run has begun: its executors may have to be started first."""
TELL_EVERY_S = 10.0
_INTERRUPT_PATIENCE_S = 5.0
_PULSE = "VALUES (1)"
"""Answered by the driver, without an executor."""

Tell = Callable[[str], None]


def say_nothing(line: str) -> None:
    """Where nobody watches."""


@contextlib.contextmanager
def waited_for(
    session: SparkSession,
    site: str,
    what: str,
    *,
    patience_s: float = PATIENCE_S,
    tell: Tell = say_nothing,
) -> Iterator[None]:
    """The block calls this session only, for no longer than `patience_s`; `tell` is called with what is
    waited for, every ten seconds.
    """
    over, expired = threading.Event(), threading.Event()
    answers: list[bool] = []

    def watch() -> None:
        began = time.monotonic()
        while not over.wait(min(TELL_EVERY_S, patience_s)):
            waited_s = time.monotonic() - began
            if waited_s < patience_s:
                so_far = f"{decimal(waited_s, 2)} s of at most {decimal(patience_s)} s"
                tell(f"site {site!r}: waiting for {what} ({so_far})")
                continue
            answers.append(_in_time(lambda: session.sql(_PULSE).collect()))
            if over.is_set():
                return
            expired.set()
            _in_time(session.interruptAll)
            if not over.wait(_INTERRUPT_PATIENCE_S):
                session.client.close()  # ends a call that still waits
            return

    watcher = threading.Thread(target=watch, name=f"waiting for {site}", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as failure:
        if not expired.is_set():
            raise
        raise _late(site, what, patience_s, answers=any(answers)) from failure
    finally:
        over.set()


def _late(site: str, what: str, patience_s: float, *, answers: bool) -> EngineError:
    late = f"site {site!r}: {what} did not end within {decimal(patience_s)} s"
    if not answers:
        return SiteLostError(
            f"{late}, and the site does not answer other requests",
            remedy="check that its Spark Connect server runs and is reachable",
        )
    return EngineError(
        f"{late}. Its server answers, but runs no task: it has no executors, or others use all their cores",
        remedy=(
            "look at the application in the web page of the cluster's master; add workers, or let each "
            "application that shares the cluster take its part (spark.cores.max): "
            f"`mooring check --site {site}` says how much"
        ),
    )


def _in_time(call: Callable[[], object]) -> bool:
    """Whether that comes back by itself, soon."""
    done = threading.Event()

    def run(done: threading.Event) -> None:
        with contextlib.suppress(Exception):
            call()
            done.set()

    threading.Thread(target=partial(run, done), daemon=True).start()
    return done.wait(_INTERRUPT_PATIENCE_S)
