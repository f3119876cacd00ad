"""Holding a project for a run: its storage root, whose lease is kept alive, and the lock of its folder.

The root counts: it has one owner among all checkouts and machines. The lock says which process runs the
project from this folder, for those who ask on this machine.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mooring.contracts.clock import Clock
from mooring.errors import EngineError, MooringError
from mooring.spark.ownership.lease import Claim
from mooring.spark.ownership.lease_renewal import PATIENCE_S, Pulse
from mooring.spark.ownership.owner import LEASE_S
from mooring.spark.pipeline.project import Project
from mooring.spark.runs.known_root import KnownRoot, was_used
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.storage_root import StorageRoot, format_of, identity_of, stamp_format

STANDBY_LOG = "standby.log"
"""What a standby in the background prints; the run it waits for may be of the same folder."""


class GivenUpError(MooringError):
    """Somebody asked a standby to end, and it has."""

    exit_code = 0


@dataclass(frozen=True)
class HoldOptions:
    standby: bool = False
    """Wait until the project's owner lets go or is gone, instead of refusing to run beside it."""
    lease_s: float = LEASE_S
    tell: Callable[[str], None] = lambda line: None
    """Called with what is waited for, and what was found."""
    given_up: Callable[[], bool] = lambda: False
    """Asked while waiting."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True)
class Hold:
    """A project that this process runs."""

    owned: OwnedFolder
    pulse: Pulse
    sites_folder: Path
    """For the embedded sites of this run, and of no other."""


@contextlib.contextmanager
def held_project(
    project: Project, files: RunFiles, options: HoldOptions | None = None, *, fresh: bool = False
) -> Iterator[Hold]:
    """Own the project for the length of the block; `EngineError` if somebody else does, or if the storage
    root is not the one that the project stores in. One that has nothing in it may follow a `fresh` start.
    """
    chosen = options or HoldOptions()
    root, clock = project.storage_root, chosen.clock
    with contextlib.ExitStack() as stack:
        if chosen.standby:
            files.log = files.folder / STANDBY_LOG
        else:
            stack.enter_context(files.held())
        format_of(root.folder)  # one that is not ours to read is refused before anything is touched
        unused = not was_used(root.folder)
        identity = _identity(root, files.known, fresh=fresh, standby=chosen.standby)
        own = Claim(
            root.folder,
            project.folder,
            clock,
            chosen.lease_s,
            standby=chosen.standby,
            tell=chosen.tell,
            given_up=chosen.given_up,
            absent=partial(_absence, root.folder, identity),
        ).settle()
        if own is None:
            raise GivenUpError("stopped while waiting for the project; nothing was started")
        stack.callback(own.release)
        stack.callback(files.let_go)
        # Before anything else is written: an older Mooring refuses it from now on.
        stamp_format(root.folder, partial(own.owned.replace, on_disk=True))
        # One that was overtaken may still be there, frozen, with its sites: they keep their folder.
        alone = files.hold()
        sites = project.work_folder / ("sites" if alone else f"sites-{own.generation:06d}")
        if not alone:
            stack.callback(shutil.rmtree, sites, ignore_errors=True)
        files.known.remember(root.folder)
        if unused and own.generation == 1:
            chosen.tell(f"{root.folder} is a new storage root, {identity}")
        files.copy_status_to(own.owned.folder)
        # The end of a run waits for two triggers until every fragment is between two batches.
        patience_s = PATIENCE_S + 4 * project.settings.trigger_s
        pulse = Pulse(own, clock, patience_s=patience_s, also=files.hold)
        stack.enter_context(pulse.kept())
        yield Hold(own.owned, pulse, sites)


def _identity(root: StorageRoot, known: KnownRoot, *, fresh: bool, standby: bool) -> str:
    """Of the root, which a first run makes and a standby never does."""
    missing = known.missing(root.folder)
    if missing is not None and not (fresh and missing.vacant):
        raise missing
    if not standby:
        root.begin()
    if (identity := identity_of(root.folder)) is None:
        raise EngineError(
            f"found no storage in {root.folder}, expected that of the run to stand by for",
            remedy="mount it there, or start the first run without --standby",
        )
    return identity


def _absence(root: Path, identity: str) -> EngineError | None:
    """Why the root must not be taken: it was there, and may be mounted again."""
    found = identity_of(root)
    if found == identity:
        return None
    return EngineError(
        f"the storage {identity} is missing from {root}: found {'no mark' if found is None else found}",
        remedy="mount it there again",
    )
