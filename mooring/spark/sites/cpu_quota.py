"""A site's capacity in cores, made real where the machine allows it: a control group with a CPU quota."""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

_PERIOD_US = 100_000
"""The kernel's default accounting period."""
_PREFIX = "mooring-"


@dataclass(frozen=True)
class _Place:
    """Where a group could be made: parent folder, the file holding its limit, and what to write there."""

    parent: Path
    limit_file: str
    limit: str


class CpuQuota:
    """A quota for one site, in force from `hold` on. The keeper removes the group when the site ends."""

    def __init__(self, site: str, cores: float) -> None:
        self.cores = cores
        self._name = f"{_PREFIX}{site}-{uuid.uuid4().hex[:8]}"
        self._places = _hierarchies(cores)
        self._held_in: _Place | None = None

    @property
    def groups(self) -> list[Path]:
        """Folders that `hold` may make, for whoever cleans up."""
        return [place.parent / self._name for place in self._places]

    def hold(self, pid: int) -> str:
        """Hold a process, its threads and what it starts from now on to the quota; says what came of it."""
        reasons = []
        for place, group in zip(self._places, self.groups, strict=True):
            _remove_empty(place.parent)
            try:
                group.mkdir()
                (group / place.limit_file).write_text(place.limit)
                (group / "cgroup.procs").write_text(str(pid))
                self._held_in = place
                return f"CPU quota {self.cores:g} cores"
            except OSError as failure:
                reasons.append(f"{group}: {failure.strerror}")
                with contextlib.suppress(OSError):
                    group.rmdir()
        return f"no CPU quota ({'; '.join(reasons) or 'no control groups on this machine'})"

    def held_back_s(self) -> float | None:
        """Seconds so far in which the group had used up its quota and more was wanted, in whole periods; None
        where there is no group, or nobody counts.
        """
        counted = self.periods()
        return None if counted is None else counted[1] * _PERIOD_US / 1e6

    def periods(self) -> tuple[int, int] | None:
        """Periods so far in which the group wanted CPU, and those of them in which it was held back."""
        if self._held_in is None:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError):
            lines = (self._held_in.parent / self._name / "cpu.stat").read_text().splitlines()
            counts = dict(line.split() for line in lines)
            return int(counts["nr_periods"]), int(counts["nr_throttled"])
        return None

    def limit_cores(self) -> float | None:
        """What the group is held to now, whoever set it; None: no group, or no limit that could be read."""
        if self._held_in is None:
            return None
        group, name = self._held_in.parent / self._name, self._held_in.limit_file
        with contextlib.suppress(OSError, ValueError):
            quota, *period = (group / name).read_text().split()
            period_us = period[0] if period else (group / "cpu.cfs_period_us").read_text()
            cores = float(quota) / float(period_us)  # "max" and -1: not limited
            return cores if cores > 0.0 else None
        return None


def _remove_empty(parent: Path) -> None:
    """Groups whose site and keeper were both killed; the kernel removes none that is in use."""
    for group in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            group.rmdir()


def _hierarchies(cores: float) -> list[_Place]:
    try:
        own = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    quota_us, places = max(1_000, round(cores * _PERIOD_US)), []
    for line in own:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if controllers == "" and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            places.append(_Place(Path("/sys/fs/cgroup") / inside, "cpu.max", f"{quota_us} {_PERIOD_US}"))
        elif "cpu" in controllers.split(","):
            base = Path("/sys/fs/cgroup") / controllers
            # Inside a container the path may name the host's tree; what is mounted is then our own group.
            parent = base / inside if (base / inside).is_dir() else base
            places.append(_Place(parent, "cpu.cfs_quota_us", str(quota_us)))
    return places
