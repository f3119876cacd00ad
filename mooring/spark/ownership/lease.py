"""Coming to own a storage root: at once, after its owner's lease has run out, or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mooring.contracts.clock import Clock
from mooring.disk import DISK, Disk
from mooring.errors import EngineError
from mooring.spark.ownership.owner import LEASE_S, Ownership, Standing, look, take

_LOOK_S = 0.2
_MOST_BETWEEN = 0.25
"""Of a lease: more than that between two looks was no time in which anybody looked."""
_ATTEMPTS = 20
_OTHERS_WERE_QUICKER = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, None}
"""`None`: raised by us, for the same reason."""


class LeaseWatch:
    """How long an owner's counter has stood still, by this process's own clock alone.

    Only time in which this process looked counts. Where the storage was away for a while, or this process
    held up, the owner may have been so too: it gets the rest of its lease to show that it is alive.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, bytes] | None = None
        self._still_s = self._looked_s = 0.0
        self.moved = False
        """Whether it did between any two looks."""

    def stood_still_s(self, standing: Standing, before_s: float) -> float:
        """`before_s` is when the look began, by a clock that only goes forward: should this process be held
        up right after it, the owner is not blamed for that.
        """
        now, between_s = (standing.generation, standing.counter), before_s - self._looked_s
        if now != self._seen:
            self.moved = self._seen is not None
            self._seen, self._still_s = now, 0.0
        elif standing.record is None:
            self._still_s += between_s
        else:
            self._still_s += min(between_s, standing.record.lease_s * _MOST_BETWEEN)
        self._looked_s = before_s
        return self._still_s


@dataclass(frozen=True)
class Claim:
    """To a storage root, for a run of a project."""

    root: Path
    project: Path
    clock: Clock
    lease_s: float = LEASE_S
    standby: bool = False
    """Wait for as long as it takes, also while the root is not there or its disk fails; a root is never made.
    Else an owner that is alive is a refusal, and so is every failure."""
    tell: Callable[[str], None] = lambda line: None
    """Called with what is waited for, and with how it was come by."""
    given_up: Callable[[], bool] = lambda: False
    """Asked while waiting."""
    absent: Callable[[], EngineError | None] = lambda: None
    """Asked before the root is taken: why it is not there. A standby waits for it; others are refused."""
    disk: Disk = DISK

    def settle(self) -> Ownership | None:
        """The root is ours when this returns; None if it was given up, `EngineError` if it is somebody
        else's.
        """
        watch, told, attempts, away = LeaseWatch(), -1, 0, False
        while not self.given_up():
            try:
                standing, may_take = self._looked(watch)
                if may_take:
                    return self._taken(standing)
            except (OSError, EngineError) as failure:
                attempts += 1
                quicker = isinstance(failure, OSError) and failure.errno in _OTHERS_WERE_QUICKER
                if not quicker or attempts > _ATTEMPTS:
                    trouble = self._put_up_with(failure)
                    if not away:
                        self.tell(f"{trouble.message}; waiting until it is usable")
                    away = True
            else:
                if away:
                    self.tell(f"the storage {self.root} is usable again")
                attempts, away = 0, False
                if not self.standby and (standing.state == "here" or watch.moved):
                    raise self._refusal(standing)
                if (owner := standing.record) is not None and standing.generation != told:
                    told = standing.generation
                    self.tell(
                        f"{self.root} belongs to {owner}; waiting until it is released or its lease of "
                        f"{owner.lease_s:g} s expires"
                    )
            self.clock.sleep(_LOOK_S)
        return None

    def _looked(self, watch: LeaseWatch) -> tuple[Standing, bool]:
        """How the root stands, and whether it may be taken."""
        before_s = self.clock.monotonic_s()
        standing = look(self.root, self.disk)
        still_s, record = watch.stood_still_s(standing, before_s), standing.record
        if record is not None and standing.is_taken and still_s < record.lease_s:
            return standing, False
        absence = self.absent()
        if absence is None and self.standby and standing.generation == 0:
            absence = EngineError(f"{self.root} has no storage yet, and a standby does not create one")
        if absence is not None:
            raise absence from FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.root))
        return standing, True

    def _put_up_with(self, failure: OSError | EngineError) -> EngineError:
        """What to say of a failure. Disks fail for a while, network disks above all: a standby waits."""
        trouble, cause = (
            (self._trouble(failure), failure)
            if isinstance(failure, OSError)
            else (failure, failure.__cause__)
        )
        if not (self.standby and isinstance(cause, OSError)):
            raise trouble from cause
        return trouble

    def _taken(self, standing: Standing) -> Ownership:
        own = take(self.root, standing, self.project, self.lease_s, self.disk)
        if standing.is_taken:
            self.tell(f"took over from {standing.record}, whose lease expired")
        elif standing.state == "gone":
            self.tell(f"took over from {standing.record}, which ended without releasing its lease")
        return own

    def _trouble(self, failure: OSError) -> EngineError:
        return EngineError(
            f"the storage {self.root} cannot be taken over: {failure}",
            remedy="check that it exists, is writable and is not full; nothing was started",
        )

    def _refusal(self, standing: Standing) -> EngineError:
        return EngineError(
            f"the project already runs: {self.root} belongs to {standing.record}",
            remedy="see `mooring status`, end it with `mooring stop`, or wait for it with --standby",
        )
