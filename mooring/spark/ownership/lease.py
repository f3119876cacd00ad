"""Coming to own a storage root: at once, after its owner's lease has run out, or not at all."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mooring.deployment.clock import Clock
from mooring.errors import EngineError
from mooring.spark.ownership.owner import LEASE_S, Ownership, Standing, look, take

_LOOK_S = 0.2
_ATTEMPTS = 20
_OTHERS_WERE_QUICKER = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, None}
"""`None`: raised by us, for the same reason."""


class LeaseWatch:
    """How long an owner's counter has stood still, by this process's own clock alone."""

    def __init__(self) -> None:
        self._seen: tuple[int, bytes] | None = None
        self._since_s = 0.0
        self.moved = False
        """Whether it did between any two looks."""

    def stood_still_s(self, standing: Standing, before_s: float) -> float:
        """`before_s` is when the look began, by a clock that only goes forward: should this process be held
        up right after it, the owner is not blamed for that.
        """
        now = (standing.generation, standing.counter)
        if now != self._seen:
            self.moved = self._seen is not None
            self._seen, self._since_s = now, before_s
        return before_s - self._since_s


@dataclass(frozen=True)
class Claim:
    """To a storage root, for a run of a project."""

    root: Path
    project: Path
    clock: Clock
    lease_s: float = LEASE_S
    standby: bool = False
    """Wait for as long as it takes; else an owner that is alive is a refusal."""
    tell: Callable[[str], None] = lambda line: None
    """Called with what is waited for, and with how it was come by."""
    given_up: Callable[[], bool] = lambda: False
    """Asked while waiting."""
    absent: Callable[[], EngineError | None] = lambda: None
    """Asked before the root is taken: why it is not there. A standby waits for it; others are refused."""

    def settle(self) -> Ownership | None:
        """The root is ours when this returns; None if it was given up, `EngineError` if it is somebody
        else's.
        """
        watch, told, attempts = LeaseWatch(), -1, 0
        away = False
        while not self.given_up():
            before_s = self.clock.monotonic_s()
            standing = look(self.root)
            still_s = watch.stood_still_s(standing, before_s)
            if standing.record is None or not standing.is_taken or still_s >= standing.record.lease_s:
                if (absence := self.absent()) is not None:
                    if not self.standby:
                        raise absence
                    if not away:
                        self.tell(f"{absence.message}; waiting until it is back")
                    away = True
                    self.clock.sleep(_LOOK_S)
                    continue
                away = False
                try:
                    return self._taken(standing)
                except OSError as failure:
                    attempts += 1
                    if failure.errno not in _OTHERS_WERE_QUICKER or attempts > _ATTEMPTS:
                        raise self._trouble(failure) from failure
                self.clock.sleep(_LOOK_S)
                continue
            if not self.standby and (standing.state == "here" or watch.moved):
                raise self._refusal(standing)
            if standing.generation != told:
                told = standing.generation
                self.tell(
                    f"{self.root} belongs to {standing.record}; waiting until it is released or its lease of "
                    f"{standing.record.lease_s:g} s has run out"
                )
            self.clock.sleep(_LOOK_S)
        return None

    def _taken(self, standing: Standing) -> Ownership:
        own = take(self.root, standing, self.project, self.lease_s)
        if standing.is_taken:
            self.tell(f"took over from {standing.record}, whose lease ran out")
        elif standing.state == "gone":
            self.tell(f"went on from {standing.record}, which ended without a word")
        return own

    def _trouble(self, failure: OSError) -> EngineError:
        return EngineError(
            f"the storage {self.root} cannot be taken over: {failure}",
            remedy="see that it is there, writable and not full; nothing was started",
        )

    def _refusal(self, standing: Standing) -> EngineError:
        return EngineError(
            f"the project already runs: {self.root} belongs to {standing.record}",
            remedy="see `mooring status`, end it with `mooring stop`, or wait for it with --standby",
        )
