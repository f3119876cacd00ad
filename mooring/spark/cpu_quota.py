"""A site's capacity in cores, made real where the machine allows it: a control group with a CPU quota."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

_PERIOD_US = 100_000
"""The kernel's default accounting period."""


@dataclass(frozen=True)
class CpuQuota:
    """A control group made for one site. The site's keeper removes it when the site ends."""

    group: Path
    cores: float

    def admit(self, pid: int) -> None:
        """Hold the process, all its threads, and whatever it starts from now on, to the quota."""
        (self.group / "cgroup.procs").write_text(str(pid))


def make_quota(name: str, cores: float) -> CpuQuota | str:
    """A group limited to `cores`, or the reason why this machine gives none."""
    reasons = []
    for parent, limit_file, limit in _hierarchies(cores):
        group = parent / f"mooring-{name}-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
        except OSError as failure:
            reasons.append(f"{parent}: {failure.strerror}")
            continue
        try:
            (group / limit_file).write_text(limit)
            return CpuQuota(group, cores)
        except OSError as failure:
            reasons.append(f"{group / limit_file}: {failure.strerror}")
            group.rmdir()
    return "; ".join(reasons) if reasons else "no control groups on this machine"


def _hierarchies(cores: float) -> list[tuple[Path, str, str]]:
    """Where a group could be made: parent folder, the file holding its limit, and what to write there."""
    try:
        own = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    quota_us, places = max(1_000, round(cores * _PERIOD_US)), []
    for line in own:
        _, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if controllers == "" and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            places.append((Path("/sys/fs/cgroup") / inside, "cpu.max", f"{quota_us} {_PERIOD_US}"))
        elif "cpu" in controllers.split(","):
            base = Path("/sys/fs/cgroup") / controllers
            # Inside a container the path may name the host's tree; what is mounted is then our own group.
            parent = base / inside if (base / inside).is_dir() else base
            places.append((parent, "cpu.cfs_quota_us", str(quota_us)))
    return places
